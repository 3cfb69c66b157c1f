/** A request as the addon takes it. */
export interface PlainRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | undefined;
  readonly signal: AbortSignal | undefined;
  readonly redirect: RequestRedirect;
}

/** Methods whose name `fetch` writes in capitals, however it is given. */
const NORMALIZED = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);

const encoder = new TextEncoder();

/**
 * Makes one request of the arguments of `fetch`, by its rules. Only a stream that was given as `init.body` is sent as it is
 * read; the body of a `Request`, a `Blob` and a form are read first, so that they can be sent again.
 */
export async function plainRequest(input: RequestInfo | URL, init: RequestInit = {}): Promise<PlainRequest> {
  const request = typeof input === 'object' && 'headers' in input && 'url' in input ? input : undefined;
  const url = address(request ? request.url : String(input));
  const method = normalized(init.method ?? request?.method ?? 'GET');
  const headers = new Headers(init.headers ?? request?.headers);
  const given = init.body === undefined ? (request?.body ? await request.arrayBuffer() : undefined) : init.body;
  const [body, type] = given === undefined || given === null ? [undefined, undefined] : await plainBody(given);
  if (body !== undefined && (method === 'GET' || method === 'HEAD')) {
    throw new TypeError(`${method} ${url}: a request with this method has no body`);
  }
  if (init.integrity) throw new TypeError('integrity: the native transport does not check it; use another fetch');
  if (type !== undefined && !headers.has('content-type')) headers.set('content-type', type);
  if (!headers.has('accept')) headers.set('accept', '*/*');
  const signal = init.signal === null ? undefined : (init.signal ?? request?.signal);
  return { method, url, headers, body, signal, redirect: init.redirect ?? request?.redirect ?? 'follow' };
}

function address(text: string): string {
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`the native transport speaks http: and https:, not ${url.protocol}`);
  }
  // They would be written to logs; as for `fetch`.
  if (url.username || url.password) throw new TypeError('the URL holds credentials, which belong in a header');
  url.hash = '';
  return url.href;
}

function normalized(method: string): string {
  // It is written on a line of its own, to the addon and to servers.
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(method)) throw new TypeError(`${JSON.stringify(method)} is no method`);
  const capitals = method.toUpperCase();
  if (['CONNECT', 'TRACE', 'TRACK'].includes(capitals)) throw new TypeError(`${method} is a method that fetch forbids`);
  return NORMALIZED.has(capitals) ? capitals : method;
}

async function plainBody(
  body: NonNullable<BodyInit>,
): Promise<[NonNullable<PlainRequest['body']>, string | undefined]> {
  if (typeof body === 'string') return [encoder.encode(body), 'text/plain;charset=UTF-8'];
  if (body instanceof ArrayBuffer) return [new Uint8Array(body), undefined];
  if (ArrayBuffer.isView(body)) return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength), undefined];
  if (body instanceof ReadableStream) return [body, undefined];
  if (typeof body === 'object' && Symbol.asyncIterator in body) {
    return [body as unknown as AsyncIterable<Uint8Array>, undefined];
  }
  // A form, a blob, parameters, or whatever becomes text: read by the runtime's own rules.
  const read = new Response(body);
  // Before it is read: Bun forgets a form's boundary then.
  const type = read.headers.get('content-type') ?? undefined;
  return [new Uint8Array(await read.arrayBuffer()), type];
}
