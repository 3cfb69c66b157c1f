/** One history of the requests that a call is made of, and what an error of a later one says of the earlier ones. */

import { type Attempt, attemptsOf, mayHaveBeenProcessed } from '../retry/history.ts';
import { NOT_DONE } from './api/failure.ts';
import { NotDoneError, OnceboxError, OutcomeUnknownError } from './errors.ts';
import { type Answer, type Call, isLook, type Sender } from './transport/sender.ts';

/** The most attempts that are kept; of more, the oldest are left out, and their numbers with them. */
const MOST = 64;

interface Noted {
  readonly attempt: Attempt;
  /** The history of the request that it is of. */
  readonly of: readonly Attempt[];
}

/** Of the histories that errors were given here: those of the requests in them. */
const gathered = new WeakMap<readonly Attempt[], ReadonlySet<readonly Attempt[]>>();

/** The attempts of a call's requests, on one clock. */
export class Trail {
  private readonly began = performance.now();
  private readonly all: Noted[] = [];
  /** Of all that was noted, also where it was left out since. */
  private readonly histories = new WeakSet<readonly Attempt[]>();
  private readonly signals = new Set<AbortSignal>();
  private count = 0;
  private outer: Trail | undefined;

  /** The same requests are part of another call, too. */
  within(outer: Trail | undefined): this {
    this.outer = outer;
    return this;
  }

  /** Whose abort ends the call: its reason is the caller's. */
  follow(signal: AbortSignal | undefined): void {
    this.outer?.follow(signal);
    if (signal !== undefined) this.signals.add(signal);
  }

  /** Adds the attempts of a request that began then. A look has no effect. */
  note(began: number, attempts: readonly Attempt[], look: boolean): void {
    this.outer?.note(began, attempts, look);
    this.histories.add(attempts);
    const offset = (began - this.began) / 1000;
    for (const each of attempts) {
      const purpose = look ? 'look_up' : each.purpose;
      const [started, ended] = [each.started + offset, each.ended + offset];
      this.count += 1;
      const attempt = Object.freeze({ ...each, number: this.count, purpose, started, ended });
      this.all.push({ attempt, of: attempts });
    }
    while (this.all.length > MOST) {
      // One that may have had an effect stays, for all that is known of the call hangs on it.
      const [first, ...others] = this.all;
      const isNeeded = first !== undefined && isDone([first]) && !isDone(others);
      this.all.splice(isNeeded ? 1 : 0, 1);
    }
  }

  /**
   * What the call failed by: with the attempts of all its requests, and never as not done where an earlier one was, or may have
   * been, carried out. An abort's reason, and an error of another call that is thrown in this one (by a callback, say), stay as
   * they are.
   *
   * @param done says so where the failed request was not
   */
  tell(error: unknown, done: string): unknown {
    if (!(error instanceof OnceboxError) || [...this.signals].some((each) => each.aborted && each.reason === error)) {
      return error;
    }
    const own = error.attempts;
    const ofError = gathered.get(own) ?? new Set([own]);
    // It is another call's: what that one was of is no part of this one.
    if (own.length > 0 && ![...ofError].every((each) => this.histories.has(each))) return error;
    const earlier = this.all.filter((each) => !ofError.has(each.of));
    if (earlier.length === 0) return error;
    const attempts = this.all.map(({ attempt }) => attempt);
    gathered.set(Object.freeze(attempts), new Set(this.all.map((each) => each.of)));
    error.attempts = attempts;
    if (!isDone(earlier) || own.length === 0 || mayHaveBeenProcessed(own)) return error;
    const message = `${error.message.replace(`; ${NOT_DONE}`, '')}; ${done}`;
    const { retryAfter, cause, outcome } = error;
    if (error instanceof NotDoneError) return new OutcomeUnknownError(message, { attempts, retryAfter, cause });
    error.message = message;
    if (outcome?.kind !== 'responded') delete error.outcome;
    return error;
  }
}

function isDone(noted: readonly Noted[]): boolean {
  return mayHaveBeenProcessed(noted.map(({ attempt }) => attempt));
}

/** What makes requests, and can have them noted. */
export interface Noting<T> {
  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): T;
}

/**
 * Makes a call of several requests.
 *
 * @param done what an error says of those that were done
 */
export async function through<S, T>(
  by: Noting<S>,
  call: (by: S) => Promise<T>,
  done: string | (() => string) = 'a part of it was, or may have been, done before',
): Promise<T> {
  const trail = new Trail();
  try {
    return await call(by.noting(trail));
  } catch (error) {
    throw trail.tell(error, typeof done === 'string' ? done : done());
  }
}

/** Sends a request, and notes its attempts. */
export async function sendNoted(sender: Sender, call: Call, trail: Trail | undefined): Promise<Answer> {
  if (trail === undefined) return sender.send(call);
  trail.follow(call.signal);
  const began = performance.now();
  try {
    const answer = await sender.send(call);
    trail.note(began, answer.attempts, isLook(call));
    return answer;
  } catch (error) {
    trail.note(began, attemptsOf(error), isLook(call));
    throw error;
  }
}
