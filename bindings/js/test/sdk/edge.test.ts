/** What stands before a sandbox answers in its place: judged alike, whatever carries the requests. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { getEnvdHealth, processStart } from '../../src/generated/operations.ts';
import { Caller } from '../../src/retry/caller.ts';
import { openTransport } from '../../src/transport.ts';
import { transports } from './server.ts';

interface Answer {
  readonly status?: number;
  readonly type?: string;
  /** Its pieces, each sent by itself. `cut`: the connection is lost then. */
  readonly pieces: readonly (Uint8Array | string | 'cut')[];
}

async function serve(...answers: Answer[]) {
  let count = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', async () => {
      const {
        status = 200,
        type = 'application/json',
        pieces,
      } = answers[Math.min(count, answers.length - 1)] as Answer;
      count += 1;
      response.writeHead(status, { 'content-type': type });
      for (const piece of pieces) {
        if (piece === 'cut') return void response.destroy();
        await new Promise((resolve) => response.write(piece, resolve));
      }
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    count: () => count,
    [Symbol.dispose]: stop,
  };
}

const envelope = (flags: number, content: string): Uint8Array => {
  const bytes = new TextEncoder().encode(content);
  const all = new Uint8Array(5 + bytes.length);
  all[0] = flags;
  new DataView(all.buffer).setUint32(1, bytes.length);
  all.set(bytes, 5);
  return all;
};
const failure = (code: string, message: string) => envelope(2, JSON.stringify({ error: { code, message } }));
const connect = (...pieces: Answer['pieces']): Answer => ({ type: 'application/connect+json', pieces });
const edge = (status: number, message: string): Answer => ({ status, pieces: [JSON.stringify({ message })] });

describe.each(transports)("the edge's answers over %s", (transport) => {
  const caller = new Caller({ fetch: openTransport({ transport }) });
  const send = async (url: string, options = {}, read: 'whole' | 'stream' = 'stream') => {
    const operation = read === 'whole' ? getEnvdHealth : processStart;
    const body = read === 'whole' ? undefined : 'x';
    const { response, attempts, body: all } = await caller.send({ operation, url, body, read, options });
    const bytes = all ?? new Uint8Array(await response.arrayBuffer());
    const outcomes = attempts.map(({ outcome, verdict }) =>
      outcome.kind === 'responded' ? [outcome.status, outcome.edge, verdict.kind] : [outcome.kind],
    );
    return { status: response.status, outcomes, bytes };
  };

  test.each([
    [502, 'The sandbox is running but port is not open'],
    [409, 'the sandbox is transitioning'],
  ])('%i %s: nothing was delivered, and it is sent again', async (status, message) => {
    for (const read of ['whole', 'stream'] as const) {
      using server = await serve(edge(status, message), { pieces: ['ok'] });
      const told = await send(server.url, {}, read);
      expect(told.outcomes).toEqual([
        [status, 'not_delivered', 'retry'],
        [200, undefined, 'return'],
      ]);
    }
  });

  test('a stream that begins with such an error is sent again, whole or in pieces', async () => {
    const error = failure('unavailable', 'port is not open');
    for (const pieces of [[error], [error.subarray(0, 1), error.subarray(1, 4), error.subarray(4)]]) {
      const message = envelope(0, '{"event":{}}');
      using server = await serve(connect(...pieces), connect(message.subarray(0, 3), message.subarray(3)));
      const told = await send(server.url);
      expect(told.outcomes).toEqual([
        [200, 'not_delivered', 'retry'],
        [200, undefined, 'return'],
      ]);
      // What was looked at is there to be read.
      expect(told.bytes).toEqual(message);
    }
  });

  test('a stream that begins with an error is judged like a status, and given as it came', async () => {
    for (const [code, status] of [
      ['unavailable', 503],
      ['resource_exhausted', 429],
      ['deadline_exceeded', 504],
      ['internal', 200],
    ] as const) {
      const error = failure(code, 'busy');
      using server = await serve(connect(error));
      const told = await send(server.url, { retries: 1 });
      const again = code === 'unavailable' ? [[status, undefined, 'retry']] : [];
      expect(told.outcomes).toEqual([...again, [status, undefined, 'return']]);
      expect([told.status, told.bytes]).toEqual([200, error]);
    }
  });

  test('a stream that begins with a message, is compressed, or has no error, is as it is', async () => {
    const error = failure('unavailable', 'port is not open');
    for (const pieces of [
      [envelope(0, '{}'), error],
      [envelope(3, 'x')],
      [envelope(2, '{}')],
      [envelope(2, 'no JSON')],
      [],
    ]) {
      using server = await serve(connect(...pieces));
      const told = await send(server.url);
      expect(told.outcomes).toEqual([[200, undefined, 'return']]);
      expect(told.bytes.length).toBe(pieces.reduce((sum, { length }) => sum + length, 0));
    }
  });

  test('a stream that is cut while it is looked at says nothing, and its reader sees the cut', async () => {
    using server = await serve(connect(failure('unavailable', 'port is not open').subarray(0, 9), 'cut'));
    await expect(send(server.url)).rejects.toThrow();
    expect(server.count()).toBe(1);
  });

  test('a stream whose reader goes away ends', async () => {
    let closed = () => {};
    const gone = new Promise<void>((resolve) => {
      closed = resolve;
    });
    const server = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'application/connect+json' });
      response.write(envelope(0, '{}'));
      response.on('close', closed);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const { response } = await caller.send({ operation: processStart, url, body: 'x', read: 'stream' });
    const reader = response.body?.getReader();
    expect((await reader?.read())?.value).toEqual(envelope(0, '{}'));
    await reader?.cancel();
    await gone;
    server.close();
  });
});
