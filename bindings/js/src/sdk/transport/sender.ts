/** What sends the SDK's requests: the one call loop. Nothing above it decides whether anything is sent again. */

import { ALL } from '../../generated/operations.ts';
import { Caller, type CallerOptions, type OperationCall } from '../../retry/caller.ts';
import { type Operation, OperationTable, type Plane } from '../../retry/operations.ts';
import { openTransport, type Transport } from '../../transport.ts';
import { InvalidArgumentError, UnsupportedError } from '../errors.ts';

/** What a request can be made of. All but streams can be sent again. */
export type CallBody = string | Uint8Array<ArrayBuffer> | Blob | FormData | ReadableStream<Uint8Array>;

/** A call: what is to be sent, and its limits. */
export interface Call {
  /** Which table its operation is looked up in; `other`: its method alone says whether it may be repeated. */
  readonly plane: Plane;
  readonly method: string;
  /** Below which the plane's paths are; without a slash at its end. */
  readonly base: string;
  /** With a slash before it, and the query behind. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: CallBody | undefined;
  /** `whole`: the answer is read inside the attempt; `stream`: the call ends with the answer's head. */
  readonly read: 'whole' | 'stream';
  /** Of the whole call, in milliseconds; 0: none. */
  readonly requestTimeoutMs: number;
  /** Absent: as the plane has it, 3 for the control plane and 0 else. */
  readonly retries?: number | undefined;
  readonly connectionRetries?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An answer that began, whatever its status. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Of `whole` calls, all of it; of `stream` calls, what comes. */
  readonly response: Response;
  /** What it took, oldest first. */
  readonly attempts: OperationAnswer['attempts'];
}

type OperationAnswer = Awaited<ReturnType<Caller['send']>>;

/** What carries requests. */
export interface SenderOptions {
  readonly fetch?: typeof globalThis.fetch | undefined;
  readonly transport?: Transport | undefined;
  readonly proxy?: string | undefined;
}

/** Statuses whose answers have no body. */
const EMPTY = [101, 103, 204, 205, 304];

/** Sends calls. */
export class Sender {
  constructor(
    /** The call loop, for those that make single attempts of it. */
    readonly caller: Caller,
  ) {}

  /**
   * Sends a call until it is over.
   *
   * @returns the answer, whatever its status.
   * @throws what `fetch` threw, with its history; the reason of the call's signal where that was aborted.
   */
  async send(call: Call): Promise<Answer> {
    const { response, body, attempts } = await this.caller.send(operationCall(call));
    const { status, headers } = response;
    if (body === undefined) return { status, headers, response, attempts };
    const whole = new Response(EMPTY.includes(status) ? null : body, { status, headers: plainHeaders(headers) });
    return { status, headers, response: whole, attempts };
  }
}

/** The call of an operation of the loop's. */
export function operationCall(call: Call): OperationCall {
  const { requestTimeoutMs, retries, connectionRetries, signal, body, read } = call;
  // `redirect`: no server of the protocol redirects, and whoever does would be sent the key.
  const init: OperationCall['init'] = { redirect: 'manual' };
  return {
    operation: operationOf(call),
    url: call.base + call.path,
    headers: call.headers,
    body,
    init: body instanceof ReadableStream ? Object.assign(init, { duplex: 'half' }) : init,
    signal,
    read,
    options: {
      requestTimeoutMs,
      ...(retries === undefined ? {} : { retries }),
      ...(connectionRetries === undefined ? {} : { connectionRetries }),
    },
  };
}

const tables = new Map<Plane, OperationTable>();

/** Which operation it is. One that no table has may be repeated as its method says. */
function operationOf({ plane, method, path }: Call): Operation {
  let table = tables.get(plane);
  if (table === undefined) {
    table = new OperationTable(ALL.filter((operation) => operation.plane === plane));
    tables.set(plane, table);
  }
  const plain = path.replace(/[?#].*$/s, '');
  const found = table.find(method, plain);
  if (found !== undefined) return found;
  const repeat = method === 'GET' ? 'safe' : method === 'PUT' || method === 'DELETE' ? 'idempotent' : 'no';
  return { id: `${method} ${plain}`, plane, method, path: plain, repeat, mints: false, acceptsIdempotencyKey: false };
}

/** What was read is not packed any more, and is as long as it is. */
function plainHeaders(headers: Headers): Headers {
  const plain = new Headers(headers);
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) plain.delete(name);
  return plain;
}

const byFetch = new WeakMap<typeof globalThis.fetch, Sender>();
const byOptions = new Map<string, Sender>();

/** Who sends by these means. All that use the same means share their connections and their budgets of retries. */
export function senderOf(options: SenderOptions): Sender {
  const { fetch, transport, proxy } = options;
  const open = (): Sender => new Sender(new Caller({ fetch: opened(options) } as CallerOptions));
  if (fetch !== undefined) {
    const sender = byFetch.get(fetch) ?? open();
    byFetch.set(fetch, sender);
    return sender;
  }
  const key = JSON.stringify([transport, proxy]);
  const sender = byOptions.get(key) ?? open();
  byOptions.set(key, sender);
  return sender;
}

function opened({ fetch, transport, proxy }: SenderOptions): typeof globalThis.fetch {
  if (fetch !== undefined && typeof fetch !== 'function') throw new InvalidArgumentError('fetch: it is no function');
  try {
    return openTransport({ fetch, transport, ...(proxy === undefined ? {} : { proxy }) });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new UnsupportedError(message, { cause });
  }
}
