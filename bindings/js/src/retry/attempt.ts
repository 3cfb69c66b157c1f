/** One attempt: a request is handed to `fetch`, and what comes of it becomes an outcome. */

import { CALL, type CallPlan, carriesOutcome } from '../native/protocol.ts';
import type { Engine } from '../policy/engine.ts';
import type { Outcome, Responded } from '../policy/types.ts';
import { ABORTED, orAborted } from './clock.ts';
import { edgeAnswer } from './edge.ts';
import { isConnectStream, looked } from './envelope.ts';
import { shownText } from './log.ts';
import type { FetchInput } from './request.ts';
import { classifyThrown } from './runtime-errors.ts';
import { Limit, type Watch } from './watch.ts';

/** How a response is taken. */
export interface Reading {
  /** `whole`: its body is read within the attempt, so that a cut is seen. `stream`: it is handed on with its head. */
  readonly read: 'whole' | 'stream';
  /** The most bytes that are read of a whole body. */
  readonly maxBytes: number;
  /** The answer may be that of the proxy in front of sandboxes. */
  readonly edge: boolean;
}

/** What came of an attempt. */
export interface Made {
  readonly outcome: Outcome;
  readonly response?: Response;
  /** Read whole. */
  readonly body?: Uint8Array<ArrayBuffer>;
  /** What was thrown, if anything was. */
  readonly thrown?: { readonly value: unknown };
  /** What was thrown is no error: it is handed on as it is. */
  readonly rethrown?: boolean;
}

/** What an attempt is made with. */
export interface Making {
  readonly fetch: typeof fetch;
  readonly engine: Engine;
  readonly watch: Watch;
  readonly attemptTimeoutMs: number;
  readonly reading: Reading;
  readonly request: (signal: AbortSignal | undefined) => [FetchInput, RequestInit];
}

/** Makes one attempt. It never throws. */
export async function makeAttempt(making: Making): Promise<Made> {
  const { watch, attemptTimeoutMs: ms } = making;
  const limit = new Limit(
    watch.signal,
    ms === 0 ? undefined : ms,
    () => `the attempt took ${ms} ms (attemptTimeoutMs)`,
  );
  let handedOn: Response | undefined;
  try {
    const [input, init] = making.request(limit.signal);
    const { fetch } = making;
    const response = await orAborted(fetch(input, single(init, making.reading)), limit.signal, discard);
    if (response === ABORTED) return ended(making.watch, limit);
    const made = await answered(response, making, limit);
    if (making.reading.read === 'stream') handedOn = made.response;
    return made;
  } catch (thrown) {
    return failed(thrown, making.watch, limit);
  } finally {
    limit.stop(handedOn);
  }
}

/** Whoever would repeat by itself must not: the attempt is judged here. Any other `fetch` takes no notice. */
function single(init: RequestInit, reading: Reading): RequestInit {
  return { ...init, [CALL]: { ...SINGLE, readIdleTimeout: readIdleTimeout(reading) } } as RequestInit;
}

/** The plan of a single attempt. Its limits are kept here. */
const SINGLE: CallPlan = { retries: 0, connectionRetries: 0, requestTimeout: 0, attemptTimeout: 0 };

/** A sandbox's streams may be silent for long, and are watched by their reader: nothing else ends them. */
export function readIdleTimeout({ read, edge }: Reading): 0 | undefined {
  return read === 'stream' && edge ? 0 : undefined;
}

/** Gives up a response that nobody reads. Not waited for: a `cancel` may never settle. */
export function discard(response: Response): void {
  try {
    response.body?.cancel().catch(() => {});
  } catch {
    // It is locked, or was read.
  }
}

async function answered(response: Response, making: Making, limit: Limit): Promise<Made> {
  const { reading, engine } = making;
  const base = responded(response, engine);
  if (reading.read === 'stream' && reading.edge && isConnectStream(response)) {
    const { response: all, said } = await looked(response, (reader) => piece(reader, limit));
    if (making.watch.signal?.aborted || limit.passed) {
      discard(all);
      return ended(making.watch, limit);
    }
    return { response: all, outcome: { ...base, ...said } };
  }
  if (reading.read === 'stream') {
    return { response, outcome: { ...base, edge: reading.edge ? await edgeOf(response, limit) : undefined } };
  }
  const body = await orAborted(readWhole(response, reading.maxBytes), limit.signal).catch(
    (error: unknown): { cut: unknown } => ({ cut: error }),
  );
  if (body === ABORTED) {
    discard(response);
    return ended(making.watch, limit);
  }
  if (!('cut' in body)) {
    const edge = reading.edge ? edgeAnswer(response.status, messageOf(body.bytes))?.outcome : undefined;
    return { response, body: body.bytes, outcome: { ...base, edge } };
  }
  const thrown = { value: body.cut };
  if (body.cut instanceof BodyTooLarge) return { response, outcome: base, thrown };
  if (making.watch.signal?.aborted || limit.passed) return { ...ended(making.watch, limit), thrown };
  return { response, outcome: { ...base, broken: true }, thrown };
}

