/** `withRetry` asks the policy, and does what it says. */

import { describe, expect, test } from 'vitest';
import { attemptsOf, describeAttempts, e2bOperations, type RetryOptions, withRetry } from '../../src/retry.ts';
import { answer, fails, fakeTime, type Happens, lostConnection, refusedConnection, scripted } from './support.ts';

const URL = 'http://sandbox.test/path?secret=1';

/** Makes one call under a script. */
async function run(script: Happens[], init: RequestInit = {}, options: RetryOptions = {}) {
  const time = fakeTime();
  const fetch = scripted(...script);
  const result = await withRetry(fetch, { ...time.options, ...options })(URL, init).then(
    (response) => ({ response, error: undefined }),
    (error) => ({ response: undefined, error }),
  );
  return { ...result, seen: fetch.seen, waits: time.waits, attempts: attemptsOf(result.response ?? result.error) };
}

const POST = { method: 'POST', body: 'x' };

describe('statuses', () => {
  test('a 503 is retried after backoff, also of a POST', async () => {
    const { response, waits, attempts } = await run([answer(503), answer(503), answer(200)], POST);
    expect(response?.status).toBe(200);
    expect(waits).toEqual([75, 150]);
    expect(attempts.map(({ verdict }) => verdict.kind)).toEqual(['retry', 'retry', 'return']);
  });

  test('Retry-After is kept exactly, zero included', async () => {
    const { waits } = await run([
      answer(429, { 'retry-after': '2' }),
      answer(503, { 'retry-after': '0' }),
      answer(200),
    ]);
    expect(waits).toEqual([2000]);
  });

  test('when retries end the last response is returned as it came, with its history', async () => {
    const last = new Response('busy', { status: 503 });
    const { response, seen, attempts } = await run([answer(503), answer(503), answer(503), () => last]);
    expect(response).toBe(last);
    expect(await response?.text()).toBe('busy');
    expect(seen.length).toBe(4);
    expect(attempts.at(-1)?.verdict).toEqual({ kind: 'return', reason: 'retries_used', retryAfter: undefined });
    expect((response as unknown as { attempts: unknown }).attempts).toBe(attempts);
  });

  test('a 429 without Retry-After and a 404 are returned', async () => {
    expect((await run([answer(429)])).seen.length).toBe(1);
    expect((await run([answer(404)])).seen.length).toBe(1);
  });

  test('a preset is what it says', async () => {
    expect((await run([answer(429), answer(200)], {}, { preset: 'e2b_2_63' })).response?.status).toBe(200);
    expect((await run([answer(502), answer(200)], POST, { preset: 'e2b_2_52' })).response?.status).toBe(200);
    expect((await run([answer(502), answer(200)], POST)).response?.status).toBe(502);
  });
});

