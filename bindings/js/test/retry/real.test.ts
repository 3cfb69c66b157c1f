/** Errors as this runtime's own `fetch` throws them, from servers on the loopback that misbehave. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { getEnvdHealth, getSandbox, pauseSandbox } from '../../src/generated/operations.ts';
import { loadEngine } from '../../src/policy/engine.ts';
import { Caller } from '../../src/retry/caller.ts';
import { attemptsOf, type RetryOptions, withRetry } from '../../src/retry.ts';

const stops: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that handles the n-th request, counted from 1, as it is told. */
async function serve(handle: (count: number, response: ServerResponse, request: IncomingMessage) => void) {
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    request.resume();
    request.on('end', () => handle(count, response, request));
  });
  stops.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { url: await listen(server), count: () => count };
}

/** A TCP server that speaks no HTTP. */
async function serveTcp(handle: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    handle(socket);
  });
  stops.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return listen(server);
}

/** A port that nothing listens on. */
async function closedPort(): Promise<string> {
  const server = createTcpServer();
  const url = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return url;
}

/** No real waits. */
const quick: RetryOptions = { sleep: async () => {} };

async function attempts(url: string, init: RequestInit = {}, options: RetryOptions = {}) {
  const result = await withRetry(undefined, { ...quick, ...options })(url, init).catch((error: unknown) => error);
  return attemptsOf(result);
}

// Loading is not what is timed here.
beforeAll(loadEngine);

