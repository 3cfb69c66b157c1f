/** One attempt over `fetch`, until the retrying sender is in place. */

import { isBrowser } from '../runtime.ts';
import { type Answer, type Attempt, type Call, CallError, type Sender } from './sender.ts';

/** Sends by a `fetch`; without one by the runtime's, looked up at each call. */
export function senderOf(fetch: typeof globalThis.fetch | undefined): Sender {
  return { send: (call) => send(fetch ?? globalThis.fetch, call) };
}

async function send(fetch: typeof globalThis.fetch, call: Call): Promise<Answer> {
  const controller = new AbortController();
  const { signal } = call;
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) throw signal.reason;
  signal?.addEventListener('abort', abort, { once: true });
  let timedOut = false;
  const timer =
    call.requestTimeoutMs > 0
      ? setTimeout(() => {
          timedOut = true;
          controller.abort();
        }, call.requestTimeoutMs)
      : undefined;
  try {
    const init: RequestInit & { duplex?: 'half' } = {
      method: call.method,
      headers: { ...call.headers },
      redirect: 'manual',
      signal: controller.signal,
    };
    if (call.body !== undefined) init.body = call.body;
    if (call.body instanceof ReadableStream) init.duplex = 'half';
    if (!isBrowser()) init.credentials = 'omit';
    const response = await fetch(call.base + call.path, init);
    const attempts: Attempt[] = [{ attempt: 1, outcome: 'Responded', status: response.status }];
    if (call.read === 'stream') {
      // The signal stays: it ends the body, too.
      return { status: response.status, headers: response.headers, response, attempts };
    }
    const bytes = await response.arrayBuffer();
    const empty = [101, 204, 205, 304].includes(response.status);
    const whole = new Response(empty ? null : bytes, { status: response.status, headers: response.headers });
    signal?.removeEventListener('abort', abort);
    return { status: response.status, headers: response.headers, response: whole, attempts };
  } catch (error) {
    signal?.removeEventListener('abort', abort);
    if (signal?.aborted) throw signal.reason;
    const outcome = timedOut ? 'TimedOut' : isConnectFailure(error) ? 'NotSent' : 'SentUnknown';
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const words = timedOut ? `no answer within ${call.requestTimeoutMs} ms (requestTimeoutMs)` : String(cause);
    const attempts: Attempt[] = [{ attempt: 1, outcome, evidence: words }];
    throw new CallError(words, outcome, attempts, undefined, error);
  } finally {
    clearTimeout(timer);
  }
}

function isConnectFailure(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code === 'ECONNREFUSED' || cause?.code === 'ENOTFOUND';
}
