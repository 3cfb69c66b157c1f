/** The one loop: attempts are made, the policy judges, nothing else repeats anything. */

import { type Engine, loadEngine, type PolicyBudget } from '../policy/engine.ts';
import type { CallFacts, Outcome, Policy, PolicyAttempt, RequestBody, Verdict } from '../policy/types.ts';
import { discard, type Made, makeAttempt, type Reading } from './attempt.ts';
import { ABORTED, orAborted } from './clock.ts';
import { handOver, isHandedOver } from './hand-over.ts';
import { type Attempt, describeAttempts, withHistory } from './history.ts';
import { type Log, shown, Telling } from './log.ts';
import type { ClockOptions, Filled, TimeoutOptions } from './options.ts';
import type { Origin } from './origins.ts';
import type { Repeatable } from './request.ts';
import { Watch } from './watch.ts';

/** A call that is to be made. */
export interface Call {
  readonly request: Repeatable;
  /** Its operation's id, for logs. */
  readonly operation: string | undefined;
  readonly facts: Pick<CallFacts, 'permit' | 'mints'>;
  readonly policy: (engine: Engine) => Policy;
  readonly timeouts: Filled<TimeoutOptions>;
  readonly reading: Reading;
}

/** What calls are made with. */
export interface Means extends Filled<ClockOptions> {
  readonly fetch: typeof fetch;
  /** What is shared by all calls to an origin. */
  readonly origin: (url: string, engine: Engine) => Origin;
  readonly log: Log | undefined;
  /** Whether time and chance are those of this package, and none of the caller's. */
  readonly ownClock: boolean;
}

/** The end of a call that was answered. */
export interface Answer {
  readonly response: Response;
  /** Where it was read whole. */
  readonly body: Uint8Array<ArrayBuffer> | undefined;
  readonly attempts: readonly Attempt[];
}

/** Makes a call. What it throws is what `fetch` or the caller's signal threw, or a `TimeoutError`; each with its history. */
export async function makeCall(call: Call, means: Means): Promise<Answer> {
  const engine = await loadEngine();
  const { method, url, signal } = call.request;
  const telling = new Telling(means.log, { method, url, operation: call.operation });
  const began = means.now();
  const seconds = (): number => Math.max(0, (means.now() - began) / 1000);
  try {
    const answer = isHandedOver(means)
      ? await handOver(call, means, engine, (attempt) => telling.attempt(attempt))
      : await ownLoop(call, means, engine, telling);
    telling.answered(answer.response.status, answer.attempts, seconds());
    return answer;
  } catch (error) {
    telling.failed(error, signal?.aborted ?? false, seconds());
    throw error;
  }
}

async function ownLoop(call: Call, means: Means, engine: Engine, telling: Telling): Promise<Answer> {
  const running = new Running(call, means, telling);
  try {
    return await running.attempts(engine);
  } finally {
    running.stop();
  }
}

class Running {
  private readonly began: number;
  private readonly watch: Watch;
  private readonly records: Attempt[] = [];
  private waitsFor = 'an answer';
  /** The response whose body the caller reads. */
  private handedOn: Response | undefined;

  private readonly call: Call;
  private readonly means: Means;
  private readonly telling: Telling;

  constructor(call: Call, means: Means, telling: Telling) {
    this.call = call;
    this.telling = telling;
    this.means = means;
    this.began = means.now();
    this.watch = new Watch(call.request.signal, this.deadlineMs(), () => this.late());
  }

  stop(): void {
    this.watch.stop(this.handedOn);
  }

  async attempts(engine: Engine): Promise<Answer> {
    const { call, means } = this;
    const origin = means.origin(call.request.url, engine);
    const body: RequestBody = BODIES[call.request.body];
    const deadline = this.deadlineMs();
    const ledger = engine.call(call.policy(engine), {
      ...call.facts,
      reconciles: false,
      body,
      deadline: deadline === undefined ? undefined : deadline / 1000,
    });
    try {
      for (let number = 1; ; number += 1) {
        const started = this.elapsed();
        const { round } = origin;
        const made = await this.make(engine, number);
        if (made.rethrown) throw made.thrown?.value;
        const failedDials = origin.note(made.outcome, round);
        const verdict = this.judge(ledger, { outcome: made.outcome, started, failedDials }, body, origin);
        if (verdict.kind !== 'retry') return this.end(made);
        if (made.response) discard(made.response);
        await this.wait(verdict.after, ledger, body, origin);
      }
    } finally {
      ledger.free();
      origin.leave();
    }
  }

