/** How a call ends from outside: the caller's abort, the deadline, and the limit of an attempt. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadEngine } from '../../src/policy/engine.ts';
import { attemptsOf, withRetry } from '../../src/retry.ts';
import { answer, fakeTime, hangs, lostConnection, scripted } from './support.ts';

// The collector, without a flag for the whole run.
setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

const URL = 'http://sandbox.test/';

// The real one, whatever is faked later.
const real = setTimeout;
const turn = () => new Promise((resolve) => real(resolve, 1));

/** Waits until the first request is with `fetch`. */
const sent = (fetch: { seen: unknown[] }) => vi.waitFor(() => expect(fetch.seen.length).toBe(1));

// Loading is not what is timed here.
beforeAll(loadEngine);

describe('abort', () => {
  test('the error of the signal is thrown as it is, and nothing is sent again', async () => {
    for (const reason of [new Error('mine'), 'text', new DOMException('gone', 'AbortError'), { custom: true }]) {
      const controller = new AbortController();
      const fetch = scripted(hangs);
      const call = withRetry(fetch)(URL, { signal: controller.signal });
      const result = call.catch((error: unknown) => error);
      await sent(fetch);
      controller.abort(reason);
      expect(await result).toBe(reason);
      expect(fetch.seen.length).toBe(1);
    }
  });

  test('whatever is thrown once the signal is aborted is an abort, and is thrown as it is', async () => {
    const controller = new AbortController();
    const own = new TypeError('fetch failed', { cause: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }) });
    const fetch = scripted(
      ({ signal }) =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(own));
        }),
    );
    const call = withRetry(fetch)(URL, { signal: controller.signal });
    const result = call.catch((thrown: unknown) => thrown);
    await sent(fetch);
    controller.abort();
    const error = await result;
    expect(error).toBe(own);
    expect(fetch.seen.length).toBe(1);
    expect(attemptsOf(error)[0]?.outcome).toEqual({ kind: 'cancelled', sent: true });
  });

  test('a fetch that does not listen is not waited for', async () => {
    const controller = new AbortController();
    const reason = new Error('mine');
    const fetch = scripted(() => new Promise(() => {}));
    const result = withRetry(fetch)(URL, { signal: controller.signal }).catch((error: unknown) => error);
    await sent(fetch);
    controller.abort(reason);
    expect(await result).toBe(reason);
  });

  test('an answer that comes after the abort is given up', async () => {
    const controller = new AbortController();
    const cancelled = vi.fn();
    const late = new Response(new ReadableStream({ cancel: cancelled }));
    let answerNow: (response: Response) => void = () => {};
    const fetch = scripted(() => new Promise((resolve) => (answerNow = resolve)));
    const call = withRetry(fetch)(URL, { signal: controller.signal });
    await sent(fetch);
    controller.abort();
    await expect(call).rejects.toThrow();
    answerNow(late);
    await vi.waitFor(() => expect(cancelled).toHaveBeenCalled());
  });

  test('during a wait it ends the call at once, with its reason in the history', async () => {
    const controller = new AbortController();
    const reason = new Error('mine');
    const fetch = scripted(answer(503, { 'retry-after': '30' }));
    const call = withRetry(fetch)(URL, { signal: controller.signal });
    await sent(fetch);
    controller.abort(reason);
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBe(reason);
    expect(attemptsOf(error).map(({ outcome }) => outcome)).toMatchObject([
      { kind: 'responded', status: 503 },
      { kind: 'cancelled', sent: false },
    ]);
    // The reason is the caller's own: it is not written on.
    expect('attempts' in reason).toBe(false);
  });

  test('before the call nothing is sent', async () => {
    const fetch = scripted(answer(200));
    const reason = new Error('mine');
    await expect(withRetry(fetch)(URL, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(fetch.seen.length).toBe(0);
  });

  test('the signal of a Request counts, and null takes it away', async () => {
    const aborted = new Request(URL, { signal: AbortSignal.abort(new Error('mine')) });
    await expect(withRetry(scripted(answer(200)))(aborted)).rejects.toThrow('mine');
    const response = await withRetry(scripted(answer(200)))(aborted, { signal: null });
    expect(response.status).toBe(200);
  });

  test('the signal still ends the reading of the response that was handed on', async () => {
    const controller = new AbortController();
    const fetch = scripted(({ signal }) => {
      const body = new ReadableStream({
        start: (stream) => signal?.addEventListener('abort', () => stream.error(signal.reason)),
      });
      return new Response(body);
    });
    const response = await withRetry(fetch)(URL, { signal: controller.signal });
    // Nothing but the body holds what follows the signal.
    await new Promise((resolve) => real(resolve, 1));
    collect();
    const reason = new Error('mine');
    controller.abort(reason);
    await expect(response.text()).rejects.toBe(reason);
  });

  test('all calls share one listener on a signal, and none warns of a leak', async () => {
    const controller = new AbortController();
    const added = vi.spyOn(controller.signal, 'addEventListener');
    const { signal } = controller;
    for (const options of [{}, { requestTimeoutMs: 0 }, { attemptTimeoutMs: 1000 }]) {
      const send = withRetry(scripted(answer(503), answer(200)), { ...fakeTime().options, ...options });
      await Promise.all(Array.from({ length: 20 }, () => send(URL, { signal })));
    }
    expect(added.mock.calls.length).toBe(1);
  });

  test('a call with a signal and a limit needs no WeakRef, which Workers have not had at all times', async () => {
    vi.stubGlobal('WeakRef', undefined);
    try {
      const { signal } = new AbortController();
      const response = await withRetry(scripted(answer(200)))(URL, { signal });
      expect(response.status).toBe(200);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('what a call leaves on a signal goes with its response', async () => {
    const controller = new AbortController();
    const responses: WeakRef<Response>[] = [];
    const send = withRetry(scripted(() => new Response('text')));
    for (let count = 0; count < 10; count += 1) {
      responses.push(new WeakRef(await send(URL, { signal: controller.signal })));
    }
    await vi.waitFor(() => {
      collect();
      expect(responses.filter((response) => response.deref()).length).toBe(0);
    });
  });
});

describe('deadline', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Runs a call to its end while time passes. */
  async function ended(call: Promise<Response>) {
    const settled = call.then(
      (response) => ({ response, error: undefined }),
      (error: unknown) => ({ response: undefined, error }),
    );
    let over = false;
    settled.then(() => {
      over = true;
    });
    while (!over) {
      await vi.runAllTimersAsync();
      // An abort gives the fetch a turn that fake timers do not fake: see `orAborted`.
      await turn();
    }
    return settled;
  }

  test('it is over all attempts, and names itself, what was waited for and the history', async () => {
    const fetch = scripted(answer(503), hangs);
    const { error } = await ended(withRetry(fetch, { requestTimeoutMs: 5000, random: () => 0 })(`${URL}?token=secret`));
    expect(error).toMatchObject({ name: 'TimeoutError' });
    expect((error as Error).message).toContain(
      'GET http://sandbox.test/: waited for an answer when 5000 ms had passed (requestTimeoutMs)',
    );
    expect((error as Error).message).toContain('1. at 0.000 s: answered 503; sent again');
    expect((error as Error).message).not.toContain('secret');
    expect(attemptsOf(error).map(({ outcome }) => outcome.kind)).toEqual(['responded', 'timed_out']);
    expect(fetch.seen[1]?.signal?.reason).toBe(error);
  });

  test('a wait that would reach it is not begun', async () => {
    const fetch = scripted(answer(429, { 'retry-after': '5' }));
    const { response } = await ended(withRetry(fetch, { requestTimeoutMs: 5000 })(URL));
    expect(response?.status).toBe(429);
    expect(attemptsOf(response).at(-1)?.verdict).toMatchObject({ reason: 'deadline_too_close', retryAfter: 5 });
  });

  test('the default is 60 s, and 0 is none', async () => {
    const { error } = await ended(withRetry(scripted(hangs))(URL));
    expect((error as Error).message).toContain('60000 ms');
    const fetch = scripted(() => new Promise((resolve) => setTimeout(() => resolve(new Response('late')), 3_600_000)));
    expect((await ended(withRetry(fetch, { requestTimeoutMs: 0 })(URL))).response?.status).toBe(200);
    expect(fetch.seen[0]?.signal).toBeUndefined();
  });

  test('it ends with the head of the response: the body may take longer', async () => {
    const fetch = scripted(({ signal }) => {
      const body = new ReadableStream({
        start: (stream) => {
          signal?.addEventListener('abort', () => stream.error(signal.reason));
          setTimeout(() => {
            stream.enqueue(new TextEncoder().encode('late'));
            stream.close();
          }, 60_000);
        },
      });
      return new Response(body);
    });
    const { response } = await ended(withRetry(fetch, { requestTimeoutMs: 1000 })(URL));
    await expect(response?.text()).resolves.toBe('late');
  });

  test('the caller who aborts first is not told of a deadline', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('mine')), 500);
    const call = withRetry(scripted(hangs), { requestTimeoutMs: 1000 })(URL, { signal: controller.signal });
    // A turn that fake timers do not fake: see `orAborted`.
    const result = call.catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(600);
    vi.useRealTimers();
    expect(await result).toMatchObject({ message: 'mine' });
  });

  test('a deadline longer than a timer can be does not pass at once', async () => {
    const fetch = scripted(() => new Promise((resolve) => setTimeout(() => resolve(new Response('late')), 1000)));
    const call = withRetry(fetch, { requestTimeoutMs: 2 ** 31 + 1000 })(URL);
    await vi.advanceTimersByTimeAsync(2000);
    expect((await call).status).toBe(200);
  });

  test('attemptTimeoutMs ends an attempt, whose outcome is unknown', async () => {
    const fetch = scripted(hangs, answer(200));
    const { response } = await ended(withRetry(fetch, { attemptTimeoutMs: 1000 })(URL));
    expect(response?.status).toBe(200);
    expect(attemptsOf(response)[0]?.outcome).toMatchObject({ kind: 'sent_unknown', cause: 'attempt_timeout' });
    const post = scripted(hangs);
    const { error } = await ended(withRetry(post, { attemptTimeoutMs: 1000 })(URL, { method: 'POST' }));
    expect((error as Error).message).toContain('1000 ms (attemptTimeoutMs)');
    expect(post.seen.length).toBe(1);
  });

  test('it bounds no streamed request body', async () => {
    const fetch = scripted(() => new Promise((resolve) => setTimeout(() => resolve(new Response('ok')), 120_000)));
    const init = { method: 'POST', body: new ReadableStream(), duplex: 'half' } as RequestInit;
    expect((await ended(withRetry(fetch)(URL, init))).response?.status).toBe(200);
  });
});

test('a lost connection after the deadline was near is not repeated', async () => {
  const time = fakeTime();
  const fetch = scripted(() => {
    time.options.sleep(59_990);
    return lostConnection({} as never);
  });
  const error = await withRetry(fetch, time.options)(URL).catch((thrown: unknown) => thrown);
  expect(attemptsOf(error)[0]?.verdict).toMatchObject({ reason: 'deadline_too_close' });
});

test('a fetch that does not listen ends with the attempt, too', async () => {
  const fetch = scripted(() => new Promise(() => {}), answer(200));
  const response = await withRetry(fetch, { attemptTimeoutMs: 5 })(URL);
  expect(response.status).toBe(200);
  expect(attemptsOf(response)[0]?.outcome).toMatchObject({ kind: 'sent_unknown', cause: 'attempt_timeout' });
});
