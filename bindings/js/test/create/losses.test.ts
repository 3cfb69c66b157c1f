/** Creates that ended unknown and are asked for again. */

import { expect, test } from 'vitest';
import { CreateUnknown } from '../../src/create/errors.ts';
import { Losses } from '../../src/create/losses.ts';
import { ControlPlane } from './control-plane.ts';

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
  const losses = new Losses(10);
  losses.keep('a', 3, 4);
  losses.keep('a', 1, 5);
  expect([losses.lostFor('a', 12), losses.lostFor('a', 13), losses.lostFor('b', 4)]).toEqual([9, undefined, undefined]);
  losses.forget('a', 2);
  expect(losses.lostFor('a', 5)).toBe(2);
  losses.forget('a', 3);
  expect(losses.lostFor('a', 5)).toBeUndefined();
  for (let now = 0; now < 100; now += 1) {
    losses.keep(`${now}`, now, now);
    expect(losses.size).toBeLessThanOrEqual(10);
  }
  // One that is settled already is not taken up.
  losses.keep('old', 0, 100);
  expect(losses.size).toBe(9);
});
