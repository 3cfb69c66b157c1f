import type { Outcome, PolicyRecord } from '../policy/types.ts';
import { type OutcomeJson, outcomeOf, type RecordJson, recordOf } from './history.ts';
import { type CarriesOutcome, FAILURE } from './protocol.ts';

/** What the addon says of a call without a response. */
export interface FailureJson {
  readonly message: string;
  readonly invalid: boolean;
  readonly outcome: OutcomeJson | null;
  readonly attempts: readonly RecordJson[];
  readonly mayHaveBeenProcessed: boolean;
  readonly retryAfter: number | null;
  readonly reason: string | null;
  readonly timedOutIn: string | null;
}

/** A call of the native transport that ended without a response. It is a `TypeError`, as `fetch` throws. */
export class TransportError extends TypeError implements CarriesOutcome {
  readonly [FAILURE] = true;
  readonly outcome: Outcome | undefined;
  readonly attempts: readonly PolicyRecord[];
  readonly mayHaveBeenProcessed: boolean;
  /** When the server would like to be asked again, in seconds, where it said so. */
  readonly retryAfter: number | undefined;
  /** Why nothing more was tried. */
  readonly reason: string | undefined;
  /** What the call waited for when a limit ended it: `dns`, `connect`, `proxy`, `tls`, `slot`, `upload`, `head`, `body`. */
  readonly timedOutIn: string | undefined;

  constructor(failure: FailureJson) {
    super(failure.message);
    this.outcome = failure.outcome ? outcomeOf(failure.outcome) : undefined;
    this.attempts = failure.attempts.map(recordOf);
    this.mayHaveBeenProcessed = failure.mayHaveBeenProcessed;
    this.retryAfter = failure.retryAfter ?? undefined;
    this.reason = failure.reason ?? undefined;
    this.timedOutIn = failure.timedOutIn ?? undefined;
  }
}
