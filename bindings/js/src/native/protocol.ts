/**
 * How a `fetch` that makes whole calls by itself meets those who would otherwise make them of it: what it is handed, what it
 * hands back. Nothing here needs a runtime, so that every build may know of it. The symbols are shared by all copies of
 * this package.
 */

import type { Outcome, Permit, Policy, PolicyRecord } from '../policy/types.ts';

/** Is `true` on a `fetch` that replays and retries by the policy itself: it is handed the whole call, as {@link CallPlan}. */
export const RUNS_CALLS: unique symbol = Symbol.for('oncebox.runsCalls') as never;

/** A {@link CallPlan} in the `init` of a `fetch`. Any other `fetch` takes no notice, and copies of `init` keep it. */
export const CALL: unique symbol = Symbol.for('oncebox.call') as never;

/** Is `true` on an error that says by itself what is known of its call: see {@link CarriesOutcome}. */
export const FAILURE: unique symbol = Symbol.for('oncebox.failure') as never;

/** The attempts of the call that a response ended, as {@link PolicyRecord}. */
export const ATTEMPTS: unique symbol = Symbol.for('oncebox.attempts') as never;

/** What one call may do. What is not given is the option of its transport; times are milliseconds, and 0 is none. */
export interface CallPlan {
  readonly retries?: number | undefined;
  readonly connectionRetries?: number | undefined;
  readonly requestTimeout?: number | undefined;
  readonly attemptTimeout?: number | undefined;
  readonly readIdleTimeout?: number | undefined;
  readonly writeIdleTimeout?: number | undefined;
  /** All that decides about repeats. What is not given is the policy's default; `retries` and `connectionRetries` overrule it. */
  readonly policy?: Partial<Policy> | undefined;
  readonly permit?: Permit | undefined;
  /** The operation makes something new: even a 500 leaves its outcome unknown. */
  readonly mints?: boolean | undefined;
  /** The caller finds out what an unknown outcome did: it is never repeated. */
  readonly reconciles?: boolean | undefined;
  /** A large transfer, which shares no connection with commands. */
  readonly bulk?: boolean | undefined;
  /**
   * The answer may be that of the proxy in front of sandboxes, or a stream that begins with an error: its begin is read before it is
   * judged.
   */
  readonly edge?: boolean | undefined;
  /** The response is read whole within the attempt: one that is cut is an unknown outcome, not a broken stream. */
  readonly collect?: boolean | undefined;
  /** Is told of each attempt as it ends. `number` counts from 1. */
  readonly onAttempt?: ((attempt: PolicyRecord, number: number) => void) | undefined;
}

/** An error that says what is known. */
export interface CarriesOutcome {
  readonly [FAILURE]: true;
  /** What is known of the last attempt; `undefined`: nothing was tried. */
  readonly outcome: Outcome | undefined;
  /** Every attempt, oldest first. */
  readonly attempts: readonly PolicyRecord[];
  /** Whether the server may have processed the request. `false` is a promise. */
  readonly mayHaveBeenProcessed: boolean;
}

/** Whether an error says by itself what is known of its call. */
export function carriesOutcome(error: unknown): error is Error & CarriesOutcome {
  return error instanceof Error && (error as { [FAILURE]?: unknown })[FAILURE] === true;
}

/** Whether a `fetch` makes whole calls by itself. */
export function runsCalls(fetch: unknown): boolean {
  return typeof fetch === 'function' && (fetch as { [RUNS_CALLS]?: unknown })[RUNS_CALLS] === true;
}
