/** Time: timers that may be long, waits that an abort ends, and signals that follow others. */

import { onAbort } from '../native/aborts.ts';

/** Longer timers fire at once in every runtime. */
const LONGEST_TIMER = 2 ** 31 - 1;

// As they are when this is loaded, so that whoever fakes timers does not fake the turns that are given here.
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
    const stop = timer(ms, () => {
      forget?.();
      resolve();
    });
    const forget = signal && onAbort(signal, stop);
  });
}

/** Takes what a controller follows off it, once nobody has the controller any more. */
const collected =
  typeof FinalizationRegistry === 'undefined' ? undefined : new FinalizationRegistry<() => void>((stop) => stop());

/**
 * Aborts a controller when a signal does, for as long as somebody has the controller: a signal may live as long as its
 * process, and calls are many. Returns what takes that back.
 *
 * Not by `AbortSignal.any`, which in Node 20 leaves something on its sources with each call.
 */
export function follow(source: AbortSignal, controller: AbortController): () => void {
  if (source.aborted) {
    controller.abort(source.reason);
    return () => {};
  }
  // Workers have none before their compatibility date of 2025-05-05.
  const weak = typeof WeakRef === 'undefined' ? { deref: () => controller } : new WeakRef(controller);
  const stop = onAbort(source, () => weak.deref()?.abort(source.reason));
  collected?.register(controller, stop);
  return stop;
}

/** Waits for a turn of the event loop: what was begun in this one has been done then. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    nextTurn(resolve, 0);
  });
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
      forget();
    };
    const aborted = (): void => {
      nextTurn(() => end(() => resolve(ABORTED)), 0);
    };
    const forget = signal.aborted ? () => {} : onAbort(signal, aborted);
    if (signal.aborted) aborted();
    promise.then(
      (value) => {
        if (over) late?.(value);
        end(() => resolve(value));
      },
      (error) => end(() => reject(error)),
    );
  });
}
