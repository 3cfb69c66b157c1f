/** What a log is told of calls. Nothing of it is secret: no header, no body, and of URLs neither credentials nor query. */

import type { ReturnReason } from '../policy/types.ts';
import { type Attempt, attemptsOf, describeAttempt, mayHaveBeenProcessed } from './history.ts';

/** What all events say. */
interface Told {
  readonly method: string;
  /** Without credentials, query and fragment. */
  readonly url: string;
  /** The operation's id, where a table lists it. */
  readonly operation: string | undefined;
  /** All of it in words. */
  readonly text: string;
}

/** An attempt that ended. */
export interface AttemptEvent extends Told {
  readonly kind: 'attempt';
  /** What came of it, and what was decided then: a replay or a retry with its reason and its wait, or the end. */
  readonly attempt: Attempt;
}

/** A call that ended. */
export interface EndEvent extends Told {
  readonly kind: 'end';
  /** `answered`: by whatever status; `aborted`: by the caller's signal; `failed`: it threw anything else. */
  readonly end: 'answered' | 'aborted' | 'failed';
  /** Of the answer. */
  readonly status: number | undefined;
  /** What was thrown: its name. */
  readonly error: string | undefined;
  /** Why nothing more was tried, where the policy said so. */
  readonly reason: ReturnReason | undefined;
  /** How many attempts it took, its look-ups included. */
  readonly attempts: number;
  /** How long it took, in seconds. */
  readonly seconds: number;
  /** Whether an effect is possible. */
  readonly mayHaveBeenProcessed: boolean;
}

/** What a log is told: of each attempt, and of the end of each call. */
export type LogEvent = AttemptEvent | EndEvent;

/** Who is told. */
export type Log = (event: LogEvent) => void;

/** Whose attempts and end are told. */
export interface Subject {
  readonly method: string;
  readonly url: string;
  readonly operation: string | undefined;
}

/** Tells a log of one call. */
export class Telling {
  private attempts = 0;

  constructor(
    private readonly log: Log | undefined,
    private readonly subject: Subject,
  ) {}

  /** An attempt ended: of the call itself, or of what it does besides. */
  attempt(attempt: Attempt, of: Subject = this.subject): void {
    this.attempts += 1;
    if (this.log === undefined) return;
    const { method, operation } = of;
    const url = shown(of.url);
    const text = `${method} ${url}, attempt ${attempt.number} ${describeAttempt(attempt)}`;
    tell(this.log, { kind: 'attempt', method, url, operation, attempt, text });
  }

  /** The call was answered. */
  answered(status: number, attempts: readonly Attempt[], seconds: number): void {
    this.end({ end: 'answered', status, error: undefined }, attempts, seconds, `answered ${status}`);
  }

  /** The call threw this. */
  failed(error: unknown, isAborted: boolean, seconds: number): void {
    const name = error instanceof Error || error instanceof DOMException ? error.name : typeof error;
    const end = isAborted ? 'aborted' : 'failed';
    this.end({ end, status: undefined, error: name }, attemptsOf(error), seconds, `${end} (${name})`);
  }

  private end(
    what: Pick<EndEvent, 'end' | 'status' | 'error'>,
    history: readonly Attempt[],
    seconds: number,
    words: string,
  ): void {
    if (this.log === undefined) return;
    const { method, operation } = this.subject;
    const url = shown(this.subject.url);
    const last = history.at(-1)?.verdict;
    // A call that is given up on the way has no history.
    const attempts = Math.max(history.length, this.attempts);
    const text = `${method} ${url}: ${words} after ${attempts} attempt${attempts === 1 ? '' : 's'}, ${seconds.toFixed(3)} s`;
    tell(this.log, {
      ...{ kind: 'end', method, url, operation, ...what, attempts, seconds, text },
      reason: last?.kind === 'return' ? last.reason : undefined,
      // Nothing is known where there is no history.
      mayHaveBeenProcessed: history.length === 0 || mayHaveBeenProcessed(history),
    });
  }
}

/** A log must not decide what becomes of a call, nor of the process, should it be async. */
function tell(log: Log, event: LogEvent): void {
  try {
    Promise.resolve(log(event) as unknown).catch(() => {});
  } catch {}
}

/** A URL without credentials, query and fragment. */
export function shown(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1');
}

/** The longest text of an error's that is shown. */
const LONGEST = 500;

/** A text of somebody else's, and URLs in it without what may be secret. */
export function shownText(text: string): string {
  const plain = text.replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'`()<>]+/gi, shown);
  return plain.length > LONGEST ? `${plain.slice(0, LONGEST)}…` : plain;
}