describe('errors', () => {
  test('a refused connection is replayed for any method', async () => {
    const { response, attempts } = await run([refusedConnection, refusedConnection, answer(200)], POST);
    expect(response?.status).toBe(200);
    expect(attempts.map(({ outcome }) => outcome.kind)).toEqual(['not_sent', 'not_sent', 'responded']);
  });

  test('a lost connection is repeated for a GET and not for a POST; the error is the one that was thrown', async () => {
    expect((await run([lostConnection, answer(200)])).response?.status).toBe(200);
    const thrown = new TypeError('fetch failed', { cause: Object.assign(new Error('gone'), { code: 'ECONNRESET' }) });
    const { error, seen, attempts } = await run(
      [
        () => {
          throw thrown;
        },
      ],
      POST,
    );
    expect(error).toBe(thrown);
    expect(seen.length).toBe(1);
    expect(attempts[0]?.verdict).toMatchObject({ kind: 'return', reason: 'no_permit' });
    expect(describeAttempts(attempts)).toBe(
      '  1. at 0.000 s: sent, outcome unknown: connection lost: gone; ended: it may have been processed, and nothing ' +
        'permits a repeat (repeatUnknown, idempotency key)',
    );
  });

  test('what is no error is thrown on at once', async () => {
    const { error, seen } = await run([
      () => {
        throw 'text';
      },
    ]);
    expect(error).toBe('text');
    expect(seen.length).toBe(1);
  });

  test('an error that nobody knows is repeated only where permitted', async () => {
    expect((await run([fails({ code: 'EQUOTA' }), answer(200)])).response?.status).toBe(200);
    expect((await run([fails({ code: 'EQUOTA' }), answer(200)], POST)).error).toBeInstanceOf(TypeError);
  });

  test('a refused stream is sent again, also of a POST', async () => {
    const refused = fails({
      code: 'ERR_HTTP2_STREAM_ERROR',
      message: 'Stream closed with error code NGHTTP2_REFUSED_STREAM',
    });
    expect((await run([refused, answer(200)], POST)).response?.status).toBe(200);
  });

  test('dials that fail wait by their number in a row', async () => {
    const { waits, error } = await run([refusedConnection], {}, { connectionRetries: 3 });
    expect(waits).toEqual([500, 750, 1125]);
    expect(attemptsOf(error).length).toBe(4);
  });

  test('dials that fail together are one of those in a row, and only an answer ends them', async () => {
    const { options, waits } = fakeTime();
    const [no, lost, yes] = [refusedConnection, lostConnection, answer(200)];
    const send = withRetry(scripted(no, no, no, lost, lost, lost, no, yes, no, yes), options);
    const ends = await Promise.allSettled([send(URL, POST), send(URL, POST), send(URL, POST)]);
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(waits.splice(0)).toEqual([500, 500, 500]);
    // Neither an unknown outcome nor an abort has shown that the origin can be reached.
    await expect(send(URL, { signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
    await send(URL);
    await send(URL);
    expect(waits).toEqual([750, 500]);
  });
});

describe('permits', () => {
  test('an idempotency key permits the repeat, and is the same for all attempts', async () => {
    const { response, seen } = await run([lostConnection, answer(200)], POST, { idempotencyKey: () => 'key-1' });
    expect(response?.status).toBe(200);
    expect(seen.map(({ headers }) => headers.get('idempotency-key'))).toEqual(['key-1', 'key-1']);
    const own = { ...POST, headers: { 'Idempotency-Key': 'mine' } };
    const given = await run([lostConnection, answer(200)], own, { idempotencyKey: () => 'key-1' });
    expect(given.seen.map(({ headers }) => headers.get('idempotency-key'))).toEqual(['mine', 'mine']);
    expect((await run([lostConnection], own, { idempotencyKeys: 'ignored' })).seen.length).toBe(1);
  });

  test('the operation table permits what the method does not', async () => {
    const operations = e2bOperations('control_plane');
    const call = (path: string, options: RetryOptions = {}) => {
      const fetch = scripted(lostConnection, answer(204));
      const send = withRetry(fetch, { ...fakeTime().options, operations, basePath: '/api/', ...options });
      return send(`http://control.test${path}`, POST).then(
        ({ status }) => status,
        () => fetch.seen.length,
      );
    };
    expect(await call('/api/sandboxes/i1/pause?x=1')).toBe(204);
    expect(await call('/sandboxes/i1/pause')).toBe(1);
    expect(await call('/api/sandboxes/i1/pause/more')).toBe(1);
    expect(await call('/api/v2/sandboxes')).toBe(1);
    // Whether a server honours the key of a create is not known: see `idempotencyKeys`.
    expect(await call('/api/v2/sandboxes', { idempotencyKey: () => 'k' })).toBe(1);
    expect(await call('/api/v2/sandboxes', { idempotencyKey: () => 'k', idempotencyKeys: 'honoured' })).toBe(204);
  });

  test('repeatUnknown forbids', async () => {
    expect((await run([lostConnection], {}, { repeatUnknown: 'never' })).seen.length).toBe(1);
  });
});

describe('counters', () => {
  test('retries: 0 is one attempt, whatever happens', async () => {
    expect((await run([answer(503)], {}, { retries: 0 })).seen.length).toBe(1);
    expect((await run([refusedConnection], {}, { retries: 0 })).seen.length).toBe(1);
  });

  test('connectionRetries follows retries where it is not given', async () => {
    expect((await run([refusedConnection], {}, { retries: 1 })).seen.length).toBe(2);
    expect((await run([refusedConnection], {}, { retries: 0, connectionRetries: 2 })).seen.length).toBe(3);
    expect((await run([refusedConnection])).seen.length).toBe(4);
  });

  test('all retries of an origin share a budget', async () => {
    const time = fakeTime();
    const send = withRetry(scripted(answer(503)), { ...time.options, sleep: async () => {} });
    let last = await send(URL);
    for (let calls = 1; calls < 40; calls += 1) last = await send(URL);
    expect(attemptsOf(last).at(-1)?.verdict).toMatchObject({ reason: 'budget_empty' });
    const other = await send('http://other.test/');
    expect(attemptsOf(other).at(-1)?.verdict).toMatchObject({ reason: 'retries_used' });
  });

  test('a server names attempts from the second on', async () => {
    const { seen } = await run([answer(503), answer(503), answer(200)], { headers: { 'x-mine': '1' } });
    expect(seen.map(({ headers }) => headers.get('oncebox-attempt'))).toEqual([null, '2', '3']);
    expect(seen.map(({ headers }) => headers.get('x-mine'))).toEqual(['1', '1', '1']);
  });
});
