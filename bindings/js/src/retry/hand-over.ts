/** Calls over a `fetch` that makes whole calls by itself: it runs the loop, by the same policy, and nothing here repeats anything. */

import { ATTEMPTS, CALL, type CallPlan, carriesOutcome, runsCalls } from '../native/protocol.ts';
import type { Engine } from '../policy/engine.ts';
import type { PolicyRecord } from '../policy/types.ts';
import { BodyTooLarge, readIdleTimeout } from './attempt.ts';
import type { Answer, Call, Means } from './call.ts';
import { type Attempt, withHistory } from './history.ts';

/**
 * Whether a call is handed over. It is not where time and chance are the caller's: the loop here then makes single attempts, by the
 * same transport.
 */
export function isHandedOver(means: Means): boolean {
  return means.ownClock && runsCalls(means.fetch);
}

/** Makes a call. What it throws is what {@link makeCall} would throw. */
export async function handOver(
  call: Call,
  means: Means,
  engine: Engine,
  log: (attempt: Attempt) => void,
): Promise<Answer> {
  const { facts, timeouts, reading, request } = call;
  const whole = reading.read === 'whole';
  const plan: CallPlan = {
    policy: call.policy(engine),
    permit: facts.permit,
    mints: facts.mints,
    requestTimeout: timeouts.requestTimeoutMs,
    attemptTimeout: timeouts.attemptTimeoutMs,
    readIdleTimeout: readIdleTimeout(reading),
    collect: whole,
    edge: reading.edge,
    onAttempt: (record, number) => log(attemptOf(record, number)),
  };
  const [input, init] = request.make(1, request.signal);
  let response: Response;
  try {
    response = await means.fetch(input, { ...init, [CALL]: plan } as RequestInit);
  } catch (error) {
    throw failed(error, request.signal);
  }
  const attempts = attemptsOf((response as { [ATTEMPTS]?: readonly PolicyRecord[] })[ATTEMPTS] ?? []);
  withHistory(response, attempts);
  if (!whole) return { response, body: undefined, attempts };
  const body = new Uint8Array(await response.arrayBuffer());
  if (body.length > reading.maxBytes) {
    throw withHistory(new BodyTooLarge(`the body has more than ${reading.maxBytes} bytes`), attempts);
  }
  return { response, body, attempts };
}

/** What is thrown on. */
function failed(error: unknown, signal: AbortSignal | undefined): unknown {
  // The caller's own reason is not ours to change.
  if (signal?.aborted || !carriesOutcome(error)) return error;
  const attempts = attemptsOf(error.attempts);
  if (error.outcome?.kind !== 'timed_out') return withHistory(error, attempts);
  return withHistory(new DOMException(error.message, 'TimeoutError'), attempts);
}

function attemptsOf(records: readonly PolicyRecord[]): readonly Attempt[] {
  return Object.freeze(records.map((record, index) => attemptOf(record, index + 1)));
}

function attemptOf({ purpose, started, ended, outcome, verdict }: PolicyRecord, number: number): Attempt {
  return Object.freeze({ number, purpose, started, ended, outcome, verdict });
}
