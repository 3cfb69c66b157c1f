/** A control plane of which only the answers' order matters. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';

const TIMES = { startedAt: '2026-01-01T00:00:00Z', endAt: '2026-01-01T00:05:00Z' };
/** What the answer is as a secret. */
export const SECRET = expect.objectContaining({ secretId: 's1' });
const WIRE_SECRET = {
  secretID: 's1',
  name: 's',
  currentVersion: 2,
  createdAt: TIMES.startedAt,
  updatedAt: TIMES.endAt,
};
const INFO = { ...WIRE_SECRET, templateID: 't', sandboxID: 'i1', clientID: '', state: 'running', ...TIMES };

/** What a request is answered with: a status, with headers and a body; `cut`: nothing, the connection is lost; `silent`: nothing at all. */
export type Turn = number | 'cut' | 'silent' | { status: number; headers?: Record<string, string>; body?: string };

/** A control plane that answers by a script, the last turn for ever, and says what it was asked. */
export async function serve(...turns: Turn[]) {
  const seen: { method: string; url: string; headers: IncomingMessage['headers'] }[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const turn = turns[Math.min(seen.length, turns.length - 1)] ?? 200;
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers });
    if (turn === 'silent') return;
    if (turn === 'cut') {
      request.socket.destroy();
      return;
    }
    const { status, headers = {}, body = JSON.stringify(INFO) } = typeof turn === 'number' ? { status: turn } : turn;
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  };
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    seen,
    opts: { apiUrl: url, sandboxUrl: url, apiKey: 'k' },
    [Symbol.dispose]: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
