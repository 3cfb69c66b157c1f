/** A request as it is given to `fetch`, and what each attempt is made of. */

import { platform } from '#platform';

/** What `fetch` takes. */
export type FetchInput = Parameters<typeof fetch>[0];

/** A request that can be sent several times, as far as its body can. */
export interface Repeatable {
  readonly method: string;
  /** As it was given: it may be relative. */
  readonly url: string;
  readonly headers: Headers;
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
  /** How its body is sent. Only an `init.body` that is a stream counts as one: a `Request` is cloned. */
  readonly body: 'none' | 'bytes' | 'stream';
  /** What each attempt sends, as it was at the start; absent where that is the body of the `Request` that was given. */
  readonly content: RequestInit['body'];
  /** What an attempt gives to `fetch`. */
  readonly make: (number: number, signal: AbortSignal | undefined) => [FetchInput, RequestInit];
}

/** Names the attempts of a call to a server and its log, from the second on. */
const ATTEMPT = 'Oncebox-Attempt';

/** `Request`, of whatever implementation of `fetch`. */
type RequestLike = Pick<Request, 'url' | 'method' | 'headers' | 'signal' | 'clone' | 'body'>;

/**
 * Takes a request apart.
 * @param added headers that are sent where the request has none of that name
 */
export function repeatable(input: FetchInput, init: RequestInit = {}, added: Record<string, string> = {}): Repeatable {
  const request = isRequest(input) ? input : undefined;
  const given = init.headers ?? request?.headers;
  const headers = new Headers(given);
  const missing = Object.entries(added).filter(([name]) => !headers.has(name));
  for (const [name, value] of missing) headers.set(name, value);
  const method = normalised(init.method ?? request?.method ?? 'GET');
  const body = kindOf(init.body, request, method);
  const kept = body === 'stream' ? init.body : copied(init.body);
  return {
    method,
    url: request?.url ?? String(input),
    headers,
    // A signal of null takes that of the request away.
    signal: (init.signal === undefined ? request?.signal : init.signal) ?? undefined,
    body,
    content: kept,
    make: (number, signal) => {
      const own: RequestInit = { ...init };
      if (kept !== undefined) own.body = kept;
      // What is not given stays as `fetch` sees it without us.
      if (missing.length > 0 || (number > 1 && given !== undefined)) own.headers = headers;
      if (number > 1 && namesAttempts()) {
        own.headers = new Headers(headers);
        own.headers.set(ATTEMPT, String(number));
      }
      if (signal !== undefined) own.signal = signal;
      return [(request?.clone() as Request | undefined) ?? input, own];
    },
  };
}

/** In browsers a header of our own would cost a preflight request. */
function namesAttempts(): boolean {
  const runtime = platform.runtime();
  return runtime !== 'browser' && runtime !== 'unknown';
}

export function isRequest(input: unknown): input is RequestLike {
  if (typeof input !== 'object' || input === null) return false;
  const { url, clone } = input as Partial<Request>;
  return typeof url === 'string' && typeof clone === 'function';
}

/** These methods are upper-cased by `fetch`, and no others are. */
function normalised(method: string): string {
  const upper = method.toUpperCase();
  return ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'].includes(upper) ? upper : method;
}

function kindOf(body: unknown, request: RequestLike | undefined, method: string): Repeatable['body'] {
  if (body !== undefined && body !== null) return isStream(body) ? 'stream' : 'bytes';
  // Firefox does not tell a request's body.
  const has =
    request !== undefined && (request.body === undefined ? method !== 'GET' && method !== 'HEAD' : request.body);
  return has ? 'bytes' : 'none';
}

/** A web stream, or what Node takes for one. `FormData` and `URLSearchParams` are iterables too, but not async ones. */
function isStream(body: unknown): boolean {
  if (typeof ReadableStream !== 'undefined' && body instanceof ReadableStream) return true;
  return typeof body === 'object' && body !== null && (Symbol.asyncIterator in body || 'getReader' in body);
}

/** A body that its owner cannot change between two attempts. */
function copied(body: RequestInit['body']): RequestInit['body'] {
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) {
    return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  }
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof FormData) {
    const copy = new FormData();
    for (const [name, value] of body) copy.append(name, value);
    return copy;
  }
  return body;
}
