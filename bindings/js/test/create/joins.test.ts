/** Creates that meet: those of one intent, and those of one client that is closed. */

import { expect, test } from 'vitest';
import type { Order } from '../../src/create/creates.ts';
import { CreateNotDone, CreateUnknown } from '../../src/create/errors.ts';
import { E2B } from '../../src/sdk/client.ts';
import { BASE, ControlPlane } from './control-plane.ts';

const INTENT = '0123456789abcdef0123456789abcdef';
const order: Order = { body: { templateID: 'base' }, intent: INTENT };

/** A promise, and what settles it. */
function gate(): { open: () => void; opened: Promise<void> } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

test('the order in which options are named makes no other create of them', async () => {
  const server = new ControlPlane();
  const creates = server.creates();
  const one = { templateID: 'base', metadata: { a: '1', b: '2' }, network: { allowOut: ['x', 'y'], denyOut: ['z'] } };
  const other = { network: { denyOut: ['z'], allowOut: ['x', 'y'] }, metadata: { b: '2', a: '1' }, templateID: 'base' };
  const [first, second] = await Promise.all([
    creates.create({ body: one, intent: INTENT }),
    creates.create({ body: other, intent: INTENT }),
  ]);
  expect(second).toBe(first);
  // The order of a list is one of its own.
  const reversed = { ...one, network: { allowOut: ['y', 'x'], denyOut: ['z'] } };
  const both = await Promise.allSettled([
    creates.create({ body: one, intent: INTENT }),
    creates.create({ body: reversed, intent: INTENT }),
  ]);
  expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});

test('clients whose headers are written in another order, and with other letters, join one create', async () => {
  const server = new ControlPlane();
  const options = { ...server.means, apiUrl: BASE, apiKey: 'k' };
  const one = new E2B({ ...options, apiHeaders: { 'X-One': '1', 'X-Two': '2' } });
  const other = new E2B({ ...options, apiHeaders: { 'x-two': '2', 'X-One': '1' } });
  const intent = INTENT;
  const [first, second] = await Promise.all([one.Sandbox.create({ intent }), other.Sandbox.create({ intent })]);
  expect([server.made, first.sandboxId, second.sandboxId]).toEqual([1, 'i1', 'i1']);
  expect(server.requests.filter((id) => id === 'createSandbox')).toHaveLength(1);
});

test('who looks for a create and goes away as it is found does not kill it', async () => {
  const server = new ControlPlane();
  const creates = server.creates();
  await creates.create(order);
  const control = new AbortController();
  const found = creates.create({
    ...order,
    ...{ resolve: true, signal: control.signal },
    log: ({ kind }) => kind === 'end' && control.abort('gone'),
  });
  await expect(found).rejects.toBe('gone');
  expect(await creates.close()).toEqual([]);
  expect(server.sandboxes).toHaveLength(1);
  expect(server.requests).not.toContain('killSandbox');
});

test('who asks after a failure that is still cleared away has it tried again', async () => {
  const server = new ControlPlane();
  const creates = server.creates({ idempotencyKeys: 'honoured' });
  // Twice lost, and nobody can be asked: unknown, and then swept.
  server.fault = ({ operation }) => (operation === 'connectSandbox' ? undefined : 'lost');
  const swept = gate();
  const lost = creates.create({ ...order, options: { retries: 1, lookups: 2 } }).catch((error: unknown) => {
    swept.open();
    return error;
  });
  await swept.opened;
  const again = creates.create(order);
  server.fault = () => undefined;
  expect(await lost).toBeInstanceOf(CreateUnknown);
  expect(await again).toMatchObject({ sandbox: { sandboxID: 'i1' } });
});

test('who joins a create has its own limit of time, and the create goes on for the other', async () => {
  const server = new ControlPlane();
  const answered = gate();
  const asked = gate();
  const slow = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    if (String(args[0]).endsWith('/sandboxes') || args[1]?.method === 'POST') {
      asked.open();
      await answered.opened;
    }
    return server.fetch(...args);
  };
  const creates = server.creates({}, { fetch: slow as typeof fetch });
  const first = creates.create(order);
  await asked.opened;
  const impatient = creates.create({ ...order, options: { requestTimeoutMs: 20 } });
  await expect(impatient).rejects.toMatchObject({ name: 'CreateUnknown', reason: 'deadline', intent: INTENT });
  answered.open();
  expect(await first).toMatchObject({ sandbox: { sandboxID: 'i1' } });
  expect([server.made, server.sandboxes.length]).toEqual([1, 1]);
});

test('who waits until another one is cleared away has its own limit of time, and has sent nothing', async () => {
  const server = new ControlPlane();
  const cleared = gate();
  const control = new AbortController();
  const killing = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    if (args[1]?.method === 'DELETE') await cleared.opened;
    return server.fetch(...args);
  };
  server.fault = ({ operation }) => {
    if (operation !== 'createSandbox') return undefined;
    // Certainly after the call began, however its times are rounded: what is older is not killed.
    server.now += 5_000;
    control.abort('mine');
    return undefined;
  };
  const creates = server.creates({}, { fetch: killing as typeof fetch });
  await expect(creates.create({ ...order, signal: control.signal })).rejects.toBe('mine');
  const late = await creates.create({ ...order, options: { requestTimeoutMs: 20 } }).catch((error: unknown) => error);
  expect(late).toBeInstanceOf(CreateNotDone);
  expect(late).toMatchObject({ reason: { returned: 'deadline_passed' }, intent: INTENT });
  cleared.open();
  expect(await creates.close()).toEqual([]);
  expect([server.made, server.sandboxes.length]).toEqual([1, 0]);
});

test('closing a client waits for all creates that it began, with whatever options of their own', async () => {
  const server = new ControlPlane();
  const options = { ...server.means, apiUrl: BASE, apiKey: 'k' };
  const client = new E2B(options);
  const other = new E2B({ ...options, requestHeaders: { 'X-Other': '1' } });
  for (const own of [{ settleMs: 700 }, { apiHeaders: { 'X-Own': '1' } }, { cleanupTimeoutMs: 60_000 }, {}]) {
    const control = new AbortController();
    server.fault = ({ operation }) => {
      if (operation === 'createSandbox') control.abort('mine');
      return undefined;
    };
    await expect(client.Sandbox.create({ ...own, signal: control.signal })).rejects.toBe('mine');
  }
  expect(server.sandboxes).not.toEqual([]);
  expect(await client.close()).toEqual([]);
  expect([server.made, server.sandboxes.length]).toEqual([4, 0]);
  // What is left is told to whom it belongs.
  const control = new AbortController();
  server.fault = ({ operation }) => {
    if (operation === 'createSandbox') control.abort('mine');
    return operation === 'listSandboxes' ? 'lost' : undefined;
  };
  await expect(client.Sandbox.create({ settleMs: 800, signal: control.signal })).rejects.toBe('mine');
  expect(await other.close()).toEqual([]);
  expect(await client.close()).toMatchObject([{ maybeMore: true }]);
});
