/** What each attempt gives to `fetch`: requests are cloned, bodies kept, streams sent once. */

import { describe, expect, test, vi } from 'vitest';
import { attemptsOf, type LogEvent, type RetryOptions, withRetry } from '../../src/retry.ts';
import { answer, fakeTime, type Happens, lostConnection, refusedConnection, scripted } from './support.ts';

const URL_ = 'http://user:password@sandbox.test/path?secret=1#part';
const PLAIN = 'http://sandbox.test/path';

/** Answers with what the request's body is. */
const busyWith =
  (bodies: string[]): Happens =>
  async ({ input, init }) => {
    bodies.push(await new Request(input, init).text());
    return new Response(null, { status: 503 });
  };

async function bodiesOf(input: Parameters<typeof fetch>[0], init?: RequestInit, change: () => void = () => {}) {
  const bodies: string[] = [];
  const fetch = scripted(busyWith(bodies));
  const call = withRetry(fetch, fakeTime().options)(input, init);
  change();
  await call;
  return bodies;
}

describe('bodies', () => {
  test('a Request is cloned for each attempt and stays unread', async () => {
    const request = new Request(PLAIN, { method: 'POST', body: 'text', headers: { 'x-mine': '1' } });
    const fetch = scripted(({ input }) =>
      (input as Request).text().then((text) => new Response(text, { status: 503 })),
    );
    const response = await withRetry(fetch, fakeTime().options)(request);
    expect(await response.text()).toBe('text');
    expect(fetch.seen.length).toBe(4);
    expect(new Set(fetch.seen.map(({ input }) => input)).size).toBe(4);
    expect(fetch.seen.every(({ input }) => input !== request)).toBe(true);
    expect(request.bodyUsed).toBe(false);
    expect(fetch.seen.map(({ headers }) => [headers.get('x-mine'), headers.get('oncebox-attempt')])).toEqual([
      ['1', null],
      ['1', '2'],
      ['1', '3'],
      ['1', '4'],
    ]);
  });

  test('a Request whose body is a stream is one that can be sent again', async () => {
    const request = new Request(PLAIN, { method: 'POST', body: streamOf('text'), duplex: 'half' } as RequestInit);
    expect(await bodiesOf(request)).toEqual(['text', 'text', 'text', 'text']);
  });

  test('a Request that was read already fails as fetch does, once', async () => {
    const request = new Request(PLAIN, { method: 'POST', body: 'text' });
    await request.text();
    const fetch = scripted(answer(200));
    await expect(withRetry(fetch)(request)).rejects.toThrow(TypeError);
    expect(fetch.seen.length).toBe(0);
  });

  test.each([
    ['text', () => 'text'],
    ['a blob', () => new Blob(['text'])],
    ['an ArrayBuffer', () => new TextEncoder().encode('text').buffer],
    ['bytes', () => new TextEncoder().encode('text')],
    ['part of a buffer', () => new TextEncoder().encode('(text)').subarray(1, 5)],
  ])('%s is sent the same each time', async (_, body) => {
    expect(await bodiesOf(PLAIN, { method: 'POST', body: body() as BodyInit })).toEqual([
      'text',
      'text',
      'text',
      'text',
    ]);
  });

  test('what its owner changes during the call is sent as it was', async () => {
    const bytes = new TextEncoder().encode('text');
    expect(await bodiesOf(PLAIN, { method: 'POST', body: bytes }, () => bytes.fill(0))).toContain('text');
    expect(new Set(await bodiesOf(PLAIN, { method: 'POST', body: bytes.fill(65) }, () => bytes.fill(0)))).toEqual(
      new Set(['AAAA']),
    );
    const { buffer } = new TextEncoder().encode('text');
    const overwrite = () => new Uint8Array(buffer).fill(0);
    expect(new Set(await bodiesOf(PLAIN, { method: 'POST', body: buffer }, overwrite))).toEqual(new Set(['text']));
    const query = new URLSearchParams({ a: '1' });
    expect(new Set(await bodiesOf(PLAIN, { method: 'POST', body: query }, () => query.set('a', '2')))).toEqual(
      new Set(['a=1']),
    );
    const form = new FormData();
    form.set('a', '1');
    const bodies = await bodiesOf(PLAIN, { method: 'POST', body: form }, () => form.set('a', '2'));
    expect(bodies.every((body) => body.includes('\r\n1\r\n'))).toBe(true);
    const headers = new Headers({ 'x-mine': '1' });
    const fetch = scripted(() => {
      headers.set('x-mine', '2');
      return new Response(null, { status: 503 });
    });
    await withRetry(fetch, fakeTime().options)(PLAIN, { headers });
    expect(fetch.seen.at(-1)?.headers.get('x-mine')).toBe('1');
  });

  test.each([
    ['a web stream', () => streamOf('text')],
    [
      'an async iterable',
      () =>
        (async function* () {
          yield new TextEncoder().encode('text');
        })(),
    ],
  ])('%s is sent once, whatever comes of it', async (_, body) => {
    for (const happens of [answer(503), lostConnection, refusedConnection]) {
      const fetch = scripted(happens);
      const init = { method: 'PUT', body: body() as unknown as BodyInit, duplex: 'half' } as RequestInit;
      const result = await withRetry(fetch, fakeTime().options)(PLAIN, init).catch((error: unknown) => error);
      expect(fetch.seen.length).toBe(1);
      expect(attemptsOf(result).at(-1)?.verdict).toMatchObject({
        kind: 'return',
        reason: happens === refusedConnection ? 'body_not_replayable' : 'streamed_body',
      });
    }
  });
});

