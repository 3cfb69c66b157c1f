/** A signal for what may take only so long to begin, and lasts as long as the caller's signal lets it. */
export class Limited {
  private readonly control = new AbortController();
  private readonly late: AbortSignal;

  constructor(
    private readonly callers: AbortSignal,
    /** In milliseconds; 0: no limit. */
    limit: number,
  ) {
    // A part of a millisecond is none to Node's signals.
    this.late = AbortSignal.timeout(Math.ceil(limit) || 2 ** 31 - 1);
    if (callers.aborted) this.abort();
    for (const signal of [this.late, callers]) signal.addEventListener('abort', this.abort, { once: true });
  }

  /** Aborted by the caller's, and by the limit until `done`. */
  get signal(): AbortSignal {
    return this.control.signal;
  }

  /** Whether the time was over before it began. */
  get isLate(): boolean {
    return this.late.aborted && !this.callers.aborted;
  }

  /** It has begun. The caller's signal goes on to end it. */
  done(): void {
    this.late.removeEventListener('abort', this.abort);
  }

  /** It is over. */
  close(): void {
    this.done();
    this.callers.removeEventListener('abort', this.abort);
  }

  private readonly abort = (): void => {
    this.control.abort(this.callers.aborted ? this.callers.reason : this.late.reason);
  };
}
