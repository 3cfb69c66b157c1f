/** Creates against a control plane in memory, with answers that get lost. */

import { expect, test } from 'vitest';
import type { Order } from '../../src/create/creates.ts';
import { type CreateNotDone, type CreateUnknown, IntentInUse } from '../../src/create/errors.ts';
import { attemptsOf } from '../../src/retry.ts';
import { ControlPlane } from './control-plane.ts';

const INTENT = '0123456789abcdef0123456789abcdef';
const order: Order = { body: { templateID: 'base' } };

test('a create is one request, and its metadata holds the intent that is its key', async () => {
  const server = new ControlPlane();
  const created = await server.creates().create(order);
  expect(server.requests).toEqual(['createSandbox']);
  expect(created).toMatchObject({ how: 'acknowledged', sandbox: { sandboxID: 'i1' } });
  expect(server.sandboxes[0]).toMatchObject({ metadata: { 'oncebox.intent': created?.intent }, key: created?.intent });
  expect(created?.attempts.map(({ outcome }) => outcome.kind)).toEqual(['responded']);
});

test('an answer that is lost after the effect leaves one sandbox, which is adopted', async () => {
  const server = new ControlPlane();
  server.fault = ({ operation, count }) => (operation === 'createSandbox' && count === 1 ? 'lost' : undefined);
  const created = await server.creates().create(order);
  expect(created).toMatchObject({ how: 'adopted', sandbox: { sandboxID: 'i1' } });
  expect(server.requests).toEqual(['createSandbox', 'listSandboxes', 'connectSandbox']);
  expect(created?.attempts.map(({ purpose }) => purpose)).toEqual(['call', 'look_up', 'look_up']);
  expect(server.made).toBe(1);
});

test('where keys are honoured the same key is sent again', async () => {
  const server = new ControlPlane();
  server.honoursKeys = true;
  server.fault = ({ operation, count }) => (operation === 'createSandbox' && count === 1 ? 'lost' : undefined);
  const creates = server.creates({ idempotencyKeys: 'honoured' });
  expect(await creates.create(order)).toMatchObject({ how: 'acknowledged', sandbox: { sandboxID: 'i1' } });
  expect(server.requests.slice(0, 2)).toEqual(['createSandbox', 'createSandbox']);
  expect(await creates.close()).toEqual([]);
  expect(server.sandboxes.length).toBe(1);
});

test('where a server that ignores keys was taken to honour them, the double is killed and the handle stays', async () => {
  const server = new ControlPlane();
  server.fault = ({ operation, count }) => (operation === 'createSandbox' && count === 1 ? 'lost' : undefined);
  const creates = server.creates({ idempotencyKeys: 'honoured' });
  const created = await creates.create(order);
  expect(created?.sandbox.sandboxID).toBe('i2');
  expect(await creates.close()).toEqual([]);
  expect(server.made).toBe(2);
  expect(server.sandboxes.map(({ sandboxID }) => sandboxID)).toEqual(['i1']);
  // The handle's own was the later of the two.
  expect(created?.fate.lostTo).toBe('i1');
});

test('what was lost before the effect is sent again only when look-ups stayed empty for `settle`', async () => {
  const server = new ControlPlane();
  server.fault = ({ operation, count }) =>
    operation === 'createSandbox' && count === 1 ? answerLostBefore(server) : undefined;
  const created = await server.creates().create(order);
  expect(created).toMatchObject({ how: 'acknowledged', sandbox: { sandboxID: 'i2' } });
  expect(server.now).toBeGreaterThan(10_000);
});

/** The server makes nothing: what it made is taken back at once. */
function answerLostBefore(server: ControlPlane): 'lost' {
  queueMicrotask(() => server.sandboxes.splice(0));
  return 'lost';
}

test('a refused connection is replayed, and nothing is looked for', async () => {
  const server = new ControlPlane();
  server.fault = ({ count }) => (count < 3 ? 'refused' : undefined);
  await server.creates().create(order);
  expect(server.requests).toEqual(['createSandbox', 'createSandbox', 'createSandbox']);
});

test('a status that is final is an error with the answer, the intent and the history', async () => {
  const server = new ControlPlane();
  server.fault = () => Response.json({ code: 400, message: 'no such template' }, { status: 400 });
  const error: CreateNotDone = await server
    .creates()
    .create(order)
    .catch((thrown) => thrown);
  expect(error).toMatchObject({ name: 'CreateNotDone', status: 400, reason: { returned: 'status_final' } });
  expect(JSON.parse(new TextDecoder().decode(error.answer?.body))).toMatchObject({ message: 'no such template' });
  expect(error.message).toContain('answered 400; ended: this status is final');
  expect(attemptsOf(error).length).toBe(1);
});

