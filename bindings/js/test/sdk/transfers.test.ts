/** Large files and directories, up and down, over a network that misbehaves. */

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileNotFoundError, InvalidArgumentError, OnceboxError, SandboxError } from '../../src/sdk/errors.ts';
import { FileType } from '../../src/sdk/files/entry.ts';
import { localFiles } from '../../src/sdk/files/local.node.ts';
import { below, downloadDir, Selection, type TransferProgress, type Tree } from '../../src/sdk/files/tree.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, same, transports, until, useServer } from './server.ts';

const MIB = 1 << 20;

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oncebox-transfers-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Files below a directory of this machine, with what they hold; directories end in a slash. */
async function tree(root: string, above = ''): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const entry of await readdir(join(root, above), { withFileTypes: true })) {
    const path = above + entry.name;
    if (entry.isDirectory()) Object.assign(all, { [`${path}/`]: '' }, await tree(root, `${path}/`));
    else all[path] = entry.isFile() ? await readFile(join(root, path), 'latin1') : 'other';
  }
  return all;
}

describe('paths', () => {
  test('patterns choose by the whole path', () => {
    const selection = new Selection({ include: ['**/*.py'], exclude: ['target'] });
    expect(['a.py', 'deep/er/a.py', 'a.rs'].map((each) => selection.takesFile(each))).toEqual([true, true, false]);
    expect(['target', 'src/target'].map((each) => selection.leavesOut(each))).toEqual([true, false]);
    expect([selection.takesEmpty, new Selection({}).takesEmpty]).toEqual([false, true]);
    expect(() => new Selection({ include: ['a['] })).toThrow(InvalidArgumentError);
    expect([below('/', 'a'), below('d/', 'a/b'), below('d', '')]).toEqual(['/a', 'd/a/b', 'd']);
  });

  test.each(['', '.', '..', 'a/b', '/etc', 'a\0b'])('no name leads out: %j', async (name) => {
    expect(localFiles.isName(name)).toBe(false);
    const entry = { name, path: `/d/${name}`, type: FileType.FILE, size: 1 };
    const lying = { list: async () => [entry], download: () => expect.unreachable() } as unknown as Tree;
    await expect(downloadDir(lying, 'd', folder, {})).rejects.toThrow(/would lie outside its directory/);
    expect(localFiles.isName('..a')).toBe(true);
  });
});

