/** Creates against a control plane in memory, with answers that get lost. */

import { expect, test } from 'vitest';
import { type CreateOptions, Creates, type Order } from '../../src/create/creates.ts';
import { type CreateNotDone, type CreateUnknown, IntentInUse } from '../../src/create/errors.ts';
import type { MakeRequest } from '../../src/create/wire.ts';
import { ALL } from '../../src/generated/operations.ts';
import { Caller, type CallerOptions } from '../../src/retry/caller.ts';
import { attemptsOf, type Operation, OperationTable } from '../../src/retry.ts';

const INTENT = '0123456789abcdef0123456789abcdef';
const BASE = 'http://control.test';

/** What happens to a request: before the server sees it, or to its answer. */
type Fault = (request: {
  operation: string;
  count: number;
  signal: AbortSignal;
}) => 'lost' | 'refused' | Response | undefined;

interface Sandbox {
  sandboxID: string;
  startedAt: string;
  metadata: Record<string, string>;
  key: string | null;
}

/** A control plane in memory. Time passes only in waits. */
class ControlPlane {
  readonly sandboxes: Sandbox[] = [];
  readonly requests: string[] = [];
  fault: Fault = () => undefined;
  honoursKeys = false;
  made = 0;
  now = 0;
  private readonly table = new OperationTable(ALL.filter(({ plane }) => plane === 'control_plane'));

  readonly fetch = async (input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input));
    const operation = this.table.find(init.method ?? 'GET', url.pathname) as Operation;
    this.requests.push(operation.id);
    const count = this.requests.filter((id) => id === operation.id).length;
    const signal = init.signal as AbortSignal;
    const fault = this.fault({ operation: operation.id, count, signal });
    if (fault === 'refused') throw failure('ECONNREFUSED');
    const answer = this.handle(operation.id, url, init);
    if (fault === 'lost') throw failure('ECONNRESET');
    if (signal?.aborted) throw signal.reason;
    return fault ?? answer;
  };

  private handle(operation: string, url: URL, init: RequestInit): Response {
    const headers = { date: new Date(Date.now() + this.now).toUTCString() };
    const id = url.pathname.split('/')[operation === 'connectSandbox' ? 3 : 2];
    switch (operation) {
      case 'createSandbox': {
        const key = new Headers(init.headers).get('idempotency-key');
        const known = this.honoursKeys ? this.sandboxes.find((sandbox) => sandbox.key === key) : undefined;
        return Response.json(known ?? this.add(JSON.parse(String(init.body)).metadata, key), { status: 201, headers });
      }
      case 'listSandboxes':
        return Response.json(this.sandboxes, { headers });
      case 'connectSandbox': {
        const found = this.sandboxes.find(({ sandboxID }) => sandboxID === id);
        return found ? Response.json(found, { headers }) : new Response(null, { status: 404, headers });
      }
      case 'killSandbox': {
        const at = this.sandboxes.findIndex(({ sandboxID }) => sandboxID === id);
        if (at >= 0) this.sandboxes.splice(at, 1);
        return new Response(null, { status: at < 0 ? 404 : 204, headers });
      }
      default:
        return new Response(null, { status: 404, headers });
    }
  }

  private add(metadata: Record<string, string>, key: string | null): Sandbox {
    this.made += 1;
    const startedAt = new Date(Date.now() + this.now).toISOString();
    const sandbox = { sandboxID: `i${this.made}`, startedAt, metadata, key };
    this.sandboxes.push(sandbox);
    return sandbox;
  }

  creates(options: CreateOptions = {}, caller: CallerOptions = {}): Creates {
    const own = {
      fetch: this.fetch as typeof fetch,
      random: () => 0.5,
      now: () => this.now,
      // In a turn of its own, as a real wait is.
      sleep: (ms: number) =>
        new Promise<void>((resolve) => {
          setTimeout(() => {
            this.now += ms;
            resolve();
          }, 0);
        }),
    };
    return new Creates(new Caller({ ...own, ...caller }), request, options);
  }
}

const request: MakeRequest = (operation, { parameters = [], query, headers, json }) => {
  let at = 0;
  const path = operation.path.replace(/\{[^}]+\}/g, () => encodeURIComponent(parameters[at++] ?? ''));
  const search = query === undefined ? '' : `?${new URLSearchParams(query)}`;
  const body = json === undefined ? {} : { body: JSON.stringify(json) };
  return { operation, url: `${BASE}${path}${search}`, headers: { ...headers }, ...body };
};

function failure(code: string): TypeError {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });
}

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
