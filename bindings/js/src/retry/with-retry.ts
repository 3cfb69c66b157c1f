import { runsCalls } from '../native/protocol.ts';
import type { CallFacts, Policy } from '../policy/types.ts';
import { discard } from './attempt.ts';
import { type Means, makeCall } from './call.ts';
import { sleep } from './clock.ts';
import { type Attempt, attemptsOf, withHistory } from './history.ts';
import { shown } from './log.ts';
import { type Operation, permitOf, permitOfMethod } from './operations.ts';
import {
  DEFAULT_REQUEST_TIMEOUT_MS,
  isOwnClock,
  policyOf,
  RETRY_RULES,
  type RetryOptions,
  validate,
  validateEnvironment,
} from './options.ts';
import { Origins } from './origins.ts';
import { type Given, isFollowedHere, redirected, shownRedirects, withEarlier } from './redirects.ts';
import { type FetchInput, type Repeatable, repeatable } from './request.ts';

const IDEMPOTENCY_KEY = 'Idempotency-Key';

/**
 * `fetch` that sends again what was provably not processed, retries what may be retried, and tells what it did
 * ({@link attemptsOf}). It takes and returns what `fetch` does: when it stops retrying, the last response is returned as
 * it came, and what was thrown last is thrown as it was.
 *
 * ```ts
 * const fetch = withRetry(globalThis.fetch, { retries: 5, requestTimeoutMs: 30_000 });
 * const response = await fetch('https://example.com/');
 * ```
 *
 * @param fetch what sends a request. Without it, the global `fetch` of the moment of each call.
 * @throws TypeError for an option that breaks its rule, which is named; nothing was sent then.
 */
export function withRetry(fetch?: typeof globalThis.fetch, options: RetryOptions = {}): typeof globalThis.fetch {
  if (fetch !== undefined && typeof fetch !== 'function') throw new TypeError('fetch: not a function');
  validate(options, RETRY_RULES);
  validateEnvironment(options);
  // A later change of the object is no change of this client.
  const given = { ...options };
  const now = given.now ?? (() => performance.now());
  const origins = new Origins(now);
  const means: Omit<Means, 'fetch'> = {
    random: given.random ?? Math.random,
    sleep: given.sleep ?? sleep,
    now,
    origin: (url, engine) => origins.of(url, engine),
    log: given.log,
    ownClock: isOwnClock(given),
  };
  const timeouts = {
    requestTimeoutMs: given.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS,
    attemptTimeoutMs: given.attemptTimeoutMs ?? 0,
  };
  let policy: Policy | undefined;
  /** Makes one call, within what is left of its time. */
  const call = async (send: typeof globalThis.fetch, request: Repeatable, leftMs: number): Promise<Response> => {
    const operation = given.operations?.find(request.method, pathBelow(request.url, given.basePath ?? ''));
    const hasKey = request.headers.has(IDEMPOTENCY_KEY);
    const { response } = await makeCall(
      {
        request,
        operation: operation?.id,
        facts: factsOf(request.method, operation, hasKey, given.idempotencyKeys ?? 'auto'),
        policy: (engine) => (policy ??= policyOf(engine, given)),
        timeouts: { ...timeouts, requestTimeoutMs: leftMs },
        reading: { read: 'stream', maxBytes: 0, edge: false },
      },
      { ...means, fetch: send },
    );
    return response;
  };
  /** A request with its idempotency key. */
  const requestOf = ([input, init]: Given): Repeatable => {
    const plain = repeatable(input, init);
    if (plain.headers.has(IDEMPOTENCY_KEY)) return plain;
    const { method, url } = plain;
    const operation = given.operations?.find(method, pathBelow(url, given.basePath ?? ''));
    const key = given.idempotencyKey?.({ method, url, operation });
    return key === undefined ? plain : repeatable(input, init, { [IDEMPOTENCY_KEY]: key });
  };
  const retrying = async (input: FetchInput, init?: RequestInit): Promise<Response> => {
    const send = fetch ?? globalThis.fetch;
    if (send === retrying) throw new TypeError('fetch: the global fetch is this one; give withRetry the one to use');
    // What no fetch of this runtime takes is its own to refuse, once.
    if (send === globalThis.fetch && !isValid(input, init)) return send(input, init);
    const isFollowed = !runsCalls(send) && isFollowedHere([input, init]);
    if (!isFollowed) return call(send, requestOf([input, init]), timeouts.requestTimeoutMs);
    return following(send, shownRedirects([input, init]));
  };
  /** A call, and those that its answers redirect to, under one deadline. */
  const following = async (send: typeof globalThis.fetch, first: Given): Promise<Response> => {
    const began = now();
    const total = timeouts.requestTimeoutMs;
    let earlier: readonly Attempt[] = [];
    // A stream takes as long as its source does, and has no deadline.
    let streaming = 0;
    for (let [hops, request] = [0, first] as [number, Given]; ; hops += 1) {
      const passed = Math.max(0, now() - began);
      const plain = requestOf(request);
      const counted = passed - streaming;
      if (total !== 0 && counted >= total) {
        const late = `${plain.method} ${shown(plain.url)}: ${total} ms had passed (requestTimeoutMs) when it was redirected`;
        throw withHistory(new DOMException(late, 'TimeoutError'), earlier);
      }
      const response = await call(send, plain, total === 0 ? 0 : total - counted).catch((error: unknown) => {
        // The caller's own reason is not ours to change.
        throw hops === 0 ? error : withEarlier(error, earlier, passed / 1000, plain.signal?.aborted !== true);
      });
      if (hops > 0) {
        withEarlier(response, earlier, passed / 1000);
        Object.defineProperty(response, 'redirected', { value: true, configurable: true });
      }
      earlier = attemptsOf(response);
      if (plain.body === 'stream') streaming += Math.max(0, now() - began) - passed;
      const next = await redirected(request, plain, response, hops).catch((error: unknown) => {
        discard(response);
        throw withHistory(error, earlier);
      });
      if (next === undefined) return response;
      discard(response);
      request = next;
    }
  };
  return retrying;
}

