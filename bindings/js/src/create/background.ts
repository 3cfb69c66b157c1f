/** What goes on after calls have ended. */

import { orAborted, timer } from '../retry/clock.ts';
import type { Leftover } from './driver.ts';

/** What creates do in the background: those of a client, or those that no client has begun. */
export class Background {
  /** With how long each is waited for, in milliseconds. */
  readonly #work = new Map<Promise<void>, number>();
  readonly #left: Leftover[] = [];

  /** How much goes on. */
  get size(): number {
    return this.#work.size;
  }

  /** This goes on, and is waited for as long as this, in milliseconds. It never rejects. */
  goOn(work: Promise<void>, atMostMs: number): void {
    this.#work.set(work, atMostMs);
    work.then(() => this.#work.delete(work));
  }

  /** Something was left that may live on. */
  leave(left: Leftover): void {
    this.#left.push(left);
  }

  /** Waits for all of it, as long as that may take which takes longest, and says what was left. */
  async close(): Promise<readonly Leftover[]> {
    const bound = new AbortController();
    const stop = timer(Math.max(0, ...this.#work.values()), () => bound.abort());
    const all = async (): Promise<void> => {
      while (this.#work.size > 0) await Promise.all(this.#work.keys());
    };
    await orAborted(all(), bound.signal);
    stop();
    return this.#left.splice(0);
  }
}
