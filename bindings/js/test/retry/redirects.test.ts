/** Redirects: followed by the package, so that what failed after an answer is not taken for what was never sent. */

import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { attemptsOf, mayHaveBeenProcessed, type RetryOptions, withRetry } from '../../src/retry.ts';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** A server that redirects `/STATUS?to=URL`, and answers the rest. */
async function serve() {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, headers, body });
    const [, status, to] = /^\/(3\d\d)\?to=(.*)$/.exec(url) ?? [];
    if (status === undefined) response.end('ok');
    else response.writeHead(Number(status), to ? { location: decodeURIComponent(to) } : {}).end('moved');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, seen, to: (status: number, to: string) => `${url}/${status}?to=${encodeURIComponent(to)}` };
}

async function nobody(): Promise<string> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/`;
}

const quick: RetryOptions = { sleep: async () => {}, random: () => 0 };
// The global one is judged for what it takes, and others are not.
const own: typeof fetch = (input, init) => globalThis.fetch(input, init);

describe('an answer that redirects', () => {
  test('what its caller does with a buffer meanwhile is not sent', async () => {
    const server = await serve();
    const body = new TextEncoder().encode('as it was');
    const sent = withRetry(own, quick)(server.to(307, `${server.url}/end`), { method: 'POST', body });
    body.fill(0x2e);
    expect((await sent).status).toBe(200);
    expect(server.seen.map(({ body }) => body)).toEqual(['as it was', 'as it was']);
  });

  test('the time that a streamed body took is not counted where its answer redirects', async () => {
    const server = await serve();
    let time = 0;
    const slow: typeof fetch = async (input, init) => {
      const response = await globalThis.fetch(input, init);
      time += init?.method === 'POST' ? 120_000 : 1_000;
      return response;
    };
    const options = { ...quick, now: () => time, requestTimeoutMs: 60_000 };
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode('large'));
        stream.close();
      },
    });
    const init: RequestInit & { duplex: 'half' } = { method: 'POST', body, duplex: 'half' };
    const response = await withRetry(slow, options)(server.to(303, `${server.url}/end`), init);
    expect([response.status, await response.text()]).toEqual([200, 'ok']);
    // What is at hand has the deadline.
    const late = withRetry(slow, options)(server.to(303, `${server.url}/end`), { method: 'POST', body: 'small' });
    await expect(late).rejects.toThrow(/60000 ms had passed \(requestTimeoutMs\) when it was redirected/);
  });

  test.each([301, 302, 303, 307, 308])(
    '%i to where nobody listens: what was carried out is not sent again',
    async (status) => {
      const server = await serve();
      for (const to of [await nobody(), 'http://no-such-host.invalid/', 'http://127.0.0.1:1/']) {
        server.seen.length = 0;
        const error = await withRetry(own, quick)(server.to(status, to), { method: 'POST', body: 'x' }).catch((e) => e);
        expect(error).toBeInstanceOf(TypeError);
        expect(server.seen.length).toBe(1);
        const attempts = attemptsOf(error);
        expect(attempts[0]).toMatchObject({ outcome: { kind: 'responded', status }, verdict: { kind: 'return' } });
        expect(attempts.length).toBe(5);
        expect(attempts.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5]);
        expect(mayHaveBeenProcessed(attempts)).toBe(true);
      }
    },
  );

  test('is followed as fetch does', async () => {
    const one = await serve();
    const other = await serve();
    const headers = { authorization: 'secret', cookie: 'a=b', 'content-type': 'text/x', 'x-own': '1' };
    for (const send of [withRetry(own, quick), own]) {
      for (const [status, method] of [
        [301, 'POST'],
        [302, 'PUT'],
        [303, 'PUT'],
        [307, 'POST'],
        [308, 'POST'],
        [302, 'GET'],
      ] as const) {
        for (const target of [`${one.url}/end`, `${other.url}/end#fragment`, '/end']) {
          const body = method === 'GET' ? undefined : 'body';
          const response = await send(one.to(status, target), { method, headers, body: body ?? null });
          expect([await response.text(), response.status, response.redirected]).toEqual(['ok', 200, true]);
        }
      }
      const request = new Request(one.to(307, `${other.url}/end`), { method: 'POST', body: 'of a request', headers });
      expect((await send(request)).url).toBe(`${other.url}/end`);
    }
    const told = (all: Seen[]) => {
      const plain = all.map(
        ({ method, url, body, headers: { authorization, cookie, 'x-own': mine, 'content-type': type } }) =>
          JSON.stringify({ method, url, body, authorization, cookie, mine, type }),
      );
      return [plain.slice(0, plain.length / 2), plain.slice(plain.length / 2)];
    };
    for (const all of [one.seen, other.seen]) {
      const [ours, theirs] = told(all);
      expect(ours).toEqual(theirs);
    }
  });

  test('is given as it came, or refused, where it is wanted so', async () => {
    const server = await serve();
    const send = withRetry(own, { ...quick, retries: 0 });
    const to = server.to(302, '/end');
    expect((await send(to, { redirect: 'manual' })).status).toBe(302);
    await expect(send(to, { redirect: 'error' })).rejects.toThrow(TypeError);
    expect((await send(new Request(to, { redirect: 'manual' }))).status).toBe(302);
    expect((await send(`${server.url}/302?to=`)).status).toBe(302);
  });

  test('cannot lead for ever, nor to what is no address, nor take a stream with it', async () => {
    const server = await serve();
    const send = withRetry(own, { ...quick, retries: 0 });
    let to = '/end';
    for (let hop = 0; hop < 21; hop += 1) to = server.to(302, to).slice(server.url.length);
    await expect(send(server.url + to)).rejects.toThrow(
      expect.objectContaining({
        cause: expect.objectContaining({ message: expect.stringContaining('more than 20 times') }),
      }),
    );
    await expect(send(server.to(302, 'file:///etc/passwd'))).rejects.toThrow(TypeError);
    await expect(send(server.to(302, 'http://['))).rejects.toThrow(TypeError);
    const body = new Blob(['x']).stream();
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
    await expect(send(server.to(307, '/end'), init)).rejects.toThrow(TypeError);
  });

  test('counts in the deadline of the whole', async () => {
    let time = 0;
    const redirecting = async (input: unknown) => {
      time += 400;
      return new Response(null, { status: 302, headers: { location: `${input}x` } });
    };
    const options = { ...quick, now: () => time, requestTimeoutMs: 1000, retries: 0 };
    const error = await withRetry(redirecting as typeof fetch, options)('http://h.test/').catch((e) => e);
    expect([error.name, time <= 1600]).toEqual(['TimeoutError', true]);
  });
});
