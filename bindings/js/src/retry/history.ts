/** The history of a call: what each attempt came to, and what was decided then. */

import type { Outcome, Purpose, RetryReason, ReturnReason, Verdict, WaitReason } from '../policy/types.ts';

/** One attempt of a call. Times are in seconds since the call's begin. */
export interface Attempt {
  /** From 1 on. */
  readonly number: number;
  /** What it was for: the call itself, or finding out what an unknown outcome did. */
  readonly purpose: Purpose;
  readonly started: number;
  readonly ended: number;
  /** What is known of it. */
  readonly outcome: Outcome;
  /** What was decided then. */
  readonly verdict: Verdict;
}

const histories = new WeakMap<object, readonly Attempt[]>();

/** The attempts that led to a response or an error; none for what comes from elsewhere. */
export function attemptsOf(value: unknown): readonly Attempt[] {
  return (isObject(value) && histories.get(value)) || [];
}

/**
 * Gives a response or an error its history. Where it takes properties, as `attempts` too, which is not listed: what is
 * returned and thrown stays what `fetch` made.
 */
export function withHistory<T>(value: T, attempts: readonly Attempt[], own = true): T {
  if (!isObject(value)) return value;
  histories.set(value, attempts);
  if (own && Object.isExtensible(value)) {
    Object.defineProperty(value, 'attempts', { value: attempts, configurable: true, writable: true });
  }
  return value;
}

/** Whether any attempt of the call itself may have been processed: sent, and not provably refused. */
export function mayHaveBeenProcessed(attempts: readonly Attempt[]): boolean {
  return attempts.some(({ purpose, outcome }) => purpose === 'call' && mayBeProcessed(outcome));
}

function mayBeProcessed(outcome: Outcome): boolean {
  switch (outcome.kind) {
    case 'not_sent':
    case 'refused':
      return false;
    case 'responded':
      return outcome.broken === true || (![421, 425, 429, 503].includes(outcome.status) && outcome.edge === undefined);
    case 'sent_unknown':
      return true;
    default:
      return outcome.sent;
  }
}

/** The history as people read it: one attempt a line. */
export function describeAttempts(attempts: readonly Attempt[]): string {
  return attempts.map((attempt) => `  ${attempt.number}. ${describeAttempt(attempt)}`).join('\n');
}

/** One attempt in words. */
export function describeAttempt({ purpose, started, outcome, verdict }: Attempt): string {
  const what = purpose === 'call' ? '' : `, ${purpose.replace('_', '-')}`;
  const head = `at ${started.toFixed(3)} s${what}: ${describeOutcome(outcome)}`;
  switch (verdict.kind) {
    case 'return':
      return purpose === 'call' ? `${head}; ended: ${RETURN_TEXTS[verdict.reason]}` : head;
    case 'reconcile':
      return `${head}; to be reconciled`;
    case 'retry': {
      const again = `${head}; sent again: ${RETRY_TEXTS[verdict.reason]}`;
      return verdict.wait === 'none'
        ? again
        : `${again}, after ${verdict.after.toFixed(3)} s (${WAIT_TEXTS[verdict.wait]})`;
    }
  }
}

/** What is known of an attempt, in words. */
export function describeOutcome(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'not_sent':
      return `not sent (${outcome.phase})${detail(outcome.detail)}`;
    case 'refused': {
      if (outcome.goaway) {
        const { streamId, lastStreamId, code, debugData } = outcome.goaway;
        const debug = debugData && `, ${debugData}`;
        return `stream refused by GOAWAY: stream ${streamId} above last stream id ${lastStreamId}, error code ${code}${debug}`;
      }
      return `stream refused: REFUSED_STREAM${outcome.streamId === undefined ? '' : ` on stream ${outcome.streamId}`}`;
    }
    case 'responded': {
      const edge =
        outcome.edge && (outcome.edge === 'not_running' ? ', the sandbox is not running' : ', not delivered');
      return `answered ${outcome.status}${edge ?? ''}${outcome.broken ? ', the body was cut' : ''}`;
    }
    case 'sent_unknown': {
      const cause =
        outcome.cause === 'reset' ? `stream reset with error code ${outcome.code}` : CAUSE_TEXTS[outcome.cause];
      const stream = outcome.streamId === undefined ? '' : ` on stream ${outcome.streamId}`;
      return `sent, outcome unknown: ${cause}${stream}${detail(outcome.detail)}`;
    }
    case 'cancelled':
      return outcome.sent ? 'cancelled after the request was sent' : 'cancelled before it was sent';
    case 'timed_out':
      return `the call's deadline passed ${outcome.sent ? 'after the request was sent' : 'before it was sent'}`;
  }
}

function detail(text: string): string {
  return text === '' ? '' : `: ${text}`;
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

const CAUSE_TEXTS = {
  connection_lost: 'connection lost',
  attempt_timeout: 'attempt_timeout passed',
  ping_timeout: 'a PING was not answered',
  protocol: 'the peer broke the protocol',
  request_body: 'the request body failed',
  opaque: 'the runtime does not say',
};

/** Why a call ended, in words; the options that change it by their names. */
export const RETURN_TEXTS: Record<ReturnReason, string> = {
  cancelled: 'the caller cancelled',
  deadline_passed: 'the deadline passed (requestTimeoutMs)',
  success: 'success',
  status_final: 'this status is final',
  server_forbids: "the server's Should-Retry forbids a retry",
  sandbox_not_running: 'the sandbox is not running',
  no_retry_after: 'rate limited without a usable Retry-After',
  refused_again: 'refused a second time',
  no_permit: 'it may have been processed, and nothing permits a repeat (repeatUnknown, idempotency key)',
  body_not_replayable: 'a streamed request body is sent once',
  streamed_body: 'a streamed request body is not retried after an answer or an unknown outcome',
  retries_used: 'retries used up (retries)',
  connection_retries_used: 'connection retries used up (connectionRetries)',
  deadline_too_close: 'the wait would reach the deadline (requestTimeoutMs)',
  retry_window_over: 'no deadline, and no retry starts after 60s',
  budget_empty: 'the retry budget is empty (retryBudget)',
  look_ups_used: 'look-ups used up (lookups)',
  single_attempt: 'a single attempt',
};

const RETRY_TEXTS: Record<RetryReason, string> = {
  not_sent: 'nothing was sent',
  refused: 'the peer did not process it',
  not_delivered: 'the edge did not deliver it',
  status: 'this status is retried',
  server_asks: "the server's Should-Retry asks for it",
  permitted: 'a repeat is permitted',
  reconciled: 'reconciled',
};

const WAIT_TEXTS: Record<WaitReason, string> = {
  none: 'at once',
  retry_after: 'Retry-After',
  backoff: 'backoff',
  dial_backoff: 'dial backoff',
};
