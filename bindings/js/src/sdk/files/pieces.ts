/** A stream that is read by numbers of bytes. */

import { ABORTED, orAborted } from '../../retry/clock.ts';
import { InvalidArgumentError } from '../errors.ts';
import { view } from './data.ts';

/** The bytes of a stream, so many at a time. */
export class Pieces {
  private readonly reader: ReadableStreamDefaultReader<unknown>;
  private rest: Uint8Array = new Uint8Array();
  private ended = false;
  /** How many were taken. */
  taken = 0;

  /** @param signal what ends the wait for a stream that stands still */
  constructor(
    stream: ReadableStream,
    private readonly signal?: AbortSignal,
  ) {
    if (stream.locked) throw new InvalidArgumentError('data: the stream is being read by somebody else, or was');
    this.reader = stream.getReader();
  }

  /** So many bytes, or fewer where the stream ends. */
  async take(length: number): Promise<Uint8Array<ArrayBuffer>> {
    const kept: Uint8Array[] = [];
    let size = 0;
    while (size < length) {
      const piece = await this.next();
      if (piece === undefined) break;
      const fits = piece.subarray(0, length - size);
      this.rest = piece.subarray(fits.length);
      kept.push(fits);
      size += fits.length;
    }
    const all = new Uint8Array(size);
    let at = 0;
    for (const piece of kept) {
      all.set(piece, at);
      at += piece.length;
    }
    this.taken += size;
    return all;
  }

  /** What was taken, and all that follows, as a stream. */
  after(first: Uint8Array): ReadableStream<Uint8Array> {
    let begun = false;
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const piece = begun ? await this.next() : first;
          if (piece === undefined) {
            controller.close();
            return;
          }
          if (begun) this.taken += piece.length;
          begun = true;
          controller.enqueue(piece);
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** Nobody takes more. */
  close(): void {
    if (!this.ended) this.reader.cancel().catch(() => {});
  }

  private async next(): Promise<Uint8Array | undefined> {
    if (this.rest.length > 0) {
      const piece = this.rest;
      this.rest = new Uint8Array();
      return piece;
    }
    if (this.ended) return undefined;
    const read = await orAborted(this.reader.read(), this.signal);
    if (read === ABORTED) throw this.signal?.reason;
    const { done, value } = read;
    if (!done) return typeof value === 'string' ? new TextEncoder().encode(value) : view(value);
    this.ended = true;
    return undefined;
  }
}