describe.skipIf(!available).each(transports)('transfers over %s', (transport) => {
  const running = useServer();
  const local = {
    get server() {
      return running.server;
    },
    get opts() {
      return { ...running.opts, transport };
    },
  };
  const cut = (on: string, when: 'before' | 'after', more: object = {}) => ({
    on: [on],
    times: 1,
    ...more,
    fault: { cut: { when, how: 'reset' } },
  });
  const bytes = async (sandbox: Sandbox, path: string) => sandbox.files.read(path, { format: 'bytes' });

  test('a large file goes in parts, each again where it was cut or kept in half, and is joined once', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = randomBytes(33 * MIB);
    const from = join(folder, 'from');
    await writeFile(from, data);
    await local.server.faults({
      rules: [
        cut('writeFiles', 'before'),
        { on: ['writeFiles'], skip: 1, times: 1, fault: { half_write: {} } },
        cut('writeFiles', 'after', { skip: 1 }),
        { on: ['composeFiles'], skip: 1, times: 1, fault: { cut: { when: 'after', how: 'reset' } } },
      ],
    });
    const told: [number, number | undefined][] = [];
    const onProgress = (done: number, total: number | undefined) => void told.push([done, total]);
    const written = await sandbox.files.upload(pathToFileURL(from), 'dir/large', { onProgress });
    expect(await local.server.fired()).toEqual([1, 1, 1, 1]);
    await local.server.heal();
    expect(written).toMatchObject({ name: 'large', path: '/home/user/dir/large' });
    expect(same(await bytes(sandbox, 'dir/large'), data)).toBe(true);
    expect((await sandbox.files.list('dir')).map(({ name }) => name)).toEqual(['large']);
    expect(told).toEqual([16, 32, 33].map((done) => [done * MIB, data.length]));
  });

  test('a Blob and a stream go the same way, a stream although it can be read once', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = randomBytes(17 * MIB);
    for (const [name, from] of [
      ['blob', new Blob([data])],
      ['stream', new Blob([data]).stream()],
    ] as const) {
      await local.server.faults({ rules: [cut('writeFiles', 'after'), cut('writeFiles', 'before', { skip: 1 })] });
      await sandbox.files.upload(from, name);
      expect(await local.server.fired(), name).toEqual([1, 1]);
      expect((await local.server.counts()).composeFiles, name).toBe(1);
      await local.server.heal();
      expect(same(await bytes(sandbox, name), data), name).toBe(true);
    }
    await sandbox.files.upload(new Blob(['small']).stream(), 'small');
    expect(await sandbox.files.read('small')).toBe('small');
    await sandbox.files.upload(new Blob([]), 'empty');
    expect((await sandbox.files.getInfo('empty')).size).toBe(0);
  });

  test('a server that cannot join gets a file whole', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = randomBytes(17 * MIB);
    const from = join(folder, 'from');
    await writeFile(from, data);
    const missing = { on: ['composeFiles'], fault: { status: { code: 404, when: 'before' } } };
    await local.server.faults({ rules: [missing, cut('writeFiles', 'before')] });
    await sandbox.files.upload(from, 'file');
    await sandbox.files.upload(new Blob([data]), 'blob');
    await sandbox.files.upload(new Blob([data]).stream(), 'stream');
    expect((await local.server.fired())[0]).toBe(1);
    await local.server.heal();
    for (const name of ['file', 'blob', 'stream']) expect(same(await bytes(sandbox, name), data), name).toBe(true);
  });

  test('the parts of an upload that fails, or is given up, are removed', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = new Blob([randomBytes(33 * MIB)]);
    const full = { on: ['writeFiles'], skip: 1, fault: { status: { code: 507, when: 'before' } } };
    await local.server.faults({ rules: [full] });
    await expect(sandbox.files.upload(data, 'd/full')).rejects.toBeInstanceOf(OnceboxError);
    await local.server.heal();
    expect(await sandbox.files.list('d')).toEqual([]);
    const control = new AbortController();
    const reason = new Error('mine');
    const onProgress = () => control.abort(reason);
    await expect(sandbox.files.upload(data, 'd/given-up', { signal: control.signal, onProgress })).rejects.toBe(reason);
    await until(async () => (await sandbox.files.list('d')).length === 0);
  });

  test('a download goes on where it was cut, and appears when all of it has come', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = randomBytes(5 * MIB);
    await sandbox.files.write('large', data);
    const to = join(folder, 'to');
    await writeFile(to, 'before');
    await local.server.faults({
      rules: [100_000, 700_000, 2_000_000].map((after) => ({
        on: ['readFile'],
        times: 1,
        fault: { cut_answer: { after: { bytes: after }, how: 'reset' } },
      })),
    });
    const told: number[] = [];
    const received = await sandbox.files.download('large', to, { onProgress: (done) => void told.push(done) });
    expect(received).toBe(data.length);
    expect(told.at(-1)).toBe(data.length);
    expect(same(await readFile(to), data)).toBe(true);
    expect(await local.server.fired()).toEqual([1, 1, 1]);
    await local.server.heal();
    await expect(sandbox.files.download('missing', to)).rejects.toBeInstanceOf(FileNotFoundError);
    const control = new AbortController();
    const { signal } = control;
    const onProgress = () => control.abort(new Error('mine'));
    await expect(sandbox.files.download('large', to, { signal, onProgress })).rejects.toThrow('mine');
    // What was there is untouched, and nothing lies beside it.
    expect(same(await readFile(to), data)).toBe(true);
    expect(await readdir(folder)).toEqual(['to']);
  });

  test('a directory goes up and comes down as it was, with what is left out said', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const [from, to] = [join(folder, 'from'), join(folder, 'to')];
    await mkdir(join(from, 'src/deep'), { recursive: true });
    await mkdir(join(from, 'empty'));
    await mkdir(join(from, 'target/debug'), { recursive: true });
    await writeFile(join(from, 'target/debug/big'), 'left out');
    for (let n = 0; n < 40; n++) await writeFile(join(from, `src/deep/${n} "ä".txt`), `number ${n}`);
    await writeFile(join(from, 'src/large'), randomBytes(3 * MIB));
    await symlink('/etc/passwd', join(from, 'link'));
    await local.server.faults({ rules: [cut('writeFiles', 'after'), cut('writeFiles', 'before')] });
    const told: TransferProgress[] = [];
    const up = await sandbox.files.uploadDir(from, 'project', {
      exclude: ['target'],
      onProgress: (progress) => void told.push(progress),
    });
    expect(up).toEqual({ files: 41, bytes: told.at(-1)?.totalBytes, skipped: ['link'] });
    expect(told.at(-1)).toMatchObject({ files: 41, totalFiles: 41, bytes: up.bytes });
    await sandbox.commands.run('ln -s /etc project/link2');
    await local.server.faults({
      rules: [{ on: ['readFile'], times: 3, fault: { cut_answer: { after: { bytes: 5 }, how: 'reset' } } }],
    });
    const down = await sandbox.files.downloadDir('project', to);
    expect(await local.server.fired()).toEqual([3]);
    await local.server.heal();
    expect(down).toEqual({ files: 41, bytes: up.bytes, skipped: ['link2'] });
    await rm(join(from, 'target'), { recursive: true });
    await rm(join(from, 'link'));
    expect(await tree(to)).toEqual(await tree(from));
    const some = join(folder, 'some');
    const chosen = await sandbox.files.downloadDir('project', some, { include: ['src/*'] });
    expect([chosen.files, Object.keys(await tree(some))]).toEqual([1, ['src/', 'src/large']]);
  });

  test('what is wrong here is refused, and named', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { files } = sandbox;
    const missing = join(folder, 'missing');
    await expect(files.upload(missing, 'x')).rejects.toThrow(missing);
    await expect(files.upload(folder, 'x')).rejects.toThrow(/it is no regular file|EISDIR/);
    await expect(files.uploadDir(missing, 'x')).rejects.toBeInstanceOf(InvalidArgumentError);
    await expect(files.uploadDir(folder, 'x', { exclude: ['{'] })).rejects.toBeInstanceOf(InvalidArgumentError);
    await sandbox.files.write('there', 'x');
    await expect(files.download('there', join(missing, 'to'))).rejects.toBeInstanceOf(InvalidArgumentError);
    await expect(files.downloadDir('nowhere', folder)).rejects.toBeInstanceOf(SandboxError);
    if (process.getuid?.() !== 0) {
      await writeFile(join(folder, 'secret'), 'x');
      await chmod(join(folder, 'secret'), 0);
      await expect(files.uploadDir(folder, 'x')).rejects.toThrow(/secret/);
    }
    expect(await files.exists('x')).toBe(false);
  });
});
