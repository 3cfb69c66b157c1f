import { follow, timer } from './clock.ts';

/** What a body that was handed on needs to be aborted: it lives as long as the body. */
const kept = new WeakMap<object, Limit[]>();

/** A signal that follows another and has a limit of time. */
export class Limit {
  readonly signal: AbortSignal | undefined;
  /** The error of the limit, once it has passed. */
  passed: DOMException | undefined;
  private readonly controller: AbortController | undefined;
  private stopTimer: () => void = () => {};
  private readonly unfollow: () => void = () => {};

  /**
   * @param source the signal that it follows
   * @param ms how long from now on; undefined: for ever
   * @param describe the message of the limit's error
   */
  constructor(source: AbortSignal | undefined, ms: number | undefined, describe: () => string) {
    if (ms === undefined) {
      this.signal = source;
      return;
    }
    const controller = new AbortController();
    this.controller = controller;
    this.signal = controller.signal;
    if (source !== undefined) this.unfollow = follow(source, controller);
    this.stopTimer = timer(ms, () => {
      if (controller.signal.aborted) return;
      this.passed = new DOMException(describe(), 'TimeoutError');
      controller.abort(this.passed);
    });
  }

  /** The time no longer counts. What is being read of a response still ends when the signal that is followed aborts. */
  stop(handedOn?: Response): void {
    this.stopTimer();
    // It holds the call.
    this.stopTimer = () => {};
    const { body } = handedOn ?? {};
    if (this.controller && body) kept.set(body, [...(kept.get(body) ?? []), this]);
    else this.unfollow();
  }
}

/** What ends a call from outside: its caller's signal, and its deadline. */
export class Watch {
  private readonly limit: Limit;
  private readonly caller: AbortSignal | undefined;

  /**
   * @param caller the caller's signal
   * @param leftMs how long the call may take from now on
   * @param describe the message of the deadline's error
   */
  constructor(caller: AbortSignal | undefined, leftMs: number | undefined, describe: () => string) {
    this.caller = caller;
    this.limit = new Limit(caller, leftMs, describe);
  }

  /** Aborts when either comes. */
  get signal(): AbortSignal | undefined {
    return this.limit.signal;
  }

  /** The error of the deadline, once it has passed. */
  get timedOut(): DOMException | undefined {
    return this.limit.passed;
  }

  /** Whether the caller aborted before the deadline passed. */
  get cancelled(): boolean {
    return this.timedOut === undefined && this.caller?.aborted === true;
  }

  /** What the caller aborted with. */
  get reason(): unknown {
    return this.caller?.reason;
  }

  /** The deadline no longer counts; the caller's abort still ends the reading of a response that is handed on. */
  stop(handedOn?: Response): void {
    this.limit.stop(handedOn);
  }
}