test('when the deadline comes before anything is known, the error has the intent, and resolve finds the sandbox', async () => {
  const server = new ControlPlane();
  server.fault = ({ operation }) =>
    operation === 'createSandbox' || operation === 'listSandboxes' ? 'lost' : undefined;
  const creates = server.creates();
  const error: CreateUnknown = await creates
    .create({ ...order, options: { requestTimeoutMs: 5000 } })
    .catch((thrown) => thrown);
  expect(error).toMatchObject({ name: 'CreateUnknown', reason: 'deadline' });
  server.fault = () => undefined;
  const found = await creates.create({ ...order, intent: error.intent, resolve: true });
  expect(found).toMatchObject({ how: 'adopted', sandbox: { sandboxID: 'i1' } });
  expect(await creates.create({ ...order, intent: INTENT, resolve: true })).toBeUndefined();
  expect(server.made).toBe(1);
});

test('what an unknown end left stays for whoever resolves its intent, though a sweep for doubles follows', async () => {
  const server = new ControlPlane();
  server.honoursKeys = true;
  server.fault = ({ operation }) => (operation === 'connectSandbox' ? undefined : 'lost');
  const creates = server.creates({ idempotencyKeys: 'honoured' });
  const error: CreateUnknown = await creates
    .create({ ...order, options: { retries: 1, lookups: 2 } })
    .catch((thrown) => thrown);
  expect(error).toMatchObject({ name: 'CreateUnknown' });
  server.fault = () => undefined;
  const found = await creates.create({ ...order, intent: error.intent, resolve: true });
  expect(found).toMatchObject({ sandbox: { sandboxID: 'i1' } });
  expect(await creates.close()).toEqual([]);
  expect(server.sandboxes.map(({ sandboxID }) => sandboxID)).toEqual(['i1']);
});

test('calls with one given intent are joined; with other options they are refused', async () => {
  const server = new ControlPlane();
  const creates = server.creates();
  const given = { ...order, intent: INTENT };
  const [one, two, three] = await Promise.allSettled([
    creates.create(given),
    creates.create(given),
    creates.create({ ...given, body: { templateID: 'other' } }),
  ]);
  expect(one.status === 'fulfilled' && two.status === 'fulfilled' && one.value === two.value).toBe(true);
  expect(three.status === 'rejected' && three.reason).toBeInstanceOf(IntentInUse);
  expect(server.made).toBe(1);
  // A later process with the same intent finds the same sandbox.
  expect(await server.creates().create(given)).toMatchObject({ how: 'adopted', sandbox: { sandboxID: 'i1' } });
  expect(server.made).toBe(1);
});

test('an abort is thrown as it is, and what was sent is looked for and killed', async () => {
  const server = new ControlPlane();
  const controller = new AbortController();
  const reason = new Error('mine');
  server.fault = ({ operation }) => {
    if (operation === 'createSandbox') controller.abort(reason);
    return undefined;
  };
  const creates = server.creates();
  await expect(creates.create({ ...order, signal: controller.signal })).rejects.toBe(reason);
  expect(await creates.close()).toEqual([]);
  expect(server.made).toBe(1);
  expect(server.sandboxes).toEqual([]);
  expect(server.requests).toContain('killSandbox');
});

test('aborted before it began, it sends nothing', async () => {
  const server = new ControlPlane();
  await expect(server.creates().create({ ...order, signal: AbortSignal.abort('no') })).rejects.toBe('no');
  expect(server.requests).toEqual([]);
});

test('what the cleanup could not find out is left, and named', async () => {
  const server = new ControlPlane();
  const controller = new AbortController();
  server.fault = ({ operation }) => {
    if (operation === 'createSandbox') controller.abort();
    return operation === 'listSandboxes' ? 'lost' : undefined;
  };
  const creates = server.creates();
  await expect(creates.create({ ...order, signal: controller.signal })).rejects.toThrow();
  expect(await creates.close()).toMatchObject([{ sandboxes: [], maybeMore: true }]);
});

test('options are checked before anything is sent', async () => {
  const server = new ControlPlane();
  expect(() => server.creates({ settleMs: -1 })).toThrow('settleMs: -1');
  expect(() => server.creates({ idempotencyKeys: 'yes' as 'auto' })).toThrow('idempotencyKeys: yes');
  await expect(server.creates().create({ ...order, intent: 'x' })).rejects.toThrow('intent: "x" is not 32');
  await expect(server.creates().create({ ...order, options: { retries: -1 } })).rejects.toThrow('retries: -1');
  expect(server.requests).toEqual([]);
});
