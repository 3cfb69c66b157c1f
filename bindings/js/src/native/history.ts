/** What the addon tells of attempts, in the words of the policy (`src/policy/types.ts`). It writes JSON as Rust's policy does. */

import type {
  Connection,
  Edge,
  Outcome,
  Phase,
  Policy,
  PolicyRecord,
  Purpose,
  RetryReason,
  ReturnReason,
  Verdict,
  WaitReason,
} from '../policy/types.ts';

/** One attempt as the addon writes it. */
export interface RecordJson {
  readonly purpose: Purpose;
  readonly started: number;
  readonly ended: number;
  readonly connection: number | null;
  readonly outcome: OutcomeJson;
  readonly verdict: VerdictJson;
}

/** What is known of an attempt, as the addon writes it. */
export type OutcomeJson =
  | { readonly not_sent: { readonly phase: Phase; readonly touched_socket: boolean; readonly detail: string } }
  | { readonly refused: RefusalJson }
  | { readonly responded: RespondedJson }
  | { readonly sent_unknown: UnknownJson }
  | { readonly cancelled: { readonly sent: boolean } }
  | { readonly timed_out: { readonly sent: boolean } };

type RefusalJson =
  | { readonly refused_stream: { readonly stream_id: number } }
  | {
      readonly go_away: {
        readonly stream_id: number;
        readonly last_stream_id: number;
        readonly code: number;
        readonly debug_data: string;
      };
    };

interface RespondedJson {
  readonly status: number;
  readonly retry_after: number | null;
  readonly should_retry: boolean | null;
  readonly body: 'complete' | 'broken';
  readonly edge: Edge | null;
  readonly paced: boolean;
}

interface UnknownJson {
  readonly cause:
    | Exclude<Extract<Outcome, { kind: 'sent_unknown' }>['cause'], 'reset'>
    | { readonly reset: { readonly code: number } };
  readonly stream_id: number | null;
  readonly detail: string;
}

type VerdictJson =
  | 'reconcile'
  | {
      readonly return: {
        readonly reason: ReturnReason | { readonly body_not_replayable: unknown };
        readonly retry_after: number | null;
      };
    }
  | {
      readonly retry: {
        readonly after: number;
        readonly wait: WaitReason;
        readonly connection: Connection;
        readonly reason: RetryReason;
      };
    };

/** One attempt. */
export function recordOf(json: RecordJson): PolicyRecord {
  return {
    purpose: json.purpose,
    started: json.started,
    ended: json.ended,
    connection: json.connection ?? undefined,
    outcome: outcomeOf(json.outcome),
    verdict: verdictOf(json.verdict),
  };
}

/** What is known of an attempt. */
export function outcomeOf(json: OutcomeJson): Outcome {
  if ('not_sent' in json) {
    const { phase, touched_socket, detail } = json.not_sent;
    return { kind: 'not_sent', phase, touchedSocket: touched_socket, detail };
  }
  if ('refused' in json) {
    if ('refused_stream' in json.refused) return { kind: 'refused', streamId: json.refused.refused_stream.stream_id };
    const { stream_id, last_stream_id, code, debug_data } = json.refused.go_away;
    const goaway = { streamId: stream_id, lastStreamId: last_stream_id, code, debugData: debug_data };
    return { kind: 'refused', streamId: stream_id, goaway };
  }
  if ('responded' in json) {
    const { status, retry_after, should_retry, body, edge, paced } = json.responded;
    const hints = { retryAfter: retry_after ?? undefined, shouldRetry: should_retry ?? undefined };
    return { kind: 'responded', status, ...hints, broken: body === 'broken', edge: edge ?? undefined, paced };
  }
  if ('sent_unknown' in json) {
    const { cause, stream_id, detail } = json.sent_unknown;
    const known = typeof cause === 'string' ? { cause } : { cause: 'reset' as const, code: cause.reset.code };
    return { kind: 'sent_unknown', ...known, ...(stream_id === null ? {} : { streamId: stream_id }), detail };
  }
  return 'cancelled' in json
    ? { kind: 'cancelled', sent: json.cancelled.sent }
    : { kind: 'timed_out', sent: json.timed_out.sent };
}

function verdictOf(json: VerdictJson): Verdict {
  if (json === 'reconcile') return { kind: 'reconcile' };
  if ('retry' in json) return { kind: 'retry', ...json.retry };
  const { reason, retry_after } = json.return;
  return {
    kind: 'return',
    reason: typeof reason === 'string' ? reason : 'body_not_replayable',
    retryAfter: retry_after ?? undefined,
  };
}

/** A policy by the names that the addon reads. */
export function policyJson(policy: Partial<Policy>): Record<string, unknown> {
  const snake = (name: string) => name.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
  return Object.fromEntries(Object.entries(policy).map(([name, value]) => [snake(name), value]));
}
