import { describe, expect, test } from 'vitest';
import { FileNotFoundError, InvalidArgumentError, NotFoundError, SandboxError } from '../../src/sdk/errors.ts';
import { FileType } from '../../src/sdk/files/entry.ts';
import type { FilesystemEvent } from '../../src/sdk/files/watch.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, same, until, useServer } from './server.ts';

/** All 256 values, more than one piece of them. */
const BYTES = Uint8Array.from({ length: 200_000 }, (_, at) => (at * 7 + (at >> 8)) % 256);

async function gather(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
}

describe.skipIf(!available)('files', () => {
  const local = useServer();

  test('bytes come back as they were written, from every source, in every form', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { files } = sandbox;
    const stream = () => new Blob([BYTES]).stream();
    for (const data of [BYTES.slice().buffer, BYTES, new Blob([BYTES]), stream()]) {
      expect((await files.write('dir/all bytes', data)).path).toBe('/home/user/dir/all bytes');
      expect(same(await files.read('dir/all bytes', { format: 'bytes' }), BYTES)).toBe(true);
    }
    for (const opts of [{ gzip: true }, { useOctetStream: false }, { useOctetStream: true }]) {
      await files.write('by option', BYTES, opts);
      expect(same(await files.read('by option', { format: 'bytes', gzip: true }), BYTES)).toBe(true);
    }
    await files.write('packed stream', stream(), { gzip: true });
    expect(same(await gather(await files.read('packed stream', { format: 'stream' })), BYTES)).toBe(true);
    const blob = await files.read('dir/all bytes', { format: 'blob' });
    expect(same(new Uint8Array(await blob.arrayBuffer()), BYTES)).toBe(true);
    await files.write('text', 'ä\u{1f600}');
    expect(await files.read('text')).toBe('ä\u{1f600}');
    await files.write('empty', '');
    expect(await files.read('empty', { format: 'bytes' })).toHaveLength(0);
    expect(await gather(await files.read('empty', { format: 'stream' }))).toHaveLength(0);
  });

  test('odd names are names like others, one by one and many at once', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { files } = sandbox;
    const names = [
      'a b',
      'ä',
      'q"uote',
      'back\\slash',
      '100%',
      'new\nline',
      '+&=?#;',
      "it's",
      '%41',
      ' ',
      '-n',
      '\u{1f600}',
    ];
    const paths = names.map((name) => `odd/${name}`);
    const written = await files.writeFiles(paths.map((path, at) => ({ path, data: `${at}` })));
    expect(written.map((each) => each.path)).toEqual(paths.map((path) => `/home/user/${path}`));
    for (const [at, path] of paths.entries()) expect(await files.read(path)).toBe(`${at}`);
    expect((await files.list('odd')).map((each) => each.name).sort()).toEqual([...names].sort());
    for (const path of paths) {
      expect(await files.exists(path)).toBe(true);
      await files.remove(path);
    }
    expect(await files.list('odd')).toEqual([]);
  });

  test('many files go together, and none cost nothing', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    expect(await sandbox.files.write([])).toEqual([]);
    const many = Array.from({ length: 30 }, (_, at) => ({ path: `many/${at}`, data: 'x'.repeat(at) }));
    const written = await sandbox.files.write(many, { metadata: { kind: 'test' } });
    expect(written).toHaveLength(30);
    const listed = await sandbox.files.list('many');
    expect(listed.map((each) => each.size).sort((a, b) => a - b)).toEqual(many.map((_, at) => at));
  });

  test('what is there is described, moved, removed', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { files } = sandbox;
    await files.write('a', 'ä');
    const info = await files.getInfo('a');
    expect(info).toMatchObject({ name: 'a', path: '/home/user/a', size: 2, type: FileType.FILE, owner: 'user' });
    expect(info.modifiedTime).toBeInstanceOf(Date);
    expect((await files.rename('a', 'below/b')).path).toBe('/home/user/below/b');
    expect(await files.exists('a')).toBe(false);
    expect(await files.makeDir('dir/sub')).toBe(true);
    expect(await files.makeDir('dir/sub')).toBe(false);
    expect((await files.getInfo('dir')).type).toBe(FileType.DIR);
    expect((await files.list('.', { depth: 2 })).map((each) => each.path)).toContain('/home/user/dir/sub');
    await sandbox.commands.run('ln -s below/b link');
    expect((await files.getInfo('link')).symlinkTarget).toBe('/home/user/below/b');
    await files.write('link', 'longer than before');
    expect(await files.read('below/b')).toBe('longer than before');
    await files.remove('dir');
    await files.remove('dir');
    for (const missing of [
      () => files.read('none'),
      () => files.getInfo('none'),
      () => files.list('none'),
      () => files.rename('none', 'x'),
    ]) {
      await expect(missing()).rejects.toBeInstanceOf(FileNotFoundError);
    }
    await expect(files.read('none')).rejects.toBeInstanceOf(NotFoundError);
    await expect(files.list('below/b')).rejects.toBeInstanceOf(InvalidArgumentError);
  });

  test('a directory is watched until it is not', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await sandbox.files.makeDir('watched/sub');
    const seen: FilesystemEvent[] = [];
    const exits: unknown[] = [];
    const handle = await sandbox.files.watchDir('watched', (event) => void seen.push(event), {
      recursive: true,
      includeEntry: true,
      timeoutMs: 0,
      onExit: (error) => void exits.push(error),
    });
    await sandbox.files.write('watched/sub/f', 'x');
    await until(() =>
      ['create', 'write'].every((type) => seen.some((each) => each.name === 'sub/f' && each.type === type)),
    );
    expect(seen.find((each) => each.entry !== undefined)?.entry?.path).toBe('/home/user/watched/sub/f');
    await handle.stop();
    expect(exits).toEqual([undefined]);
    await expect(sandbox.files.watchDir('none', () => {})).rejects.toBeInstanceOf(FileNotFoundError);
  });

  test('watching that is stopped by who is told of a change ends', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const told: string[] = [];
    const ended = new Promise<void>((resolve) => {
      const watching = sandbox.files.watchDir(
        '.',
        async ({ name }) => {
          told.push(name);
          await (await watching).stop();
          resolve();
        },
        { timeoutMs: 0 },
      );
      watching.then(() => sandbox.files.write('changed', 'x'));
    });
    await ended;
    await sandbox.files.write('later', 'x');
    expect(told).toEqual(['changed']);
  });

  test('bad input is refused before anything is sent', async () => {
    const sandbox = new Sandbox({ ...local.opts, sandboxId: 'i0', envdVersion: '0.6.13' });
    const { files } = sandbox;
    await local.server.faults({});
    for (const refused of [
      () => files.write('', 'x'),
      () => files.write('a\0b', 'x'),
      () => files.write('a', 5 as unknown as string),
      () => files.write('a', 'x', { useOctetStream: false, gzip: true }),
      () => files.write('a', 'x', { metadata: { 'a b': 'x' } }),
      () => files.write('a', 'x', { metadata: { a: 'ä' } }),
      () =>
        files.writeFiles([
          { path: 'a', data: '' },
          { path: 'a', data: '' },
        ]),
      () => files.list('.', { depth: 0 }),
      () => files.read('a', { streamIdleTimeoutMs: -1 }),
    ]) {
      await expect(async () => void (await refused())).rejects.toBeInstanceOf(InvalidArgumentError);
    }
    expect(await local.server.counts()).toEqual({});
  });

  test('a download that is cut goes on where it was cut', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const data = new Uint8Array(3_000_000).map((_, at) => (at * 31) % 251);
    await sandbox.files.write('large', data);
    const fault = { cut_answer: { after: { bytes: 400_000 }, how: 'reset' } };
    await local.server.faults({ rules: [{ on: ['readFile'], times: 4, fault }] });
    expect(same(await gather(await sandbox.files.read('large', { format: 'stream' })), data)).toBe(true);
    expect(await local.server.fired()).toEqual([4]);
  });

  test('an upload of which half is kept is not called written', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await local.server.faults({ rules: [{ on: ['writeFiles'], fault: { half_write: {} } }] });
    const failed = await sandbox.files.write('half', 'x'.repeat(1000)).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(SandboxError);
    expect(String(failed)).toMatch(/1000 bytes were sent and accepted, and 500 are there/);
    await sandbox.files.write('half', 'x'.repeat(1000), { verify: false });
  });
});
