import { type Addon, Kind, type NativeUpload } from './addon.ts';
import type { Hub } from './hub.ts';

const encoder = new TextEncoder();

/** A request's body on its way. */
export interface Upload {
  readonly native: NativeUpload;
  /** Gives it up, and its source. */
  abandon(reason: unknown): void;
}

/**
 * Reads a stream as the addon takes it, one piece ahead. When nothing more is wanted the source is cancelled: a request that
 * was answered early, refused for good, or aborted.
 */
export function upload(addon: Addon, hub: Hub, source: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): Upload {
  let ended = false;
  let taken: (() => void) | undefined;
  // First of all: one that is being read by somebody else throws, and nobody may wait for news of it.
  const pieces = reading(source);
  const number = hub.listen(({ kind }) => {
    if (kind === Kind.Unwanted) {
      abandon(new DOMException('the rest of the body is not wanted', 'AbortError'));
    }
    taken?.();
  });
  const native = new addon.NativeUpload(hub.port, number);
  const abandon = (reason: unknown) => {
    // A call that was not even begun never says that it wants nothing more.
    hub.stop(number);
    if (ended) return;
    ended = true;
    pieces.cancel(reason);
    // Where the source itself stands still, this is all that the addon hears.
    native.fail('the request was given up');
  };
  const pump = async () => {
    try {
      while (!ended) {
        const piece = await pieces.next();
        if (ended) return;
        if (piece === undefined) {
          ended = true;
          return native.end();
        }
        if (!native.write(piece)) {
          await new Promise<void>((resolve) => {
            taken = resolve;
          });
        }
      }
    } catch (error) {
      if (ended) return;
      ended = true;
      native.fail(`the request's body failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  void pump();
  return { native, abandon };
}

interface Pieces {
  next(): Promise<Uint8Array | undefined>;
  /** Is not waited for: it may never settle. */
  cancel(reason: unknown): void;
}

function reading(source: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): Pieces {
  if (source instanceof ReadableStream) {
    const reader = source.getReader();
    return {
      next: async () => bytes((await reader.read()).value),
      cancel: (reason) => void reader.cancel(reason).catch(() => {}),
    };
  }
  const iterator = source[Symbol.asyncIterator]();
  return {
    next: async () => {
      const { value, done } = await iterator.next();
      return done ? undefined : bytes(value);
    },
    cancel: () => void (async () => iterator.return?.())().catch(() => {}),
  };
}

function bytes(piece: unknown): Uint8Array | undefined {
  if (piece === undefined || piece instanceof Uint8Array) return piece;
  if (typeof piece === 'string') return encoder.encode(piece);
  throw new TypeError('a piece of the body is no Uint8Array');
}
