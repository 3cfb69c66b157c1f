import { anySignal, timer } from './clock.ts';

/** What ends a call from outside: its caller's signal, and its deadline. */
export class Watch {
  /** Aborts when either comes. */
  readonly signal: AbortSignal | undefined;
  /** The error of the deadline, once it has passed. */
  timedOut: DOMException | undefined;
  private readonly caller: AbortSignal | undefined;
  private readonly stopTimer: () => void = () => {};

  /**
   * @param caller the caller's signal
   * @param leftMs how long the call may take from now on
   * @param describe the message of the deadline's error
   */
  constructor(caller: AbortSignal | undefined, leftMs: number | undefined, describe: () => string) {
    this.caller = caller;
    if (leftMs === undefined) {
      this.signal = caller;
      return;
    }
    const controller = new AbortController();
    this.signal = anySignal(caller === undefined ? [controller.signal] : [caller, controller.signal]);
    this.stopTimer = timer(leftMs, () => {
      this.timedOut = new DOMException(describe(), 'TimeoutError');
      controller.abort(this.timedOut);
    });
  }

  /** Whether the caller aborted. It may have done so after the deadline passed, which then counts. */
  get cancelled(): boolean {
    return this.timedOut === undefined && this.caller?.aborted === true;
  }

  /** What the caller aborted with. */
  get reason(): unknown {
    return this.caller?.reason;
  }

  /** The deadline no longer counts; the caller's abort still ends what is being read. */
  stop(): void {
    this.stopTimer();
  }
}