describe('responses that are given up', () => {
  test('their bodies are cancelled before the wait', async () => {
    const order: string[] = [];
    const body = new ReadableStream({ cancel: () => void order.push('cancelled') });
    const time = fakeTime();
    const sleep = async (ms: number) => {
      order.push('waits');
      await time.options.sleep(ms);
    };
    const fetch = scripted(() => new Response(body, { status: 503 }), answer(200));
    await withRetry(fetch, { ...time.options, sleep })(PLAIN);
    expect(order).toEqual(['cancelled', 'waits']);
  });

  test('a cancel that never settles, or fails, holds nothing up', async () => {
    for (const cancel of [() => new Promise<void>(() => {}), () => Promise.reject(new Error('cancel'))]) {
      const fetch = scripted(() => new Response(new ReadableStream({ cancel }), { status: 503 }), answer(200));
      expect((await withRetry(fetch, fakeTime().options)(PLAIN)).status).toBe(200);
    }
  });

  test('a body that somebody else reads is left alone', async () => {
    const fetch = scripted(() => {
      const response = new Response('text', { status: 503 });
      response.body?.getReader();
      return response;
    }, answer(200));
    expect((await withRetry(fetch, fakeTime().options)(PLAIN)).status).toBe(200);
  });
});

describe('options', () => {
  test.each<[RetryOptions, string]>([
    [{ retries: -1 }, 'retries: -1 is not a whole number from 0 to 1000'],
    [{ retries: 1.5 }, 'retries: 1.5 is not'],
    [{ connectionRetries: 1001 }, 'connectionRetries: 1001 is not'],
    [{ retryAfterJitter: 2 }, 'retryAfterJitter: 2 is not a fraction from 0 to 1'],
    [{ requestTimeoutMs: -1 }, 'requestTimeoutMs: -1 is not a number of milliseconds from 0 (off) to 2147483647000'],
    [{ requestTimeoutMs: Number.NaN }, 'requestTimeoutMs: NaN is not'],
    [{ attemptTimeoutMs: Number.POSITIVE_INFINITY }, 'attemptTimeoutMs: Infinity is not'],
    [{ trustBadGateway: 'yes' as unknown as boolean }, 'trustBadGateway: "yes" is not true or false'],
    [{ repeatUnknown: 'always' as 'safe' }, 'repeatUnknown: "always" is not one of never, safe, permitted'],
    [{ preset: 'e2b' as 'default' }, 'preset: "e2b" is not one of default, e2b_2_52, e2b_2_63'],
    [{ log: {} as never }, 'log: [object Object] is not a function'],
    [{ operations: [] as never }, 'operations: [object Array] is not an OperationTable'],
    [{ timeout: 5 } as RetryOptions, 'timeout: there is no such option'],
  ])('%o is refused before anything is sent', (options, message) => {
    const fetch = scripted(answer(200));
    expect(() => withRetry(fetch, options)).toThrow(message);
    expect(fetch.seen.length).toBe(0);
  });

  test('E2B_CONNECTION_RETRIES counts where neither option is given', async () => {
    const attempts = async (options: RetryOptions) => {
      const fetch = scripted(refusedConnection);
      await withRetry(fetch, { ...fakeTime().options, ...options })(PLAIN).catch(() => {});
      return fetch.seen.length;
    };
    vi.stubEnv('E2B_CONNECTION_RETRIES', '1');
    expect([await attempts({}), await attempts({ retries: 2 }), await attempts({ connectionRetries: 0 })]).toEqual([
      2, 3, 1,
    ]);
    vi.stubEnv('E2B_CONNECTION_RETRIES', 'many');
    expect(() => withRetry()).toThrow('E2B_CONNECTION_RETRIES: "many" is not a whole number from 0 to 1000');
    vi.unstubAllEnvs();
  });

  test('a later change of the options changes nothing', async () => {
    const options: RetryOptions = { ...fakeTime().options, retries: 1 };
    const fetch = scripted(answer(503));
    const send = withRetry(fetch, options);
    options.retries = 5;
    await send(PLAIN);
    expect(fetch.seen.length).toBe(2);
  });
});

