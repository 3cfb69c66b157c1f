import type { Engine, PolicyBudget } from '../policy/engine.ts';
import type { Outcome } from '../policy/types.ts';

/** Origins whose state is kept at once; beyond them, those that were used longest ago are forgotten. */
const MOST_ORIGINS = 256;

/** What is shared by all calls to an origin: its retry budget, and how many dials failed in a row. */
export class Origin {
  readonly budget: PolicyBudget;
  private failed = 0;
  private readonly created: number;
  private calls = 0;
  private forgotten = false;

  constructor(budget: PolicyBudget, created: number) {
    this.budget = budget;
    this.created = created;
  }

  /** A moment, in milliseconds, on the budget's clock in seconds. */
  since(moment: number): number {
    return Math.max(0, (moment - this.created) / 1000);
  }

  /** How many dials have failed in a row: the round that an attempt which begins now is of. */
  get round(): number {
    return this.failed;
  }

  /**
   * Learns from what an attempt of a round came to, and says how many dials have failed in a row, where its own was one. Those
   * of one round count as one: the origin failed once, however many asked. Only an answer shows that it can be reached again.
   */
  note(outcome: Outcome, round: number): number {
    if (outcome.kind === 'responded') this.failed = 0;
    if (outcome.kind !== 'not_sent' || !outcome.touchedSocket) return 0;
    if (this.failed === round) this.failed = round + 1;
    return Math.max(1, this.failed);
  }

  enter(): this {
    this.calls += 1;
    return this;
  }

  leave(): void {
    this.calls -= 1;
    this.freeUnused();
  }

  forget(): void {
    this.forgotten = true;
    this.freeUnused();
  }

  private freeUnused(): void {
    if (this.forgotten && this.calls === 0) this.budget.free();
  }
}

/** The origins that calls went to. */
export class Origins {
  private readonly origins = new Map<string, Origin>();
  private readonly now: () => number;

  constructor(now: () => number) {
    this.now = now;
  }

  /** That of a URL, which its user leaves again. */
  of(url: string, engine: Engine): Origin {
    const name = originOf(url);
    const origin = this.origins.get(name) ?? new Origin(engine.budget(), this.now());
    // Put last, as the one that was used last.
    this.origins.delete(name);
    this.origins.set(name, origin);
    const [oldest] = this.origins.keys();
    if (this.origins.size > MOST_ORIGINS && oldest !== undefined) {
      this.origins.get(oldest)?.forget();
      this.origins.delete(oldest);
    }
    return origin.enter();
  }
}

/** The origin of a URL. Relative ones are all to one. */
function originOf(url: string): string {
  try {
    return new URL(url).origin;
  } catch {
    return '';
  }
}
