/** A `fetch` that does what a script says, and time that only waits pass. */

import type { Filled } from '../../src/retry/options.ts';
import type { RetryOptions } from '../../src/retry.ts';

/** What the scripted `fetch` was given. */
export interface Seen {
  readonly input: Parameters<typeof fetch>[0];
  readonly init: RequestInit;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
}

/** What happens to one attempt. */
export type Happens = (seen: Seen) => Response | Promise<Response>;

/** An attempt that is answered. */
export const answer =
  (status: number, headers: Record<string, string> = {}, body: BodyInit | null = null): Happens =>
  () =>
    new Response(body, { status, headers });

/** An attempt that fails as Node's `fetch` does. */
export const fails =
  (cause: Record<string, unknown>): Happens =>
  () => {
    throw new TypeError('fetch failed', {
      cause: Object.assign(new Error(String(cause.message ?? cause.code)), cause),
    });
  };

export const refusedConnection = fails({ code: 'ECONNREFUSED', syscall: 'connect' });
export const lostConnection = fails({ code: 'UND_ERR_SOCKET', message: 'other side closed' });

/** An attempt that ends when its signal does. */
export const hangs: Happens = ({ signal }) =>
  new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });

/** A scripted `fetch`: one thing for each attempt, the last for all further ones. */
export function scripted(...script: Happens[]): typeof fetch & { seen: Seen[] } {
  const seen: Seen[] = [];
  const scriptedFetch = async (input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> => {
    const request = input instanceof Request ? input : undefined;
    const one: Seen = {
      input,
      init,
      url: request?.url ?? String(input),
      method: init.method ?? request?.method ?? 'GET',
      headers: new Headers(init.headers ?? request?.headers),
      signal: init.signal ?? undefined,
    };
    seen.push(one);
    const happens = script[Math.min(seen.length, script.length) - 1];
    if (happens === undefined) throw new Error('the script is empty');
    return happens(one);
  };
  return Object.assign(scriptedFetch, { seen });
}

/** A clock that only waits move, as options, and the waits in milliseconds. */
export function fakeTime(): {
  readonly options: Filled<Pick<RetryOptions, 'now' | 'sleep' | 'random'>>;
  readonly waits: number[];
} {
  let now = 0;
  const waits: number[] = [];
  const options = {
    now: () => now,
    random: () => 0.5,
    sleep: async (ms: number) => {
      waits.push(ms);
      now += ms;
    },
  };
  return { options, waits };
}
