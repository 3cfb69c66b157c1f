/** Sends whose outcome stayed unknown, for later calls with their intents. */

/**
 * When creates that ended unknown lost their last send, by whose it is and its intent. The effect of such a send may come for
 * `settle`: a call that asks again meanwhile must not take one empty look-up for the answer. Times are of one clock, in
 * milliseconds.
 */
export class Losses {
  private readonly lostAt = new Map<string, number>();
  /** As long as anybody has asked for: whoever asks with a longer `settle` finds what was lost with a shorter one. */
  private longest = 0;

  constructor(
    /** The most that are kept at once, however long they settle. */
    private readonly most = 65_536,
  ) {}

  /** How many are kept. */
  get size(): number {
    return this.lostAt.size;
  }

  /** A call ended unknown now, with its last loss at this time. */
  keep(key: string, lostAt: number, now: number, settleMs: number): void {
    this.longest = Math.max(this.longest, settleMs);
    this.lostAt.set(key, Math.max(lostAt, this.lostAt.get(key) ?? lostAt));
    for (const [of, at] of this.lostAt) if (now - at >= this.longest) this.lostAt.delete(of);
    if (this.lostAt.size > this.most) this.lostAt.delete(this.lostAt.keys().next().value ?? '');
  }

  /** A call that began then found out what became of the intent. What was lost after that it may not have seen. */
  forget(key: string, began: number): void {
    const lostAt = this.lostAt.get(key);
    if (lostAt !== undefined && lostAt <= began) this.lostAt.delete(key);
  }

  /** How long ago the last send with this intent was lost, in milliseconds, where its effect may still come. */
  lostFor(key: string, now: number, settleMs: number): number | undefined {
    this.longest = Math.max(this.longest, settleMs);
    const lostAt = this.lostAt.get(key);
    if (lostAt === undefined) return undefined;
    const ms = Math.max(0, now - lostAt);
    return ms < settleMs ? ms : undefined;
  }
}

/** What one call has to do with losses. */
export class Loss {
  private readonly began: number;

  constructor(
    private readonly losses: Losses,
    private readonly key: string,
    private readonly settleMs: number,
    private readonly now: () => number,
  ) {
    this.began = now();
  }

  /** How long before the call began the last send with its intent was lost, where its effect may still come. */
  get earlierMs(): number | undefined {
    return this.losses.lostFor(this.key, this.began, this.settleMs);
  }

  /** The call ended unknown, with a loss so long ago. */
  keep(lostForMs: number): void {
    const now = this.now();
    this.losses.keep(this.key, now - lostForMs, now, this.settleMs);
  }

  /** The call found out what became of its intent. */
  forget(): void {
    this.losses.forget(this.key, this.began);
  }
}
