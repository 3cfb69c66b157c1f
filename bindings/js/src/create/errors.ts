import type { NotDoneReason, UnknownReason } from '../policy/create-types.ts';
import { type Attempt, describeAttempts, RETURN_TEXTS, withHistory } from '../retry/history.ts';

/** The last answer to a create, where it is what ended the call. */
export interface LastAnswer {
  readonly response: Response;
  readonly body: Uint8Array | undefined;
}

/** A create that made no sandbox, and will not. */
export class CreateNotDone extends Error {
  override readonly name = 'CreateNotDone';
  readonly reason: NotDoneReason;
  readonly intent: string;
  /** The status of the last answer, where there was one. */
  readonly status: number | undefined;
  /** When the server would like to be asked again, in seconds. */
  readonly retryAfter: number | undefined;
  readonly answer: LastAnswer | undefined;

  constructor(
    end: Pick<CreateNotDone, 'reason' | 'intent' | 'status' | 'retryAfter' | 'answer'>,
    attempts: readonly Attempt[],
  ) {
    super(told(`no sandbox was made: ${textOf(end.reason)}`, attempts));
    this.reason = end.reason;
    this.intent = end.intent;
    this.status = end.status;
    this.retryAfter = end.retryAfter;
    this.answer = end.answer;
    withHistory(this, attempts);
  }
}

/** A create of which nobody knows what it made. `resolve` with the intent finds out, from any process. */
export class CreateUnknown extends Error {
  override readonly name = 'CreateUnknown';
  readonly reason: UnknownReason;
  readonly intent: string;
  /** A sandbox that was found and could not be fetched in time. */
  readonly candidate: string | undefined;

  constructor(end: Pick<CreateUnknown, 'reason' | 'intent' | 'candidate'>, attempts: readonly Attempt[]) {
    const found = end.candidate && `; sandbox ${end.candidate} carries the intent and could not be fetched`;
    super(
      told(`${UNKNOWN_TEXTS[end.reason]}${found ?? ''}; \`resolve\` with intent ${end.intent} finds out`, attempts),
    );
    this.reason = end.reason;
    this.intent = end.intent;
    this.candidate = end.candidate;
    withHistory(this, attempts);
  }
}

/** Another create with the same intent and other options is under way in this process. */
export class IntentInUse extends Error {
  override readonly name = 'IntentInUse';
}

function told(message: string, attempts: readonly Attempt[]): string {
  return attempts.length === 0 ? message : `${message}\n${describeAttempts(attempts)}`;
}

function textOf(reason: NotDoneReason): string {
  return typeof reason === 'string' ? NOT_DONE_TEXTS[reason] : RETURN_TEXTS[reason.returned];
}

const NOT_DONE_TEXTS = {
  intent_mismatch: 'the idempotency key was used for another request',
  unreadable_answer: 'the answer named no sandbox, and none was made',
  key_is_the_callers: 'only another idempotency key could be answered anew (idempotencyKey)',
  vanished: 'the sandbox was made and is gone again',
  absent: 'no sandbox carries the intent',
};

const UNKNOWN_TEXTS: Record<UnknownReason, string> = {
  deadline: 'the deadline (requestTimeoutMs) came before the outcome could be found out',
  look_ups_used: 'look-ups used up (lookups)',
  cannot_tell: "the server's lists do not tell which sandbox carries the intent",
  abandoned: 'the caller gave it up',
};
