/** What sends the SDK's requests: the one call loop. Nothing above it decides whether anything is sent again. */

import { canonical } from '../../canonical.ts';
import { ALL } from '../../generated/operations.ts';
import { Caller, type OperationCall } from '../../retry/caller.ts';
import type { Log } from '../../retry/log.ts';
import { type Operation, OperationTable, type Plane } from '../../retry/operations.ts';
import type { ClockOptions, PolicyOptions, TimeoutOptions } from '../../retry/options.ts';
import { openTransport, type Transport, whyNotNative } from '../../transport.ts';
import { InvalidArgumentError, UnsupportedError } from '../errors.ts';
import { type ConnectionsOpts, nativeOptionsOf } from '../options.ts';

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
  /** What decides about repeats. Without `retries`: as the plane has it, 3 for the control plane and 0 else. */
  readonly policy: PolicyOptions & Pick<TimeoutOptions, 'attemptTimeoutMs'>;
  /** Gets each attempt. */
  readonly log: Log | undefined;
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
  /** What was given that only the native transport has. */
  readonly native: ConnectionsOpts;
  readonly clock: ClockOptions;
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
  const { requestTimeoutMs, policy, signal, body, read, log } = call;
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
    options: { ...policy, requestTimeoutMs },
    log,
  };
}

/** Whether a call has no effect, by its specification. */
export function isLook(call: Call): boolean {
  return operationOf(call).repeat === 'safe';
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

/** One attempt and no more, whatever else is given. */
export const ONCE = { retries: 0, connectionRetries: 0 };

/** Means of sending that are remembered: as a rule one. */
const MEANS = 256;

/** By the `fetch` that was given, or {@link OWN}; then by all else. */
const senders = new WeakMap<object, Map<string, Sender>>();

/** Stands for no `fetch`. */
const OWN = {};

/** Who sends by these means. All that use the same means share their connections and their budgets of retries. */
export function senderOf(options: SenderOptions): Sender {
  const { fetch = OWN, transport, native, clock } = options;
  const { random, sleep, now } = clock;
  const key = canonical([transport, nativeOptionsOf(native), [random, sleep, now].map(numberOf)]);
  const known = senders.get(fetch) ?? new Map<string, Sender>();
  senders.set(fetch, known);
  let sender = known.get(key);
  if (sender === undefined) {
    sender = new Sender(new Caller({ fetch: opened(options), ...clock }));
    // The oldest is forgotten; what it has under way goes on.
    if (known.size >= MEANS) known.delete(known.keys().next().value ?? '');
    known.set(key, sender);
  }
  return sender;
}

const numbers = new WeakMap<object, number>();
let lastNumber = 0;

/** Tells functions apart; 0 is none. */
function numberOf(made: object | undefined): number {
  if (made === undefined) return 0;
  let number = numbers.get(made);
  if (number === undefined) {
    lastNumber += 1;
    number = lastNumber;
    numbers.set(made, number);
  }
  return number;
}

function opened({ fetch, transport, native }: SenderOptions): typeof globalThis.fetch {
  const missing = whyNotNative();
  const isNative = fetch === undefined && transport !== 'fetch' && missing === undefined;
  const lost = isNative ? [] : Object.keys(native);
  if (lost.length > 0) {
    const other = fetch === undefined ? "transport is 'fetch'" : 'a fetch was given, which has options of its own';
    const why = fetch === undefined && transport !== 'fetch' ? `it cannot be used: ${missing}` : other;
    throw new UnsupportedError(`${lost.join(', ')}: only the native transport has this; ${why}`);
  }
  try {
    return openTransport({ fetch, transport, ...(isNative ? nativeOptionsOf(native) : {}) });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    // What a certificate or a proxy's URL holds, which only the addon can look at.
    const isInvalid = isNative && cause instanceof TypeError;
    throw new (isInvalid ? InvalidArgumentError : UnsupportedError)(message, { cause });
  }
}
