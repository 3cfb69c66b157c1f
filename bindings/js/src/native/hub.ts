import type { Addon, NativePort, News } from './addon.ts';

type Listener = (news: News) => void;

const LAST_NUMBER = 0xffff_ffff;

/**
 * Hands what the addon tells to whoever asked, and keeps the process alive while somebody waits. There is one for each
 * JavaScript context.
 */
export class Hub {
  readonly port: NativePort;
  readonly #waiting = new Map<number, Listener>();
  #last = 0;

  constructor(addon: Addon) {
    this.port = new addon.Port((number, kind, text, data, body) => {
      const listener = this.#waiting.get(number);
      if (listener) listener({ kind, text: text ?? '', data, body });
      // Nobody waits for it any more: its stream is for others.
      else body?.cancel();
    });
  }

  /** Waits for news by a number of its own, until {@link stop}. */
  listen(listener: Listener): number {
    do {
      this.#last = (this.#last % LAST_NUMBER) + 1;
    } while (this.#waiting.has(this.#last));
    if (this.#waiting.size === 0) this.port.hold();
    this.#waiting.set(this.#last, listener);
    return this.#last;
  }

  /** Waits no longer. */
  stop(number: number): void {
    if (this.#waiting.delete(number) && this.#waiting.size === 0) this.port.release();
  }
}