/** What an answer's head says. */
export function responded(response: Response, engine: Engine): Responded {
  const { headers, status } = response;
  const clock = Math.floor(Date.now() / 1000);
  return {
    kind: 'responded',
    status,
    retryAfter: engine.retryAfter(headers.get('retry-after'), headers.get('date'), clock),
    shouldRetry: engine.shouldRetry(headers.get('should-retry')),
  };
}

/** The next piece of a body; `undefined`: there is none, or the limit came first. */
async function piece(reader: ReadableStreamDefaultReader<Uint8Array>, limit: Limit): Promise<Uint8Array | undefined> {
  const next = await orAborted(reader.read(), limit.signal);
  return next === ABORTED || next.done ? undefined : next.value;
}

/** What the proxy in front of sandboxes says. The response itself stays unread. */
async function edgeOf(response: Response, limit: Limit): Promise<Responded['edge']> {
  if (edgeAnswer(response.status, ANY_MESSAGE) === undefined) return undefined;
  const copy = response.clone();
  const body = await orAborted(readWhole(copy, EDGE_BODY_LIMIT), limit.signal).catch(() => ABORTED);
  if (body === ABORTED || typeof body === 'symbol') {
    discard(copy);
    return undefined;
  }
  return edgeAnswer(response.status, messageOf(body.bytes))?.outcome;
}

/** Every message of the proxy is in it. */
const ANY_MESSAGE = 'was not found, port is not open, transitioning';

/** The proxy's answers are short. */
const EDGE_BODY_LIMIT = 65_536;

/** A body larger than what was allowed. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

async function readWhole(response: Response, limit: number): Promise<{ bytes: Uint8Array<ArrayBuffer> }> {
  const reader = response.body?.getReader();
  if (reader === undefined) return { bytes: new Uint8Array(await response.arrayBuffer()) };
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.length;
    chunks.push(next.value);
    if (length > limit) {
      reader.cancel().catch(() => {});
      throw new BodyTooLarge(`the body has more than ${limit} bytes`);
    }
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return { bytes };
}

/** The message of an error's body: its `message` where it is JSON, else all of it. */
function messageOf(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes);
  try {
    const { message } = JSON.parse(text);
    return typeof message === 'string' ? message : text;
  } catch {
    return text;
  }
}

/** An abort came first. `fetch` does not say what it had written by then, so it counts as sent. */
function ended(watch: Watch, limit: Limit): Made {
  if (watch.timedOut !== undefined) return { outcome: { kind: 'timed_out', sent: true } };
  if (watch.cancelled) return { outcome: { kind: 'cancelled', sent: true }, thrown: { value: watch.reason } };
  const detail = limit.passed === undefined ? '' : 'waited for the answer';
  return {
    outcome: { kind: 'sent_unknown', cause: limit.passed === undefined ? 'opaque' : 'attempt_timeout', detail },
  };
}

function failed(value: unknown, watch: Watch, limit: Limit): Made {
  const thrown = { value };
  if (watch.timedOut !== undefined || (limit.passed !== undefined && !watch.cancelled))
    return { ...ended(watch, limit), thrown };
  // What the transport itself knows beats what its words look like.
  if (!watch.cancelled && carriesOutcome(value) && value.outcome) return { outcome: value.outcome, thrown };
  const proof = classifyThrown(value, watch.cancelled);
  switch (proof.outcome) {
    case 'cancelled':
      return { outcome: { kind: 'cancelled', sent: true }, thrown };
    case 'rethrown':
      return { outcome: { kind: 'sent_unknown', cause: 'opaque', detail: '' }, thrown, rethrown: true };
    case 'not_sent':
      return {
        outcome: { kind: 'not_sent', phase: proof.phase ?? 'connect', touchedSocket: true, detail: detailOf(value) },
        thrown,
      };
    case 'refused':
      return { outcome: { kind: 'refused' }, thrown };
    case 'sent_unknown': {
      const cause = proof.row === undefined || OPAQUE.has(proof.row) ? 'opaque' : 'connection_lost';
      return { outcome: { kind: 'sent_unknown', cause, detail: detailOf(value) }, thrown };
    }
  }
}

/** Shapes that stand for anything, also for a CORS refusal. */
const OPAQUE = new Set(['workers-internal', 'chromium-fetch', 'firefox-fetch', 'safari-fetch']);

/** The most telling of an error's messages: that of its innermost cause. */
function detailOf(thrown: unknown): string {
  let text = '';
  let link = thrown;
  try {
    for (let depth = 0; depth < 8 && typeof link === 'object' && link !== null; depth += 1) {
      const { message, errors, cause } = link as { message?: unknown; errors?: unknown; cause?: unknown };
      if (typeof message === 'string' && message !== '') text = message;
      link = Array.isArray(errors) ? errors[0] : cause;
    }
  } catch {
    // A getter of somebody else's.
  }
  return shownText(text);
}