describe('the fetch that is used', () => {
  test('is the global one of the moment where none is given', async () => {
    const send = withRetry(undefined, fakeTime().options);
    for (const status of [201, 202]) {
      vi.stubGlobal('fetch', scripted(answer(status)));
      expect((await send(PLAIN)).status).toBe(status);
    }
    vi.unstubAllGlobals();
  });

  test('is not itself', async () => {
    const send = withRetry();
    vi.stubGlobal('fetch', send);
    await expect(send(PLAIN)).rejects.toThrow('the global fetch is this one');
    vi.unstubAllGlobals();
  });

  test('may take the place of the global one', async () => {
    const inner = scripted(answer(503), answer(200));
    vi.stubGlobal('fetch', withRetry(inner, fakeTime().options));
    expect((await fetch(PLAIN)).status).toBe(200);
    vi.unstubAllGlobals();
  });

  test('refuses what is no request once', async () => {
    const send = withRetry();
    await expect(send('http://')).rejects.toThrow(TypeError);
    await expect(send(PLAIN, { method: 'GET', body: 'x' })).rejects.toThrow(TypeError);
    await expect(send(PLAIN, { headers: { 'x y': '1' } })).rejects.toThrow(TypeError);
    await expect(send(PLAIN, { signal: {} as AbortSignal })).rejects.toThrow(TypeError);
  });

  test('gets what it was given besides', async () => {
    const fetch = scripted(answer(503), answer(200));
    const extra = { dispatcher: {}, cf: { a: 1 }, redirect: 'manual' } as RequestInit;
    await withRetry(fetch, fakeTime().options)(PLAIN, extra);
    for (const { init } of fetch.seen) expect(init).toMatchObject(extra);
  });
});

describe('log', () => {
  test('it is told of each attempt and of the end, without what is secret', async () => {
    const events: LogEvent[] = [];
    const fetch = scripted(answer(503), answer(200));
    await withRetry(fetch, { ...fakeTime().options, log: (event) => events.push(event) })(URL_);
    expect(events.map(({ text }) => text)).toEqual([
      'GET http://sandbox.test/path, attempt 1 at 0.000 s: answered 503; sent again: this status is retried, after 0.075 s (backoff)',
      'GET http://sandbox.test/path, attempt 2 at 0.075 s: answered 200; ended: success',
      'GET http://sandbox.test/path: answered 200 after 2 attempts, 0.075 s',
    ]);
    expect(JSON.stringify(events)).not.toMatch(/secret|password/);
  });

  test('what it throws changes nothing', async () => {
    const log = () => {
      throw new Error('log');
    };
    expect((await withRetry(scripted(answer(200)), { log })(PLAIN)).status).toBe(200);
    // A rejection that nobody handles would fail this run.
    const later = () => Promise.reject(new Error('log')) as unknown as undefined;
    expect((await withRetry(scripted(answer(200)), { log: later })(PLAIN)).status).toBe(200);
  });
});

function streamOf(text: string): ReadableStream {
  return new ReadableStream({
    start: (stream) => {
      stream.enqueue(new TextEncoder().encode(text));
      stream.close();
    },
  });
}