describe('an error of the runtime', () => {
  test('refused connection', async () => {
    const all = await attempts(await closedPort(), { method: 'POST' }, { retries: 1 });
    expect(all.map(({ outcome }) => outcome)).toMatchObject([
      { kind: 'not_sent', phase: 'connect' },
      { kind: 'not_sent', phase: 'connect' },
    ]);
    expect(all[0]?.outcome).toMatchObject({ detail: expect.stringMatching(/^connect ECONNREFUSED/) });
  });

  test('a name that does not exist', async () => {
    const all = await attempts('http://no-such-host.invalid/', { method: 'POST' }, { retries: 0 });
    expect(all[0]?.outcome).toMatchObject({ kind: 'not_sent', phase: 'dns' });
  });

  test('reset after the write: a GET is repeated, a POST is not', async () => {
    const url = await serveTcp((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const lost = { kind: 'sent_unknown', cause: 'connection_lost' };
    expect((await attempts(url, {}, { retries: 1 })).map(({ outcome }) => outcome)).toMatchObject([lost, lost]);
    expect((await attempts(url, { method: 'POST', body: 'x' })).map(({ outcome }) => outcome)).toMatchObject([lost]);
  });

  test('closed before any answer', async () => {
    const url = await serveTcp((socket) => socket.once('data', () => socket.end()));
    expect((await attempts(url, { method: 'POST' }))[0]?.outcome).toMatchObject({ kind: 'sent_unknown' });
  });

  test('an answer that is no HTTP', async () => {
    const url = await serveTcp((socket) => socket.once('data', () => socket.end('nonsense\r\n\r\n')));
    expect((await attempts(url, { method: 'POST' }))[0]?.outcome).toMatchObject({ kind: 'sent_unknown' });
  });

  test('TLS to a server that has none', async () => {
    const { url } = await serve((_, response) => response.end());
    const all = await attempts(url.replace('http:', 'https:'), { method: 'POST' });
    // OpenSSL's code is in no row: nothing is proven, so nothing is repeated.
    expect(all.map(({ outcome }) => outcome.kind)).toEqual(['sent_unknown']);
  });

  test('an abort is thrown as fetch throws it', async () => {
    const { url } = await serve(() => {});
    const signal = AbortSignal.timeout(20);
    const error = await withRetry()(url, { signal }).catch((thrown: unknown) => thrown);
    expect(error).toBe(signal.reason);
    expect(attemptsOf(error)[0]?.outcome).toEqual({ kind: 'cancelled', sent: true });
  });
});

test('statuses and hints over a real connection', async () => {
  const { url, count } = await serve((number, response) => {
    response.writeHead(number < 3 ? 503 : 200, number < 3 ? { 'retry-after': '0' } : {}).end('body');
  });
  const response = await withRetry(undefined, { sleep: () => Promise.reject(new Error('no wait was asked for')) })(url);
  expect([response.status, await response.text(), count()]).toEqual([200, 'body', 3]);
});

describe('typed calls', () => {
  const body = '{"message": "ok"}';

  test('a body that is cut is an unknown outcome, repeated where it may be', async () => {
    const cutFirst = (number: number, response: ServerResponse): void => {
      response.writeHead(200, { 'content-length': String(body.length) });
      if (number > 1) response.end(body);
      else response.write(body.slice(0, 5), () => response.destroy());
    };
    const { url } = await serve(cutFirst);
    const caller = new Caller(quick);
    const { attempts: all, body: got } = await caller.send({ operation: getSandbox, url });
    expect(new TextDecoder().decode(got)).toBe(body);
    expect(all.map(({ outcome }) => outcome)).toMatchObject([
      { kind: 'responded', status: 200, broken: true },
      { kind: 'responded', status: 200 },
    ]);
    const post = { ...pauseSandbox, repeat: 'no' as const };
    const second = await serve(cutFirst);
    const error = await caller.send({ operation: post, url: second.url }).catch((thrown: unknown) => thrown);
    expect(attemptsOf(error)).toMatchObject([{ outcome: { broken: true }, verdict: { reason: 'no_permit' } }]);
    expect(second.count()).toBe(1);
  });

  test('a body that stalls ends with the deadline, which says so', async () => {
    const { url } = await serve((_, response) => {
      response.writeHead(200, { 'content-length': '5' });
      response.write('x');
    });
    const call = { operation: getSandbox, url, options: { requestTimeoutMs: 50 } };
    const error = await new Caller(quick).send(call).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'TimeoutError' });
    expect(attemptsOf(error).map(({ outcome }) => outcome)).toEqual([{ kind: 'timed_out', sent: true }]);
  });

  test('a body that is too large is an error and no reason to repeat', async () => {
    const { url, count } = await serve((_, response) => response.end('x'.repeat(100)));
    const error = await new Caller(quick)
      .send({ operation: getSandbox, url, maxBytes: 99 })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'BodyTooLarge', message: 'the body has more than 99 bytes' });
    expect(count()).toBe(1);
    const { body: whole } = await new Caller(quick).send({ operation: getSandbox, url, maxBytes: 100 });
    expect(whole?.length).toBe(100);
  });

  test('a status inside a sandbox comes back at once, unless a number of retries is given', async () => {
    const { url, count } = await serve((_, response) => response.writeHead(503).end());
    const caller = new Caller({ ...quick, retries: 5 });
    expect((await caller.send({ operation: getEnvdHealth, url })).attempts.length).toBe(1);
    expect((await caller.send({ operation: getEnvdHealth, url, options: { retries: 1 } })).attempts.length).toBe(2);
    expect(count()).toBe(3);
    // What was provably not sent is replayed all the same.
    const refused = await caller
      .send({ operation: getEnvdHealth, url: await closedPort() })
      .catch((thrown: unknown) => thrown);
    expect(attemptsOf(refused).length).toBe(6);
  });

  test.each(['whole', 'stream'] as const)('what the edge did not deliver is sent again (%s)', async (read) => {
    const { url } = await serve((number, response) => {
      if (number > 2) response.end('ok');
      else response.writeHead(502).end(JSON.stringify({ message: 'The sandbox is running but port is not open' }));
    });
    const { response, attempts: all } = await new Caller(quick).send({ operation: getEnvdHealth, url, read });
    expect([response.status, all.map(({ outcome }) => (outcome as { edge?: string }).edge)]).toEqual([
      200,
      ['not_delivered', 'not_delivered', undefined],
    ]);
  });

  test.each(['whole', 'stream'] as const)(
    'that a sandbox is not running is final, and can be read (%s)',
    async (read) => {
      const text = JSON.stringify({ message: 'The sandbox was not found' });
      const { url, count } = await serve((_, response) => response.writeHead(502).end(text));
      const answer = await new Caller(quick).send({ operation: getEnvdHealth, url, read, options: { retries: 3 } });
      expect(answer.attempts).toMatchObject([{ verdict: { reason: 'sandbox_not_running' } }]);
      expect(answer.body ? new TextDecoder().decode(answer.body) : await answer.response.text()).toBe(text);
      expect(count()).toBe(1);
    },
  );
});
