/** Sends whose outcome stayed unknown, for later calls with their intents. */

/**
 * When creates that ended unknown lost their last send, by intent. The effect of such a send may come for `settle`: a call
 * that asks again meanwhile must not take one empty look-up for the answer. Times are the caller's, in milliseconds.
 */
export class Losses {
  private readonly settleMs: number;
  private readonly lostAt = new Map<string, number>();

  constructor(settleMs: number) {
    this.settleMs = settleMs;
  }

  /** How many are kept. */
  get size(): number {
    return this.lostAt.size;
  }

  /** A call ended unknown now, with its last loss at this time. */
  keep(intent: string, lostAt: number, now: number): void {
    this.lostAt.set(intent, Math.max(lostAt, this.lostAt.get(intent) ?? lostAt));
    for (const [of, at] of this.lostAt) if (now - at >= this.settleMs) this.lostAt.delete(of);
  }

  /** A call that began then found out what became of the intent. What was lost after that it may not have seen. */
  forget(intent: string, began: number): void {
    const lostAt = this.lostAt.get(intent);
    if (lostAt !== undefined && lostAt <= began) this.lostAt.delete(intent);
  }

  /** How long ago the last send with this intent was lost, in milliseconds, where its effect may still come. */
  lostFor(intent: string, now: number): number | undefined {
    const lostAt = this.lostAt.get(intent);
    if (lostAt === undefined) return undefined;
    const ms = Math.max(0, now - lostAt);
    return ms < this.settleMs ? ms : undefined;
  }
}