/** What the policy must know of a request: why it may be repeated, and whether it makes something new. */
export function factsOf(
  method: string,
  operation: Operation | undefined,
  hasKey: boolean,
  keys: 'auto' | 'honoured' | 'ignored',
): Pick<CallFacts, 'permit' | 'mints'> {
  const mints = operation?.mints ?? false;
  // Whether a server honours the key of what it makes is not known before it has shown it.
  const honoured = keys === 'honoured' || (keys === 'auto' && !mints);
  const accepts = operation === undefined || operation.acceptsIdempotencyKey || keys === 'honoured';
  const byTable = operation === undefined ? permitOfMethod(method) : permitOf(operation);
  return { mints, permit: byTable ?? (hasKey && honoured && accepts ? 'idempotency_key' : undefined) };
}

/** The path of a URL below the base; nothing where it is not below. */
function pathBelow(url: string, base: string): string {
  const path = pathOf(url);
  const trimmed = base.replace(/\/+$/, '');
  return path.startsWith(`${trimmed}/`) ? path.slice(trimmed.length) : '';
}

/** The path as it is on the wire. */
function pathOf(url: string): string {
  try {
    return new URL(url).pathname;
  } catch {
    return url.replace(/[?#].*$/s, '');
  }
}

/** Whether the runtime takes this for a request at all. */
function isValid(input: FetchInput, init: RequestInit | undefined): boolean {
  if (typeof input === 'object' && !(input instanceof URL)) return true;
  const { signal } = init ?? {};
  if (signal !== undefined && signal !== null && !(signal instanceof AbortSignal)) return false;
  try {
    // Without the body, which only one request may read, and without the signal, which it would listen to.
    new Request(input, { ...init, body: null, signal: null });
    const method = (init?.method ?? 'GET').toUpperCase();
    return !(init?.body != null && (method === 'GET' || method === 'HEAD'));
  } catch {
    return false;
  }
}
