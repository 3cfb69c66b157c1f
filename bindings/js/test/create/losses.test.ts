/** Creates that ended unknown and are asked for again. */

import { describe, expect, test } from 'vitest';
import { CreateUnknown } from '../../src/create/errors.ts';
import { Losses } from '../../src/create/losses.ts';
import { OutcomeUnknownError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { BASE, ControlPlane } from './control-plane.ts';

const INTENT = '0123456789abcdef0123456789abcdef';
const body = { templateID: 'base' };

/** Ends before the second look. */
const options = { requestTimeoutMs: 1_000 };

/** A server that ignores keys, and whose first create is lost and has its effect at this time. */
function losing(effectAt: number): ControlPlane {
  const server = new ControlPlane();
  server.effectAt = effectAt;
  server.fault = ({ operation, count }) => (operation === 'createSandbox' && count === 1 ? 'lost' : undefined);
  return server;
}

test.each([undefined, INTENT])(
  'asked for again at once after an unknown end, a create makes one sandbox (%s)',
  async (given) => {
    const server = losing(2_000);
    const creates = server.creates();
    const error: CreateUnknown = await creates.create({ body, intent: given, options }).catch((thrown) => thrown);
    expect(error).toMatchObject({ name: 'CreateUnknown', reason: 'deadline' });
    const { intent } = error;
    // One that has no time to find out leaves what was lost before it to the next.
    await expect(creates.create({ body, intent, options })).rejects.toBeInstanceOf(CreateUnknown);
    const created = await creates.create({ body, intent });
    expect(created).toMatchObject({ how: 'adopted', sandbox: { sandboxID: 'i1' } });
    expect([server.made, server.sandboxes.length]).toEqual([1, 1]);
    // It is known by now what became of that send: one look is enough again.
    created?.fate.abandon();
    server.sandboxes.splice(0);
    const { now } = server;
    expect(await creates.create({ body, intent })).toMatchObject({ how: 'acknowledged' });
    expect(server.now).toBe(now);
    expect(await creates.close()).toEqual([]);
  },
);

test('asked for again after an unknown end, a create is sent when that is settled, and what comes later still is swept', async () => {
  const server = losing(11_000);
  const creates = server.creates();
  const error: CreateUnknown = await creates.create({ body, options }).catch((thrown) => thrown);
  const created = await creates.create({ body, intent: error.intent });
  expect(created).toMatchObject({ how: 'acknowledged', sandbox: { sandboxID: 'i2' } });
  // Counted from the loss, which was at the first call's begin.
  expect(server.now).toBe(10_000);
  expect(await creates.close()).toEqual([]);
  expect([server.made, server.sandboxes.map(({ sandboxID }) => sandboxID)]).toEqual([2, ['i2']]);
});

test('losses are kept for `settle`, the newest of each intent', () => {
  const losses = new Losses();
  losses.keep('a', 3, 4, 10);
  losses.keep('a', 1, 5, 10);
  const asked = [losses.lostFor('a', 12, 10), losses.lostFor('a', 13, 10), losses.lostFor('b', 4, 10)];
  expect(asked).toEqual([9, undefined, undefined]);
  losses.forget('a', 2);
  expect(losses.lostFor('a', 5, 10)).toBe(2);
  losses.forget('a', 3);
  expect(losses.lostFor('a', 5, 10)).toBeUndefined();
  for (let now = 0; now < 100; now += 1) {
    losses.keep(`${now}`, now, now, 10);
    expect(losses.size).toBeLessThanOrEqual(10);
  }
  // One that is settled already is not taken up.
  losses.keep('old', 0, 100, 10);
  expect(losses.size).toBe(9);
  // Whoever waits longer finds what was lost by one who waits less.
  losses.lostFor('a', 100, 60);
  losses.keep('short', 100, 100, 1);
  losses.keep('other', 150, 150, 1);
  expect([losses.lostFor('short', 150, 60), losses.lostFor('short', 150, 1)]).toEqual([50, undefined]);
});

test('losses are no more than a number, however long they settle', () => {
  const losses = new Losses(3);
  for (const key of ['a', 'b', 'c', 'd']) losses.keep(key, 0, 0, 1e12);
  expect([losses.size, losses.lostFor('a', 0, 1e12), losses.lostFor('d', 0, 1e12)]).toEqual([3, undefined, 0]);
});

const OTHERS: [string, (server: ControlPlane) => Record<string, unknown>][] = [
  ['another trace', () => ({ requestHeaders: { traceparent: '2' } })],
  ['another trace among the headers of the control plane', () => ({ apiHeaders: { 'X-Request-Id': '2' } })],
  ['another bound of what goes on after it', () => ({ cleanupTimeoutMs: 20_000 })],
  ['another settle', () => ({ settleMs: 9_000 })],
  ['another function that fetches', (server) => ({ fetch: ((...all) => server.means.fetch(...all)) as typeof fetch })],
];

describe.each(OTHERS)('with %s', (_, other) => {
  test('a create that ended unknown and is asked for again makes one sandbox', async () => {
    const server = losing(1_500);
    const base = { ...server.means, apiUrl: BASE, apiKey: `key-of-${Math.random()}` };
    const first = { ...base, requestTimeoutMs: 1_000, requestHeaders: { traceparent: '1' } };
    const error: OutcomeUnknownError = await Sandbox.create('base', first).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    const { intent } = error;
    const sandbox = await Sandbox.create('base', { ...base, ...other(server), intent });
    expect(sandbox.sandboxId).toBe('i1');
    expect([server.made, server.sandboxes.length]).toEqual([1, 1]);
    expect(server.requests.filter((id) => id === 'createSandbox')).toHaveLength(1);
  });

  test('two creates with one intent are one', async () => {
    const server = new ControlPlane();
    const base = { ...server.means, apiUrl: BASE, apiKey: `key-of-${Math.random()}`, intent: INTENT };
    const both = await Promise.all([
      Sandbox.create('base', { ...base, requestHeaders: { traceparent: '1' } }),
      Sandbox.create('base', { ...base, ...other(server) }),
    ]);
    expect(both.map(({ sandboxId }) => sandboxId)).toEqual(['i1', 'i1']);
    expect(server.requests.filter((id) => id === 'createSandbox')).toHaveLength(1);
  });
});

test.each([{ apiKey: 'another' }, { requestHeaders: { Authorization: 'another' } }, { apiHeaders: { 'X-Team': 'b' } }])(
  'creates of others with one intent are not joined (%j)',
  async (other) => {
    const server = new ControlPlane();
    const base = { ...server.means, apiUrl: BASE, apiKey: `key-of-${Math.random()}`, intent: INTENT };
    await Promise.all([Sandbox.create('base', base), Sandbox.create('base', { ...base, ...other })]);
    expect(server.requests.filter((id) => id === 'createSandbox')).toHaveLength(2);
  },
);
