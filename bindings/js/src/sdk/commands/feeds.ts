/** One source of events, many readers, in bounded memory. */

import type { CommandEvent } from './events.ts';

/** Bytes that wait for one reader before the source is no longer read. */
const HIGH_WATER = 1 << 20;

/** The readers of a command's events. */
export class Feeds {
  private readonly open_ = new Set<Feed>();
  private readonly kept: CommandEvent[] = [];
  private ended: { error?: unknown } | undefined;

  constructor(
    /** Whether readers that come later get what was before. */
    private readonly keeps: boolean,
  ) {}

  /** One more reader. */
  open(): Feed {
    const feed = new Feed([...this.kept], (closed) => this.open_.delete(closed));
    if (this.ended) feed.end(this.ended);
    else this.open_.add(feed);
    return feed;
  }

  /** Gives an event to all readers, and waits for those that are far behind. */
  async push(event: CommandEvent): Promise<void> {
    if (this.keeps || event.type === 'exit') this.kept.push(event);
    for (const feed of this.open_) feed.push(event);
    for (const feed of this.open_) await feed.drained();
  }

  /** No more events. */
  end(...error: [unknown?]): void {
    this.ended = error.length > 0 ? { error: error[0] } : {};
    for (const feed of this.open_) feed.end(this.ended);
    this.open_.clear();
  }
}

/** One reader. */
export class Feed implements AsyncIterableIterator<CommandEvent> {
  private bytes = 0;
  private ended: { error?: unknown } | undefined;
  /** Several wait where `next` is called again before it has settled. */
  private waiting: (() => void)[] = [];
  private drain: (() => void) | undefined;

  constructor(
    private readonly queue: CommandEvent[],
    private readonly closed: (feed: Feed) => void,
  ) {
    for (const event of queue) this.bytes += size(event);
  }

  /** Adds an event. */
  push(event: CommandEvent): void {
    this.queue.push(event);
    this.bytes += size(event);
    this.wakeAll();
  }

  /** Ends it after what is queued. */
  end(how: { error?: unknown }): void {
    this.ended = how;
    this.wakeAll();
    this.drain?.();
  }

  /** Resolves when little is queued. */
  async drained(): Promise<void> {
    while (this.bytes > HIGH_WATER && !this.ended) {
      await new Promise<void>((resolve) => {
        this.drain = resolve;
      });
    }
  }

  async next(): Promise<IteratorResult<CommandEvent, undefined>> {
    for (;;) {
      const event = this.queue.shift();
      if (event !== undefined) {
        this.bytes -= size(event);
        if (this.bytes <= HIGH_WATER) this.drain?.();
        return { done: false, value: event };
      }
      if (this.ended) {
        const { ended } = this;
        this.ended = {};
        if ('error' in ended) throw ended.error;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.waiting.push(resolve);
      });
    }
  }

  async return(): Promise<IteratorResult<CommandEvent, undefined>> {
    this.queue.length = 0;
    this.bytes = 0;
    this.closed(this);
    this.end({});
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private wakeAll(): void {
    for (const wake of this.waiting.splice(0)) wake();
  }
}

function size(event: CommandEvent): number {
  return 'data' in event ? event.data.length : 0;
}
