import { describe, expect, test } from 'vitest';
import { native } from '../../src/native/index.ts';
import { ATTEMPTS, CALL, type CallPlan, carriesOutcome } from '../../src/native/protocol.ts';
import type { PolicyRecord } from '../../src/policy/types.ts';
import { FaultServer } from '../../src/testing.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('native transport: replays', 'program', 'addon');

/** HTTP/2 without TLS, as the scripted servers speak it. */
const open = (options = {}) => native.open({ httpVersion: '2', proxy: false, ...options });

const attempts = (response: Response) => (response as unknown as { [ATTEMPTS]: PolicyRecord[] })[ATTEMPTS];

const planned = (plan: CallPlan, init: RequestInit = {}) => ({ ...init, [CALL]: plan }) as RequestInit;

async function thrown(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('it did not fail');
}

const stream = (text: string) =>
  new ReadableStream({
    start(pieces) {
      for (const piece of text.match(/.{1,7}/gs) ?? []) pieces.enqueue(new TextEncoder().encode(piece));
      pieces.close();
    },
  });

describe.skipIf(skip)('native transport: replays', () => {
  test('no request is lost or doubled over connections that retire after 20 streams, bytes and streams', async () => {
    await using server = await FaultServer.start('requests-lost-when-connections-retire');
    const fetch = open();
    const post = async (n: number) => {
      const text = `request ${n}`;
      const body = n % 2 ? stream(text) : text;
      const response = await fetch(`${server.url}/things`, {
        method: 'POST',
        body,
        headers: { 'x-request-id': `${n}` },
      });
      await response.arrayBuffer();
      return response.status;
    };
    const queue = Array.from({ length: 2000 }, (_, n) => n);
    const statuses: number[] = [];
    const worker = async () => {
      for (let n = queue.pop(); n !== undefined; n = queue.pop()) statuses.push(await post(n));
    };
    await Promise.all(Array.from({ length: 64 }, worker));
    const report = await server.stop();
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect(report.requests.length).toBe(2000);
    expect(report.requests.filter((request) => request.processed !== 1)).toEqual([]);
    // It was put to the test: connections retired, and streams were above the last id.
    expect(report.connections.length).toBeGreaterThan(50);
  });

  test('a refused stream is sent again, and the response has the history', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'request', when: { try: 1 }, do: ['refuse'] }] });
    const told: string[] = [];
    const onAttempt = (attempt: PolicyRecord, number: number) => {
      told.push(`${number} ${attempt.outcome.kind}`);
    };
    const init = planned(
      { retries: 0, onAttempt },
      { method: 'POST', body: stream('hello'), headers: { 'x-request-id': 'a' } },
    );
    const response = await open()(`${server.url}/`, init);
    expect(response.status).toBe(200);
    expect(attempts(response).map(({ outcome }) => outcome.kind)).toEqual(['refused', 'responded']);
    expect(told).toEqual(['1 refused', '2 responded']);
    const report = await server.stop();
    expect(report.requests.map(({ heads, processed }) => [heads, processed])).toEqual([[2, 1]]);
    expect(report.requests[0]?.tries.map((each) => each.body_bytes)).toEqual([0, 5]);
  });

  test('one attempt is one attempt, and the error says what is known', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'request', do: ['refuse'] }] });
    const init = planned(
      { retries: 0, connectionRetries: 0 },
      { method: 'POST', body: 'x', headers: { 'x-request-id': 'a' } },
    );
    const error = await thrown(open()(`${server.url}/`, init));
    expect(error).toBeInstanceOf(TypeError);
    if (!carriesOutcome(error)) throw error;
    expect(error.outcome).toEqual({ kind: 'refused', streamId: 1 });
    expect(error.attempts.length).toBe(1);
    expect(error.mayHaveBeenProcessed).toBe(false);
    expect((await server.stop()).requests[0]?.heads).toBe(1);
  });

  test('a stream above the last of a GOAWAY is refused, with its evidence', async () => {
    await using server = await FaultServer.start({
      rules: [{ at: 'request', do: [{ goaway: { last: { id: 0 }, debug: 'max_age' } }] }],
    });
    const init = planned({ connectionRetries: 0 }, { method: 'POST', body: 'x' });
    const error = await thrown(open()(`${server.url}/`, init));
    if (!carriesOutcome(error)) throw error;
    const goaway = { streamId: 1, lastStreamId: 0, code: 0, debugData: 'max_age' };
    expect(error.outcome).toEqual({ kind: 'refused', streamId: 1, goaway });
    expect(error.attempts[0]?.verdict).toMatchObject({ kind: 'return', reason: 'connection_retries_used' });
    expect(error.message).toContain('stream refused by GOAWAY: stream 1 above last stream id 0, NO_ERROR, max_age');
  });

  test('an answer that is lost after the effect is unknown, and nothing is sent twice', async () => {
    await using server = await FaultServer.start({ rules: [{ at: 'processed', do: ['reset'] }] });
    const error = await thrown(
      open()(`${server.url}/`, { method: 'POST', body: 'x', headers: { 'x-request-id': 'a' } }),
    );
    if (!carriesOutcome(error)) throw error;
    expect(error.outcome).toMatchObject({ kind: 'sent_unknown', cause: 'connection_lost' });
    expect(error.mayHaveBeenProcessed).toBe(true);
    expect((await server.stop()).requests.map(({ heads, processed }) => [heads, processed])).toEqual([[1, 1]]);
  });

  test('a whole call is made by its plan: retries, permit, policy', async () => {
    await using server = await FaultServer.start({
      rules: [{ at: 'received', when: { try: '1-2' }, do: [{ answer: { status: 502 } }] }],
    });
    const fetch = open();
    const post = (id: string, plan: CallPlan) =>
      fetch(`${server.url}/`, planned(plan, { method: 'POST', body: 'x', headers: { 'x-request-id': id } }));
    expect((await post('unpermitted', { retries: 3 })).status).toBe(502);
    expect((await post('permitted', { retries: 3, permit: 'idempotency_key' })).status).toBe(200);
    expect((await post('trusted', { retries: 3, policy: { trustBadGateway: true } })).status).toBe(200);
    expect((await post('used up', { retries: 1, permit: 'operation_table' })).status).toBe(502);
    const heads = (await server.stop()).requests.map(({ id, heads }) => [id, heads]);
    expect(Object.fromEntries(heads)).toEqual({ unpermitted: 1, permitted: 3, trusted: 3, 'used up': 2 });
  });

  test('a response that is cut is an unknown outcome where it is read within the attempt', async () => {
    await using server = await FaultServer.start({
      rules: [{ at: { answer_body: 5 }, when: { try: 1 }, do: [{ reset_stream: 'INTERNAL_ERROR' }] }],
      answer: { body: { size: 100 } },
    });
    const fetch = open();
    const get = (id: string, plan: CallPlan) =>
      fetch(`${server.url}/`, planned(plan, { headers: { 'x-request-id': id } }));
    const whole = await get('whole', { retries: 1, collect: true });
    expect((await whole.arrayBuffer()).byteLength).toBe(100);
    expect(attempts(whole).length).toBe(2);
    const streamed = await get('streamed', { retries: 1 });
    expect(await thrown(streamed.arrayBuffer())).toMatchObject({ message: expect.stringContaining('cut after') });
    expect(attempts(streamed).length).toBe(1);
  });
});
