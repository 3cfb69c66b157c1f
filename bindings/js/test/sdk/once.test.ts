/** Creates over a network that misbehaves: what really happened is counted by the server. */

import { describe, expect, test } from 'vitest';
import { E2B } from '../../src/sdk/client.ts';
import {
  IntentMismatchError,
  InvalidArgumentError,
  NotFoundError,
  OutcomeUnknownError,
  RateLimitError,
  ServiceBusyError,
  SupersededError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, transports, until, useServer } from './server.ts';

describe.skipIf(!available).each(transports)('creates over %s', (transport) => {
  const local = useServer();

  /** A client of its own, so that what one test teaches about the server is not known to the next. */
  let clients = 0;
  const client = (more: Record<string, unknown> = {}) =>
    new E2B({ ...local.opts, transport, settleMs: 300, apiHeaders: { 'X-Test': `${clients++}` }, ...more });

  const living = async () => (await Sandbox.list(local.opts).nextItems()).map((each) => each.sandboxId);

  test('an answer that is lost after the effect leaves one sandbox, which is had', async () => {
    const cut = { cut: { when: 'after', how: 'reset' } };
    await local.server.faults({ rules: [{ on: ['createSandbox'], times: 1, fault: cut }] });
    const once = client();
    const sandbox = await once.Sandbox.create({ metadata: { a: 'b' } });
    expect((await sandbox.commands.run('echo hi')).stdout).toBe('hi\n');
    expect((await sandbox.getInfo()).metadata).toEqual({ a: 'b' });
    expect(await living()).toEqual([sandbox.sandboxId]);
    expect((await local.server.counts()).createSandbox).toBe(1);
    expect(await once.close()).toEqual([]);
    expect(await living()).toEqual([sandbox.sandboxId]);
    await sandbox.kill();
  });

  test.each(['honoured', 'ignored'] as const)(
    'a 502 after the effect leaves one sandbox where keys are %s',
    async (keys) => {
      const fault = { status: { code: 502, when: 'after' } };
      await local.server.faults({ keys, rules: [{ on: ['createSandbox'], times: 1, fault }] });
      const once = client({ idempotencyKeys: keys });
      const sandbox = await once.Sandbox.create();
      expect(await once.close()).toEqual([]);
      expect(await living()).toEqual([sandbox.sandboxId]);
      await sandbox.kill();
    },
  );

  test('a busy server is asked again, as long as it may be; what it says last is told', async () => {
    const busy = { status: { code: 503, when: 'before', headers: { 'Retry-After': '0' } } };
    await local.server.faults({ rules: [{ on: ['createSandbox'], times: 2, fault: busy }] });
    const sandbox = await client().Sandbox.create();
    expect(await local.server.fired()).toEqual([2]);
    await sandbox.kill();
    await local.server.faults({ rules: [{ on: ['createSandbox'], fault: busy }] });
    const failed = await client({ retries: 1 })
      .Sandbox.create()
      .catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ServiceBusyError);
    expect(failed).toMatchObject({ statusCode: 503, retryAfter: 0 });
    expect((failed as ServiceBusyError).attempts.map((each) => each.outcome.kind)).toEqual(['responded', 'responded']);
    const limited = { status: { code: 429, when: 'before', headers: { 'Retry-After': '600' } } };
    await local.server.faults({ rules: [{ on: ['createSandbox'], fault: limited }] });
    const limit = await client()
      .Sandbox.create()
      .catch((error: unknown) => error);
    expect(limit).toBeInstanceOf(RateLimitError);
    expect(limit).toMatchObject({ statusCode: 429, retryAfter: 600 });
    expect(await living()).toEqual([]);
  });

  test('what cannot be told is unknown, and is resolved later', async () => {
    const lost = { cut: { when: 'after', how: 'reset' } };
    const broken = { status: { code: 500, when: 'before' } };
    await local.server.faults({
      rules: [
        { on: ['createSandbox'], fault: lost },
        { on: ['listSandboxes'], fault: broken },
      ],
    });
    const once = client({ idempotencyKeys: 'ignored', requestTimeoutMs: 1_500 });
    const unknown = await once.Sandbox.create().catch((error: unknown) => error);
    expect(unknown).toBeInstanceOf(OutcomeUnknownError);
    const { intent = '', attempts } = unknown as OutcomeUnknownError;
    expect(intent).toMatch(/^[0-9a-f]{32}$/);
    expect(attempts.length).toBeGreaterThan(1);
    await local.server.heal();
    const other = client();
    const found = await other.resolve(intent);
    expect([found?.sandboxId]).toEqual(await living());
    expect(await found?.kill()).toBe(true);
    expect(await other.resolve('0'.repeat(32))).toBeUndefined();
    await once.close();
  });

  test('two calls with one intent make one sandbox, and a third finds it', async () => {
    const intent = 'ab'.repeat(16);
    const once = client();
    const [one, two] = await Promise.all([once.Sandbox.create({ intent }), once.Sandbox.create({ intent })]);
    expect(two.sandboxId).toBe(one.sandboxId);
    const third = await client().Sandbox.create({ intent });
    expect(third.sandboxId).toBe(one.sandboxId);
    expect(await living()).toEqual([one.sandboxId]);
    await one.kill();
  });

  test('a create that is aborted ends with the reason, and what it made is killed', async () => {
    await local.server.faults({ rules: [{ on: ['createSandbox'], fault: { latency: 0.3 } }] });
    const control = new AbortController();
    const reason = new Error('mine');
    const once = client({ settleMs: 2_000 });
    const creating = once.Sandbox.create({ signal: control.signal });
    await until(async () => (await local.server.fired())[0] === 1);
    control.abort(reason);
    await expect(creating).rejects.toBe(reason);
    expect(await once.close()).toEqual([]);
    expect(await living()).toEqual([]);
    expect((await local.server.counts()).createSandbox).toBe(1);
  });

  test('a key that was used for another request is a mismatch, and refusals have their classes', async () => {
    const once = client();
    const sandbox = await once.Sandbox.create({ idempotencyKey: 'my-key' });
    const other = once.Sandbox.create({ idempotencyKey: 'my-key', timeoutMs: 77_000 });
    await expect(other).rejects.toBeInstanceOf(IntentMismatchError);
    await expect(once.Sandbox.create('no-such-template')).rejects.toBeInstanceOf(NotFoundError);
    await expect(once.Sandbox.create({ intent: 'short' })).rejects.toBeInstanceOf(InvalidArgumentError);
    await Promise.all((await living()).map((id) => Sandbox.kill(id, local.opts)));
    expect(await sandbox.kill()).toBe(false);
  });

  test('a server that has v1 only is spoken to by v1', async () => {
    await local.server.faults({ v2_missing: 404 });
    const once = client();
    const sandbox = await once.Sandbox.create();
    expect((await once.Sandbox.connect(sandbox.sandboxId)).sandboxId).toBe(sandbox.sandboxId);
    expect((await sandbox.commands.run('echo v1')).stdout).toBe('v1\n');
    const other = await once.Sandbox.create({ metadata: { kind: 'other' } });
    const both = [other.sandboxId, sandbox.sandboxId];
    const ids = async (list: { nextItems(): Promise<{ sandboxId: string }[]> }) =>
      (await list.nextItems()).map((each) => each.sandboxId);
    expect(await ids(once.Sandbox.list())).toEqual(both);
    // One that does not know yet, with filters that v1 does not have.
    const { Sandbox: fresh } = client();
    expect(await ids(fresh.list({ order: 'asc', limit: 1 }))).toEqual([...both].reverse());
    expect(await ids(fresh.list({ query: { metadata: { kind: 'other' } } }))).toEqual([other.sandboxId]);
    expect(await ids(fresh.list({ query: { state: ['paused'] } }))).toEqual([]);
    const startedAfter = (await other.getInfo()).startedAt;
    expect(await ids(fresh.list({ query: { startedAfter } }))).toEqual([]);
    await other.kill();
    expect(await sandbox.kill()).toBe(true);
  });

  test('forks and snapshots are not made again, and what they may have made is told', async () => {
    const sandbox = await client().Sandbox.create();
    const lost = { cut: { when: 'after', how: 'reset' } };
    await local.server.faults({ rules: [{ on: ['forkSandbox', 'createSnapshot'], fault: lost }] });
    const fork = await sandbox.fork({ timeoutMs: 60_000 }).catch((error: unknown) => error);
    expect(fork).toBeInstanceOf(OutcomeUnknownError);
    const others = (await living()).filter((id) => id !== sandbox.sandboxId);
    expect(others).toHaveLength(1);
    expect((fork as OutcomeUnknownError).candidates).toEqual(others);
    const snapshot = await sandbox.createSnapshot({ name: 'lost' }).catch((error: unknown) => error);
    expect(snapshot).toBeInstanceOf(OutcomeUnknownError);
    const listed = await sandbox.listSnapshots().nextItems();
    expect((snapshot as OutcomeUnknownError).candidates).toEqual(listed.map((each) => each.snapshotId));
    const unnamed = await sandbox.createSnapshot().catch((error: unknown) => error);
    expect(unnamed).toBeInstanceOf(OutcomeUnknownError);
    const all = await sandbox.listSnapshots().nextItems();
    const added = all.map((each) => each.snapshotId).filter((id) => id !== listed[0]?.snapshotId);
    expect(added).toHaveLength(1);
    expect((unnamed as OutcomeUnknownError).candidates).toEqual(added);
    const counts = await local.server.counts();
    expect([counts.forkSandbox, counts.createSnapshot]).toEqual([1, 2]);
    await local.server.heal();
    await Promise.all((await living()).map((id) => Sandbox.kill(id, local.opts)));
    for (const { snapshotId } of all) await Sandbox.deleteSnapshot(snapshotId, local.opts);
  });

  test('a fork waits until nothing is swept any more, and is not taken for a double', async () => {
    // The first answer is lost, and the keys are ignored: a second send, and a sweep after `settleMs`.
    await local.server.faults({
      keys: 'ignored',
      rules: [{ on: ['createSandbox'], times: 1, fault: { cut: { when: 'before', how: 'reset' } } }],
    });
    const once = client({ settleMs: 1_500 });
    const sandbox = await once.Sandbox.create();
    const control = new AbortController();
    const reason = new Error('mine');
    const impatient = sandbox.fork({ signal: control.signal });
    control.abort(reason);
    await expect(impatient).rejects.toBe(reason);
    const [copy] = await sandbox.fork({ timeoutMs: 60_000 });
    if (!(copy instanceof Sandbox)) throw copy;
    expect(await once.close()).toEqual([]);
    expect((await living()).sort()).toEqual([sandbox.sandboxId, copy.sandboxId].sort());
    await local.server.heal();
    await Promise.all((await living()).map((id) => Sandbox.kill(id, local.opts)));
  });

  test('a sandbox that lost to another of its intent is not used any more', async () => {
    const fate = { lostTo: 'iother', abandon: () => {} };
    const lost = new Sandbox({ ...local.opts, sandboxId: 'i0', envdVersion: '0.6.13', fate: fate as never });
    for (const use of [
      () => lost.commands.run('true'),
      () => lost.files.read('f'),
      () => lost.getInfo(),
      () => lost.pause(),
    ]) {
      await expect(async () => void (await use())).rejects.toBeInstanceOf(SupersededError);
    }
    expect(await lost.kill()).toBe(false);
  });
});
