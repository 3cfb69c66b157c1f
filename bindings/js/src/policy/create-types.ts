/** What the create machine is told and what it says; see `crates/policy/src/create`. Times are in seconds. */

import type { Connection, Ended, Policy, ReturnReason } from './types.ts';

/** Whether a server is taken to honour idempotency keys. */
export type IdempotencyKeys = (typeof IDEMPOTENCY_KEYS)[number];
export const IDEMPOTENCY_KEYS = ['auto', 'honoured', 'ignored'] as const;

/** What a server has shown about idempotency keys. */
export type KeyEvidence = (typeof KEY_EVIDENCE)[number];
export const KEY_EVIDENCE = ['honoured', 'ignored'] as const;

/** A path version of the control plane. */
export type ApiVersion = (typeof API_VERSIONS)[number];
export const API_VERSIONS = ['v1', 'v2'] as const;

/** Where an intent comes from: made for this call, given by the caller, or only to be found. */
export type CreateMode = (typeof CREATE_MODES)[number];
export const CREATE_MODES = ['new', 'given', 'resolve'] as const;

/** What is known of a server; shared by the calls to it. */
export interface ServerMemory {
  readonly keys: KeyEvidence | undefined;
  readonly version: ApiVersion | undefined;
}

/** What a create is made with. */
export interface CreateCall {
  readonly mode: CreateMode;
  /** 32 lower-case hex digits. */
  readonly intent: string;
  readonly policy: Policy;
  /** Undefined: no deadline. */
  readonly requestTimeout: number | undefined;
  readonly idempotencyKeys: IdempotencyKeys;
  readonly settle: number;
  readonly cleanupTimeout: number;
  /** The caller's own key. */
  readonly idempotencyKey: string | undefined;
  /** The call's begin on the local clock, since 1970. */
  readonly began: number;
  readonly server: ServerMemory;
  /**
   * How long before this call's begin an earlier one lost a send with this intent, whose outcome is not known. Undefined:
   * none is known of. It counts for an intent that is given.
   */
  readonly earlierLoss?: number | undefined;
}

/** A sandbox in a list. */
export interface ListedSandbox {
  readonly id: string;
  /** Since 1970. */
  readonly startedAt: number;
  readonly paused: boolean;
  /** Its own metadata's intent: undefined where it has metadata and none in it, null where it was listed without metadata. */
  readonly intent: string | undefined | null;
}

/** A request that brought nothing to go by. */
export interface Failure {
  readonly status: number | undefined;
  readonly retryAfter: number | undefined;
  /** The answer's `Date`, since 1970. */
  readonly date: number | undefined;
}

/** How a send ended. */
export interface CreateAnswer {
  readonly outcome: Ended;
  readonly connection?: number | undefined;
  readonly otherConnection?: boolean | undefined;
  readonly failedDials?: number | undefined;
  /** Where the body is a JSON object with an integer `code` and a text `message`. */
  readonly error?: { readonly errorCode: string | undefined; readonly message: string } | undefined;
  /** The id of the sandbox in the body. */
  readonly sandbox?: string | undefined;
  /** The answer's `Date`, since 1970. */
  readonly date?: number | undefined;
}

/** One thing that happened. */
export type CreateInput =
  | { readonly kind: 'continue' }
  | ({ readonly kind: 'answered' } & CreateAnswer)
  | { readonly kind: 'probed'; readonly status: number | undefined; readonly date: number | undefined }
  | {
      readonly kind: 'listed';
      readonly complete: boolean;
      readonly sandboxes: readonly ListedSandbox[];
      readonly date: number | undefined;
    }
  | ({ readonly kind: 'list_failed' } & Failure)
  | { readonly kind: 'adopted' }
  | { readonly kind: 'adopt_gone' }
  | ({ readonly kind: 'adopt_failed' } & Failure)
  | { readonly kind: 'killed'; readonly left: readonly string[]; readonly retryAfter: number | undefined }
  | { readonly kind: 'abandoned'; readonly sent: boolean };

export type How = (typeof HOWS)[number];
export const HOWS = ['acknowledged', 'adopted'] as const;

/** Why a create ended without a sandbox. */
export type NotDoneReason = { readonly returned: ReturnReason } | (typeof NOT_DONE_REASONS)[number];
export const NOT_DONE_REASONS = [
  'intent_mismatch',
  'unreadable_answer',
  'key_is_the_callers',
  'vanished',
  'absent',
] as const;

/** Why nobody knows how a create ended. */
export type UnknownReason = (typeof UNKNOWN_REASONS)[number];
export const UNKNOWN_REASONS = ['deadline', 'look_ups_used', 'cannot_tell', 'abandoned'] as const;

/** What to do now. */
export type CreateAction =
  | {
      readonly kind: 'send';
      readonly number: number;
      readonly key: string;
      readonly version: ApiVersion;
      readonly connection: Connection;
    }
  | { readonly kind: 'wait'; readonly until: number }
  | { readonly kind: 'probe' }
  | { readonly kind: 'look_up'; readonly version: ApiVersion }
  | { readonly kind: 'adopt'; readonly id: string; readonly paused: boolean }
  | { readonly kind: 'done'; readonly id: string; readonly how: How }
  | {
      readonly kind: 'not_done';
      readonly reason: NotDoneReason;
      readonly status: number | undefined;
      readonly retryAfter: number | undefined;
    }
  | {
      readonly kind: 'unknown';
      readonly intent: string;
      readonly reason: UnknownReason;
      readonly candidate: string | undefined;
    }
  | { readonly kind: 'superseded'; readonly lost: string; readonly by: string }
  | { readonly kind: 'kill'; readonly ids: readonly string[] }
  | { readonly kind: 'finished'; readonly left: readonly string[]; readonly certain: boolean };

/** Why the machine asks for an action. */
export type CreateRule = (typeof CREATE_RULES)[number];
export const CREATE_RULES = [
  'first_send',
  'given_intent_first',
  'resolve',
  'replay',
  'retry_status',
  'next_key_after_busy',
  'same_key_asked',
  'same_key_while_honoured',
  'in_progress',
  'same_key_after_absent',
  'next_key_after_absent',
  'callers_key_stays',
  'fall_back',
  'look_before_resend',
  'look_before_next_key',
  'look_before_end',
  'not_settled',
  'cannot_tell',
  'list_fall_back',
  'probe_version',
  'adopt_smallest',
  'adopt_again',
  'vanished',
  'acknowledged',
  'adoption_confirmed',
  'refused',
  'intent_mismatch',
  'settled_absent',
  'deadline',
  'look_ups_used',
  'abandoned',
  'nothing_to_sweep',
  'sweep_at_once',
  'sweep_after_settle',
  'sweep_again',
  'kill_double',
  'kill_unwanted',
  'handle_lost',
  'no_sane_date',
  'others_stay',
  'swept',
  'sweep_bound',
  'awaited',
] as const;

export interface CreateStep {
  readonly action: CreateAction;
  readonly rule: CreateRule;
}
