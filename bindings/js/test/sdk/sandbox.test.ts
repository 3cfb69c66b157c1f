import { describe, expect, test } from 'vitest';
import {
  AuthenticationError,
  InvalidArgumentError,
  NotDoneError,
  SandboxNotFoundError,
  SandboxNotRunningError,
  TimeoutError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, freePort, useServer } from './server.ts';

describe.skipIf(!available)('sandboxes', () => {
  const local = useServer();

  test('a sandbox from its start to its end', async () => {
    const metadata = { 'a b': 'c&d=%41', suite: 'javascript' };
    const sandbox = await Sandbox.create('base', { ...local.opts, timeoutMs: 120_000, metadata, envs: { FOO: 'bar' } });
    expect((await sandbox.commands.run('echo $FOO')).stdout).toBe('bar\n');
    const found = await Sandbox.list({ ...local.opts, query: { metadata, state: ['running'] } }).nextItems();
    expect(found.map((each) => each.sandboxId)).toEqual([sandbox.sandboxId]);
    const info = await sandbox.getInfo();
    expect(info).toMatchObject({ sandboxId: sandbox.sandboxId, state: 'running', metadata });
    expect(info.endAt.getTime() - info.startedAt.getTime()).toBeGreaterThan(60_000);
    expect(await Sandbox.getFullInfo(sandbox.sandboxId, local.opts)).toEqual(info);
    expect(await sandbox.isRunning()).toBe(true);
    await sandbox.setTimeout(600_000);
    expect((await sandbox.getInfo()).endAt.getTime()).toBeGreaterThan(info.endAt.getTime());
    expect((await sandbox.getMetrics())[0]?.memTotal).toBeGreaterThan(0);
    await sandbox.updateNetwork({ denyOut: ({ allTraffic }) => [allTraffic] });
    expect((await sandbox.getInfo()).network?.denyOut).toEqual(['0.0.0.0/0']);
    expect(sandbox.getHost(3000)).toMatch(new RegExp(`^3000-${sandbox.sandboxId}\\.`));
    await sandbox.files.write('f', 'before');
    const [fork] = await sandbox.fork({ timeoutMs: 60_000 });
    if (!(fork instanceof Sandbox)) throw fork;
    expect(await fork.files.read('f')).toBe('before');
    await fork.kill();
    expect(await sandbox.pause()).toBe(true);
    expect(await sandbox.pause()).toBe(false);
    expect(await sandbox.isRunning()).toBe(false);
    const gone = await sandbox.commands.run('true').catch((error: unknown) => error);
    expect(gone).toBeInstanceOf(SandboxNotRunningError);
    expect(gone).toBeInstanceOf(TimeoutError);
    expect(String(gone)).toMatch(/paused/);
    const again = await Sandbox.connect(sandbox.sandboxId, local.opts);
    expect(await again.files.read('f')).toBe('before');
    expect(await again.betaPause({ keepMemory: false })).toBe(true);
    expect(await again.connect({ onResume: 'reboot' })).toBe(again);
    expect(await again.isRunning()).toBe(true);
    expect(await Sandbox.kill(sandbox.sandboxId, local.opts)).toBe(true);
    expect(await sandbox.kill()).toBe(false);
    await expect(sandbox.getInfo()).rejects.toBeInstanceOf(SandboxNotFoundError);
    await expect(Sandbox.connect('inothing', local.opts)).rejects.toBeInstanceOf(SandboxNotFoundError);
    await expect(sandbox.files.read('f')).rejects.toBeInstanceOf(SandboxNotRunningError);
  });

  test('snapshots', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await sandbox.files.write('f', 'kept');
    const snapshot = await sandbox.createSnapshot({ name: 'kept-by-a-test' });
    expect(snapshot.names.join()).toMatch(/kept-by-a-test/);
    expect((await sandbox.listSnapshots().nextItems()).map((each) => each.snapshotId)).toEqual([snapshot.snapshotId]);
    await using restored = await Sandbox.create(snapshot.snapshotId, local.opts);
    expect(await restored.files.read('f')).toBe('kept');
    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId, local.opts)).toBe(true);
    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId, local.opts)).toBe(false);
  });

  test('a list comes in pages, or one by one', async () => {
    const metadata = { pages: 'yes' };
    const made = await Promise.all([1, 2, 3].map(() => Sandbox.create({ ...local.opts, metadata })));
    const query = { metadata };
    const paginator = Sandbox.list({ ...local.opts, query, limit: 2 });
    const [first, second] = [await paginator.nextItems(), await paginator.nextItems()];
    expect([first.length, second.length, paginator.hasNext]).toEqual([2, 1, false]);
    await expect(paginator.nextItems()).rejects.toThrow(/hasNext/);
    const all: string[] = [];
    for await (const each of Sandbox.list({ ...local.opts, query, limit: 1, order: 'asc' })) all.push(each.sandboxId);
    expect(all.sort()).toEqual(made.map((each) => each.sandboxId).sort());
    await Promise.all(made.map((each) => each.kill()));
  });

  test('`await using` kills', async () => {
    let id: string;
    {
      await using sandbox = await Sandbox.create(local.opts);
      id = sandbox.sandboxId;
    }
    await expect(Sandbox.getInfo(id, local.opts)).rejects.toBeInstanceOf(SandboxNotFoundError);
  });

  test('files go up and down by signed URLs, and not by forged ones', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const form = new FormData();
    form.append('file', new Blob(['up']), 'up.txt');
    const upload = await sandbox.uploadUrl('a b+c.txt', { useSignatureExpiration: 60 });
    expect((await fetch(upload, { method: 'POST', body: form })).status).toBe(200);
    const download = await sandbox.downloadUrl('a b+c.txt', { user: 'user' });
    expect(await (await fetch(download)).text()).toBe('up');
    expect((await fetch(download.replace('user', 'root'))).status).toBe(401);
    expect(await sandbox.files.read('a b+c.txt')).toBe('up');
  });

  test('bad input is refused before anything is sent', async () => {
    await local.server.faults({});
    const { opts } = local;
    const created = (more: Record<string, unknown>) => () => Sandbox.create({ ...opts, ...more });
    for (const refused of [
      created({ timeoutMs: -1 }),
      created({ timeoutMs: 0 }),
      created({ timeoutMs: Number.NaN }),
      created({ requestTimeoutMs: '5' }),
      created({ retries: 1.5 }),
      created({ metadata: { a: 5 } }),
      created({ metadata: { 'oncebox.intent': 'x' } }),
      created({ envs: { 'A=B': 'x' } }),
      created({ idempotencyKey: 'UPPER' }),
      created({ lifecycle: { onTimeout: 'kill', autoResume: true } }),
      created({ volumeMounts: { relative: 'v' } }),
      created({ apiUrl: 'ftp://x' }),
      created({ apiUrl: 'http://me:pw@x' }),
      created({ domain: 'https://x' }),
      created({ domain: -1 }),
      created({ apiKey: 'a\nb' }),
      created({ apiHeaders: { 'a b': 'c' } }),
      () => Sandbox.kill('../teams', opts),
      () => Sandbox.connect('', opts),
      () => Sandbox.setTimeout('i0', -5, opts),
      () => Sandbox.fork('i0', { ...opts, count: 21 }),
      () => Sandbox.list({ ...opts, limit: 0 }).nextItems(),
      () => Sandbox.list({ ...opts, query: { state: ['dead' as 'paused'] } }).nextItems(),
      () => Sandbox.getMetrics('i0', { ...opts, start: new Date('never') }),
    ]) {
      await expect(async () => void (await refused()), String(refused)).rejects.toBeInstanceOf(InvalidArgumentError);
    }
    const none = { ...opts, apiKey: undefined };
    await expect(Sandbox.create(none)).rejects.toBeInstanceOf(AuthenticationError);
    expect(await local.server.counts()).toEqual({});
  });

  test('a server that is not there: certainly not done, with the attempts', async () => {
    const nobody = { ...local.opts, apiUrl: `http://127.0.0.1:${await freePort()}`, connectionRetries: 0 };
    const failed = await Sandbox.create(nobody).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(NotDoneError);
    expect(failed).toMatchObject({
      outcome: { kind: 'not_sent' },
      attempts: [{ number: 1, outcome: { kind: 'not_sent' } }],
    });
  });

  test("an abort is the caller's own reason", async () => {
    const reason = new Error('mine');
    await expect(Sandbox.create({ ...local.opts, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});
