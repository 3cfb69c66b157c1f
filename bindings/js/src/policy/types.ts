/**
 * What the policy is told and what it says. The words are those of `crates/policy`; names that stand for variants are
 * written as in the conformance vectors.
 */

/** What decides about repeats. */
export interface Policy {
  readonly retries: number;
  readonly connectionRetries: number;
  readonly trustServiceUnavailable: boolean;
  readonly trustBadGateway: boolean;
  readonly retryGatewayTimeout: boolean;
  readonly retryRequestTimeoutStatus: boolean;
  readonly replayMisdirectedAndEarly: boolean;
  readonly retryRateLimitWithoutHint: boolean;
  readonly honorShouldRetry: boolean;
  readonly retryBudget: boolean;
  readonly repeatUnknown: RepeatUnknown;
  readonly retryAfterJitter: number;
  readonly lookups: number;
}

/** A policy by name: ours, or what a version of the official SDK retries. */
export type PresetName = (typeof PRESETS)[number];
export const PRESETS = ['default', 'e2b_2_52', 'e2b_2_63'] as const;

/** Which unknown outcomes may be repeated. */
export type RepeatUnknown = (typeof REPEAT_UNKNOWN)[number];
export const REPEAT_UNKNOWN = ['never', 'safe', 'permitted'] as const;

/** Why an unknown outcome may be repeated. */
export type Permit = (typeof PERMITS)[number];
export const PERMITS = ['safe_method', 'idempotent_method', 'operation_table', 'idempotency_key'] as const;

/** A request body, as far as it can be sent again. */
export type RequestBody =
  | (typeof BODIES)[number]
  | { readonly stream_consumed: { readonly read: number; readonly limit: number } };
export const BODIES = ['none', 'bytes', 'stream_unread', 'stream_mirrored'] as const;

/** What stays the same over the attempts of a call. Times are in seconds since the call's begin. */
export interface CallFacts {
  readonly permit: Permit | undefined;
  readonly mints: boolean;
  readonly reconciles: boolean;
  readonly body: RequestBody;
  /** Undefined: there is none. */
  readonly deadline: number | undefined;
  /** The deadline of the call that this one is a child of, on the same clock. */
  readonly parentDeadline?: number | undefined;
}

/** A step before a request's head is written. */
export type Phase = (typeof PHASES)[number];
export const PHASES = ['dns', 'connect', 'proxy', 'tls', 'slot', 'queue'] as const;

/** What ended an attempt after its head was written. */
export type Cause = (typeof CAUSES)[number];
export const CAUSES = [
  'connection_lost',
  'reset',
  'attempt_timeout',
  'ping_timeout',
  'protocol',
  'request_body',
  'opaque',
] as const;

/** What the proxy in front of sandboxes says in place of a sandbox. */
export type Edge = (typeof EDGES)[number];
export const EDGES = ['not_running', 'not_delivered'] as const;

/** What is known of one attempt. */
export type Outcome =
  | { readonly kind: 'not_sent'; readonly phase: Phase; readonly touchedSocket: boolean; readonly detail: string }
  | { readonly kind: 'refused'; readonly streamId?: number; readonly goaway?: Goaway }
  | Responded
  | {
      readonly kind: 'sent_unknown';
      readonly cause: Cause;
      readonly code?: number;
      readonly streamId?: number;
      readonly detail: string;
    }
  | { readonly kind: 'cancelled'; readonly sent: boolean }
  | { readonly kind: 'timed_out'; readonly sent: boolean };

/** An answer's facts, as far as decisions rest on them. */
export interface Responded {
  readonly kind: 'responded';
  readonly status: number;
  /** In seconds, from receipt. */
  readonly retryAfter?: number | undefined;
  readonly shouldRetry?: boolean | undefined;
  /** The body was cut. */
  readonly broken?: boolean;
  readonly edge?: Edge | undefined;
  readonly paced?: boolean;
}

export interface Goaway {
  readonly streamId: number;
  readonly lastStreamId: number;
  readonly code: number;
  readonly debugData: string;
}

/** An outcome, or what proves one. */
export type Ended =
  | Outcome
  | ({ readonly kind: 'goaway' } & Goaway)
  | { readonly kind: 'reset'; readonly streamId: number; readonly code: number; readonly responseBegan: boolean };

/** One ended attempt, as the policy is told of it. */
export interface PolicyAttempt {
  /** When it began, in seconds since the call's begin. */
  readonly started: number;
  readonly outcome: Ended;
  /** A number unique in the process; undefined where the runtime tells none. */
  readonly connection?: number | undefined;
  readonly otherConnection?: boolean | undefined;
  readonly failedDials?: number | undefined;
}

/** What an attempt was for. */
export type Purpose = (typeof PURPOSES)[number];
export const PURPOSES = ['call', 'look_up', 'poll', 'kill'] as const;

/** Why a call ends. */
export type ReturnReason = (typeof RETURN_REASONS)[number];
export const RETURN_REASONS = [
  'cancelled',
  'deadline_passed',
  'success',
  'status_final',
  'server_forbids',
  'sandbox_not_running',
  'no_retry_after',
  'refused_again',
  'no_permit',
  'body_not_replayable',
  'streamed_body',
  'retries_used',
  'connection_retries_used',
  'deadline_too_close',
  'retry_window_over',
  'budget_empty',
  'look_ups_used',
  'single_attempt',
] as const;

/** Why a request may be sent again. */
export type RetryReason = (typeof RETRY_REASONS)[number];
export const RETRY_REASONS = [
  'not_sent',
  'refused',
  'not_delivered',
  'status',
  'server_asks',
  'permitted',
  'reconciled',
] as const;

/** Where the length of a wait comes from. */
export type WaitReason = (typeof WAIT_REASONS)[number];
export const WAIT_REASONS = ['none', 'retry_after', 'backoff', 'dial_backoff'] as const;

/** Which connection a repeat should take. */
export type Connection = (typeof CONNECTIONS)[number];
export const CONNECTIONS = ['any', 'prefer_other', 'fresh'] as const;

/** The rule that a verdict comes from. */
export type Rule = (typeof RULES)[number];
export const RULES = [
  'call_ended',
  'unprocessed',
  'should_retry',
  'reconcile',
  'status',
  'unknown_outcome',
  'streamed_body',
  'counter',
  'wait',
  'deadline',
  'budget',
] as const;

/** What to do after an attempt. Times are in seconds. */
export type Verdict =
  | { readonly kind: 'return'; readonly reason: ReturnReason; readonly retryAfter: number | undefined }
  | {
      readonly kind: 'retry';
      readonly after: number;
      readonly wait: WaitReason;
      readonly connection: Connection;
      readonly reason: RetryReason;
    }
  | { readonly kind: 'reconcile' };

/** One attempt in a call's history. Times are in seconds since the call's begin. */
export interface PolicyRecord {
  readonly purpose: Purpose;
  readonly started: number;
  readonly ended: number;
  readonly connection: number | undefined;
  readonly outcome: Outcome;
  readonly verdict: Verdict;
}

/** What a call has spent, and its attempts. */
export interface LedgerState {
  readonly retries: number;
  readonly connectionRetries: number;
  readonly freeRepeats: number;
  readonly backoffs: number;
  readonly lookups: number;
  readonly records: readonly PolicyRecord[];
}
