import { describe, expect, test } from 'vitest';
import { native } from '../../src/native/index.ts';
import { attemptsOf, type LogEvent, type RetryOptions, withRetry } from '../../src/retry.ts';
import { FaultServer } from '../../src/testing.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('native transport: withRetry', 'program', 'addon');

/** The loop in Rust, and the loop here over single attempts: which one runs is told by whether chance is injected. */
const LOOPS: [string, RetryOptions][] = [
  ['the loop in Rust', {}],
  ['the loop here', { random: () => 0.5 }],
];

const fetch = () => native.open({ httpVersion: '2', proxy: false });

const post = (id: string, body: BodyInit = 'x') => ({ method: 'POST', body, headers: { 'x-request-id': id } });

const kinds = (value: unknown) => attemptsOf(value).map(({ outcome }) => outcome.kind);

async function thrown(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error) => error,
  );
}

describe.skipIf(skip).each(LOOPS)('native transport: withRetry, %s', (_, options) => {
  test('all layers together stay within one ledger', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'request', do: ['refuse'] }] });
    const log: LogEvent[] = [];
    const retrying = withRetry(fetch(), {
      ...options,
      retries: 1,
      connectionRetries: 2,
      log: (event) => log.push(event),
    });
    const error = await thrown(retrying(`${server.url}/path?secret`, post('a')));
    expect(error).toBeInstanceOf(TypeError);
    expect(attemptsOf(error).map(({ outcome }) => outcome)).toEqual([
      { kind: 'refused', streamId: 1 },
      { kind: 'refused', streamId: expect.any(Number) },
      { kind: 'refused', streamId: expect.any(Number) },
    ]);
    expect(attemptsOf(error).at(-1)?.verdict).toMatchObject({ kind: 'return', reason: 'connection_retries_used' });
    expect(log.map((event) => (event.kind === 'attempt' ? event.attempt.number : event.attempts))).toEqual([
      1, 2, 3, 3,
    ]);
    expect(log[0]?.url).toBe(`${server.url}/path`);
    expect((await server.stop()).requests[0]?.heads).toBe(3);
  });

  test('statuses are retried as the policy says, and the last answer is returned as it came', async () => {
    const busy = {
      at: 'received',
      when: { try: '1-2' },
      do: [{ answer: { status: 503, retry_after: { seconds: 0 } } }],
    };
    await using server = await FaultServer.start({ rules: [busy], answer: { body: { text: 'done' } } });
    const done = await withRetry(fetch(), options)(`${server.url}/`, post('a'));
    expect([done.status, await done.text(), kinds(done)]).toEqual([
      200,
      'done',
      ['responded', 'responded', 'responded'],
    ]);
    const never = await withRetry(fetch(), { ...options, retries: 0 })(`${server.url}/`, post('b'));
    expect([never.status, kinds(never)]).toEqual([503, ['responded']]);
    expect((await server.stop()).requests.map(({ heads, processed }) => [heads, processed])).toEqual([
      [3, 1],
      [1, 0],
    ]);
  });

  test('an answer that is lost after the effect is not sent again without a permit', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'processed', when: { try: 1 }, do: ['reset'] }] });
    const error = await thrown(withRetry(fetch(), options)(`${server.url}/`, post('lost')));
    expect(attemptsOf(error)).toMatchObject([
      { outcome: { kind: 'sent_unknown', cause: 'connection_lost' }, verdict: { reason: 'no_permit' } },
    ]);
    const keyed = withRetry(fetch(), { ...options, idempotencyKey: () => 'key' });
    expect(kinds(await keyed(`${server.url}/`, post('keyed')))).toEqual(['sent_unknown', 'responded']);
    const counts = (await server.stop()).requests.map(({ id, processed }) => [id, processed]);
    expect(Object.fromEntries(counts)).toEqual({ lost: 1, keyed: 2 });
  });

  test('the deadline is a TimeoutError with its history, and an abort is rethrown as it is', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'processed', do: ['hold'] }] });
    const late = await thrown(withRetry(fetch(), { ...options, requestTimeoutMs: 300 })(`${server.url}/`, post('a')));
    expect(late).toMatchObject({ name: 'TimeoutError', message: expect.stringContaining('waited for') });
    expect(kinds(late)).toEqual(['timed_out']);
    const reason = { mine: true };
    const aborting = new AbortController();
    setTimeout(() => aborting.abort(reason), 100);
    const aborted = await thrown(
      withRetry(fetch(), options)(`${server.url}/`, { ...post('b'), signal: aborting.signal }),
    );
    expect(aborted).toBe(reason);
  });
});

describe.skipIf(skip)('native transport: withRetry and streams', () => {
  test('a stream that was refused is sent again from its mirror', async () => {
    await using server = await FaultServer.start({
      rules: [{ at: { request_body: 20_000 }, when: { try: 1 }, do: ['refuse'] }],
    });
    let pulled = 0;
    const body = new ReadableStream({
      pull(pieces) {
        pulled += 1;
        if (pulled > 5) pieces.close();
        else pieces.enqueue(new Uint8Array(10_000));
      },
    });
    const response = await withRetry(fetch())(`${server.url}/`, post('a', body));
    expect([response.status, kinds(response)]).toEqual([200, ['refused', 'responded']]);
    const [request] = (await server.stop()).requests;
    expect(request?.tries.at(-1)).toMatchObject({ body_bytes: 50_000, processed: true });
    expect(request?.processed).toBe(1);
  });
});
