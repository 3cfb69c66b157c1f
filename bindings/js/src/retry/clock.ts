/** Time: timers that may be long, waits that an abort ends, and signals that follow several. */

/** Longer timers fire at once in every runtime. */
const LONGEST_TIMER = 2 ** 31 - 1;

// As they are when this is loaded, so that whoever fakes timers does not fake the turn that an abort is given.
const nextTurn = setTimeout;

/** Calls back after a time of any length, in milliseconds. Returns what stops it. */
export function timer(ms: number, fire: () => void): () => void {
  let id: ReturnType<typeof setTimeout>;
  const arm = (left: number): void => {
    const part = Math.min(left, LONGEST_TIMER);
    id = setTimeout(() => (left > part ? arm(left - part) : fire()), part);
  };
  arm(ms);
  return () => clearTimeout(id);
}

/** Waits, in milliseconds. Aborted, it stops its timer and never settles: whoever aborts does not wait for it. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const onAbort = (): void => stop();
    const stop = timer(ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** A signal that aborts when any of these does. */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal | undefined {
  if (signals.length < 2) return signals[0];
  // The runtime's own holds its sources weakly.
  if (typeof AbortSignal.any === 'function') return AbortSignal.any([...signals]);
  const controller = new AbortController();
  for (const signal of signals) {
    const follow = (): void => controller.abort(signal.reason);
    if (signal.aborted) follow();
    else signal.addEventListener('abort', follow, { once: true, signal: controller.signal });
  }
  return controller.signal;
}

/** An abort came before what was waited for. */
export const ABORTED = Symbol('aborted');

/**
 * Waits for a promise or an abort. A promise that an abort rejects has a turn to do so, so that its own error is the one
 * that is seen; `late` gets what comes when nobody waits any more.
 */
export function orAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  late?: (value: T) => void,
): Promise<T | typeof ABORTED> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    let over = false;
    const end = (settle: () => void): void => {
      if (!over) settle();
      over = true;
      signal.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      nextTurn(() => end(() => resolve(ABORTED)), 0);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => {
        if (over) late?.(value);
        end(() => resolve(value));
      },
      (error) => end(() => reject(error)),
    );
  });
}