  private async make(engine: Engine, number: number): Promise<Made> {
    const { call, means, watch } = this;
    // Nothing is begun for a caller who has gone away.
    if (watch.cancelled) {
      return { outcome: { kind: 'cancelled', sent: false }, thrown: { value: watch.reason } };
    }
    this.waitsFor = 'an answer';
    return makeAttempt({
      fetch: means.fetch,
      engine,
      watch,
      attemptTimeoutMs: call.timeouts.attemptTimeoutMs,
      reading: call.reading,
      request: (signal) => call.request.make(number, signal),
    });
  }

  /** Asks the policy, and writes the attempt into the history. */
  private judge(
    ledger: Judge,
    ended: PolicyAttempt & { readonly outcome: Outcome },
    body: RequestBody,
    origin: Origin,
  ): Verdict {
    const { started, outcome } = ended;
    const now = this.elapsed();
    const turn = { now, random: this.means.random(), callStarted: origin.since(this.began) };
    const { verdict } = ledger.judge(ended, body, turn, origin.budget);
    if (verdict === undefined) throw new Error('the policy module gave no verdict');
    const attempt: Attempt = Object.freeze({
      number: this.records.length + 1,
      purpose: 'call' as const,
      started,
      ended: now,
      outcome,
      verdict,
    });
    this.records.push(attempt);
    this.telling.attempt(attempt);
    return verdict;
  }

  private end(made: Made): Answer {
    const attempts = Object.freeze([...this.records]);
    if (made.outcome.kind === 'timed_out') {
      throw withHistory(this.watch.timedOut ?? new DOMException(this.late(), 'TimeoutError'), attempts);
    }
    if (made.thrown !== undefined) {
      // The caller's own reason is not ours to change.
      throw withHistory(made.thrown.value, attempts, made.outcome.kind !== 'cancelled');
    }
    if (made.response === undefined) {
      const message = `${this.call.request.method} ${shown(this.call.request.url)} failed:\n${describeAttempts(attempts)}`;
      throw withHistory(new DOMException(message, 'NetworkError'), attempts);
    }
    if (this.call.reading.read === 'stream') this.handedOn = made.response;
    return { response: withHistory(made.response, attempts), body: made.body, attempts };
  }

  /** Waits before the next attempt. An abort that comes meanwhile is judged as well, so that the history says it. */
  private async wait(seconds: number, ledger: Judge, body: RequestBody, origin: Origin): Promise<void> {
    if (seconds === 0) return;
    this.waitsFor = 'the next attempt';
    const { signal } = this.watch;
    const waited = await orAborted(this.means.sleep(seconds * 1000, signal), signal);
    if (waited !== ABORTED && !signal?.aborted) return;
    const cancelled = this.watch.cancelled;
    const outcome: Outcome = cancelled ? { kind: 'cancelled', sent: false } : { kind: 'timed_out', sent: false };
    this.judge(ledger, { outcome, started: this.elapsed() }, body, origin);
    this.end(cancelled ? { outcome, thrown: { value: this.watch.reason } } : { outcome });
  }

  /** `requestTimeoutMs`, which does not bound a streamed request body. */
  private deadlineMs(): number | undefined {
    const { requestTimeoutMs } = this.call.timeouts;
    return requestTimeoutMs === 0 || this.call.request.body === 'stream' ? undefined : requestTimeoutMs;
  }

  private late(): string {
    const { method, url } = this.call.request;
    const { requestTimeoutMs } = this.call.timeouts;
    const before = this.records.length === 0 ? '' : `\n${describeAttempts(this.records)}`;
    return `${method} ${shown(url)}: waited for ${this.waitsFor} when ${requestTimeoutMs} ms had passed (requestTimeoutMs)${before}`;
  }

  /** Seconds since the call began. */
  private elapsed(): number {
    return Math.max(0, (this.means.now() - this.began) / 1000);
  }
}

/** What the loop asks of a ledger. */
type Judge = Pick<ReturnType<Engine['call']>, 'judge'>;

/** A stream is sent once: what was read of it is gone. */
const BODIES = { none: 'none', bytes: 'bytes', stream: { stream_consumed: { read: 0, limit: 0 } } } as const;

export type { PolicyBudget };
