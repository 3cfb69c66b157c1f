/** The policy's values as messages: `wasm/src/read.rs` and `wasm/src/write.rs` are the other side, in the same order. */

import type { Reader, Writer } from './message.ts';
import {
  BODIES,
  CAUSES,
  type CallFacts,
  CONNECTIONS,
  EDGES,
  type Ended,
  type LedgerState,
  type Outcome,
  PERMITS,
  PHASES,
  type Policy,
  type PolicyAttempt,
  type PolicyRecord,
  PURPOSES,
  REPEAT_UNKNOWN,
  RETRY_REASONS,
  RETURN_REASONS,
  type RequestBody,
  type ReturnReason,
  type Verdict,
  WAIT_REASONS,
} from './types.ts';

/** The moment of a decision. */
export interface Turn {
  /** In seconds since the call's begin. */
  readonly now: number;
  /** In [0, 1). */
  readonly random: number;
  /** When the call began, on the budget's clock, in seconds. */
  readonly callStarted: number;
}

export function writeTurn(to: Writer, turn: Turn): Writer {
  return to.f64(turn.now).f64(turn.random).f64(turn.callStarted);
}

export function writePolicy(to: Writer, policy: Policy): Writer {
  return to
    .u32(policy.retries)
    .u32(policy.connectionRetries)
    .bool(policy.trustServiceUnavailable)
    .bool(policy.trustBadGateway)
    .bool(policy.retryGatewayTimeout)
    .bool(policy.retryRequestTimeoutStatus)
    .bool(policy.replayMisdirectedAndEarly)
    .bool(policy.retryRateLimitWithoutHint)
    .bool(policy.honorShouldRetry)
    .bool(policy.retryBudget)
    .variant(REPEAT_UNKNOWN, policy.repeatUnknown)
    .f64(policy.retryAfterJitter)
    .u32(policy.lookups);
}

export function readPolicy(from: Reader): Policy {
  // The fields are evaluated in this order, which is that of the message.
  return {
    retries: from.u32(),
    connectionRetries: from.u32(),
    trustServiceUnavailable: from.bool(),
    trustBadGateway: from.bool(),
    retryGatewayTimeout: from.bool(),
    retryRequestTimeoutStatus: from.bool(),
    replayMisdirectedAndEarly: from.bool(),
    retryRateLimitWithoutHint: from.bool(),
    honorShouldRetry: from.bool(),
    retryBudget: from.bool(),
    repeatUnknown: from.variant(REPEAT_UNKNOWN),
    retryAfterJitter: from.f64(),
    lookups: from.u32(),
  };
}

export function writeFacts(to: Writer, facts: CallFacts): Writer {
  to.optionalVariant(PERMITS, facts.permit).bool(facts.mints).bool(facts.reconciles);
  return writeBody(to, facts.body).time(facts.deadline).time(facts.parentDeadline);
}

export function writeBody(to: Writer, body: RequestBody): Writer {
  if (typeof body === 'string') return to.variant(BODIES, body);
  return to.u8(BODIES.length).f64(body.stream_consumed.read).f64(body.stream_consumed.limit);
}

export function writeAttempt(to: Writer, attempt: PolicyAttempt): Writer {
  to.f64(attempt.started).u32(attempt.connection ?? 0);
  to.bool(attempt.otherConnection).u32(attempt.failedDials ?? 0);
  return writeOutcome(to, attempt.outcome);
}

export function writeOutcome(to: Writer, outcome: Ended): Writer {
  switch (outcome.kind) {
    case 'not_sent':
      return to.u8(0).variant(PHASES, outcome.phase).bool(outcome.touchedSocket).text(outcome.detail);
    case 'refused': {
      if (outcome.goaway === undefined) return to.u8(2).u32(outcome.streamId ?? 0);
      const { streamId, lastStreamId, code, debugData } = outcome.goaway;
      return to.u8(1).u32(streamId).u32(lastStreamId).u32(code).text(debugData);
    }
    case 'responded':
      to.u8(3).u32(outcome.status).time(outcome.retryAfter).optionalBool(outcome.shouldRetry).bool(outcome.broken);
      return to.optionalVariant(EDGES, outcome.edge).bool(outcome.paced);
    case 'sent_unknown':
      to.u8(4).variant(CAUSES, outcome.cause);
      if (outcome.cause === 'reset') to.u32(outcome.code ?? 0);
      return to.u32(outcome.streamId ?? 0).text(outcome.detail);
    case 'cancelled':
      return to.u8(5).bool(outcome.sent);
    case 'timed_out':
      return to.u8(6).bool(outcome.sent);
    case 'goaway':
      return to.u8(7).u32(outcome.streamId).u32(outcome.lastStreamId).u32(outcome.code).text(outcome.debugData);
    case 'reset':
      return to.u8(8).u32(outcome.streamId).u32(outcome.code).bool(outcome.responseBegan);
  }
}

function readOutcome(from: Reader): Outcome {
  const kind = from.u8();
  switch (kind) {
    case 0:
      return { kind: 'not_sent', phase: from.variant(PHASES), touchedSocket: from.bool(), detail: from.text() };
    case 1: {
      const goaway = { streamId: from.u32(), lastStreamId: from.u32(), code: from.u32(), debugData: from.text() };
      return { kind: 'refused', streamId: goaway.streamId, goaway };
    }
    case 2: {
      const streamId = from.u32();
      return streamId === 0 ? { kind: 'refused' } : { kind: 'refused', streamId };
    }
    case 3:
      return {
        kind: 'responded',
        status: from.u32(),
        retryAfter: from.time(),
        shouldRetry: from.optionalBool(),
        broken: from.bool(),
        edge: from.optionalVariant(EDGES),
        paced: from.bool(),
      };
    case 4: {
      const cause = from.variant(CAUSES);
      const code = cause === 'reset' ? { code: from.u32() } : {};
      const streamId = from.u32();
      const stream = streamId === 0 ? {} : { streamId };
      return { kind: 'sent_unknown', cause, ...code, ...stream, detail: from.text() };
    }
    case 5:
      return { kind: 'cancelled', sent: from.bool() };
    default:
      return { kind: 'timed_out', sent: from.bool() };
  }
}

/** A verdict; undefined where nothing stops the reconciler. */
export function readVerdict(from: Reader): Verdict | undefined {
  switch (from.u8()) {
    case 0:
      return { kind: 'return', reason: readReturnReason(from), retryAfter: from.time() };
    case 1:
      return {
        kind: 'retry',
        after: from.f64(),
        wait: from.variant(WAIT_REASONS),
        connection: from.variant(CONNECTIONS),
        reason: from.variant(RETRY_REASONS),
      };
    case 2:
      return { kind: 'reconcile' };
    default:
      return undefined;
  }
}

export function readReturnReason(from: Reader): ReturnReason {
  const reason = from.variant(RETURN_REASONS);
  if (reason === 'body_not_replayable') {
    // How much was read, and the limit: the caller knows both.
    from.f64();
    from.f64();
  }
  return reason;
}

export function readLedger(from: Reader): LedgerState {
  return {
    retries: from.u32(),
    connectionRetries: from.u32(),
    freeRepeats: from.u32(),
    backoffs: from.u32(),
    lookups: from.u32(),
    records: Array.from({ length: from.u32() }, () => readRecord(from)),
  };
}

function readRecord(from: Reader): PolicyRecord {
  return {
    purpose: from.variant(PURPOSES),
    started: from.f64(),
    ended: from.f64(),
    connection: from.u32() || undefined,
    outcome: readOutcome(from),
    verdict: readVerdict(from) ?? { kind: 'reconcile' },
  };
}
