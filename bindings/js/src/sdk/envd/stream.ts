/** The messages of a streaming RPC, and how they end. */

import type { Attempt } from '../../retry/history.ts';
import { InvalidArgumentError } from '../errors.ts';
import type { Secrets } from '../masked.ts';
import { milliseconds } from '../validate.ts';
import { EnvelopeError, Unpacker } from './envelope.ts';
import { refusalIn } from './refusal.ts';

/** How often a daemon is asked to say that it is there, in seconds: intermediaries cut what is silent for 60. */
export const KEEPALIVE_SECONDS = 50;

/** After so many intervals without a byte a stream is dead. */
const MISSED_KEEPALIVES = 2.5;

/** How it is told that a stream is dead. */
export interface Watchdog {
  /** How often the daemon is to say that it is there, in **milliseconds**, from 1,000 on. Default: 50,000. */
  keepaliveMs?: number | undefined;
  /** After how long without a byte a stream is given up, in **milliseconds**; 0: never. Default: 2.5 times `keepaliveMs`. */
  silenceMs?: number | undefined;
}

/** A watchdog's times, checked: a keepalive interval in whole seconds, and a silence in milliseconds. */
export function watchdogOf({ keepaliveMs, silenceMs }: Watchdog): { keepalive: number; silence: number } {
  const every = milliseconds('keepaliveMs', keepaliveMs ?? KEEPALIVE_SECONDS * 1000);
  if (every < 1000) throw new InvalidArgumentError(`keepaliveMs: ${every} is less than 1,000`);
  const silence = milliseconds('silenceMs', silenceMs ?? every * MISSED_KEEPALIVES);
  if (silence > 0 && silence <= every) {
    throw new InvalidArgumentError(`silenceMs: ${silence} is no longer than keepaliveMs: live streams would be cut`);
  }
  return { keepalive: Math.round(every / 1000), silence };
}

/** A stream that ended, or was ended, without saying how. */
export class Cut extends Error {
  override name = 'Cut';
}

/** A stream that this side gave up. */
export class Closed extends Error {
  override name = 'Closed';
}

/** Messages, one at a time. Whoever asks next waits for the one before. */
export class MessageStream {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private readonly unpacker = new Unpacker();
  private readonly ready: unknown[] = [];
  private ended: Error | undefined;
  private closed = false;
  private silent = false;

  constructor(
    body: ReadableStream<Uint8Array> | null,
    private readonly abort: (reason?: unknown) => void,
    /** What it took to get it. */
    readonly attempts: readonly Attempt[],
    /** In milliseconds; 0: none. */
    private readonly silence: number,
    /** What its errors must not tell. */
    private readonly secrets: Secrets = [],
  ) {
    this.reader = body?.getReader();
  }

  /**
   * The next message.
   *
   * @throws Cut at an end that says nothing, and at one that was cut; Refusal at an error; Closed after `close`.
   */
  async next(): Promise<Record<string, unknown>> {
    for (;;) {
      if (this.closed) throw new Closed();
      if (this.ready.length > 0) return this.ready.shift() as Record<string, unknown>;
      if (this.ended) throw this.ended;
      await this.read();
    }
  }

  /** Gives the stream up. The process behind it is not told. */
  close(reason?: unknown): void {
    if (this.closed) return;
    this.closed = true;
    this.abort(reason);
    // Not awaited: a body's cancel may never settle.
    this.reader?.cancel(reason).catch(() => {});
  }

  private async read(): Promise<void> {
    try {
      const { done, value } = await this.piece();
      if (done) {
        const half = this.unpacker.rest > 0 ? ' in the middle of a message' : ' without an end';
        this.end(new Cut(`the stream ended${half}`));
        return;
      }
      for (const { end, json } of this.unpacker.push(value)) {
        if (!end) {
          this.ready.push(json);
          continue;
        }
        this.end(refusalIn(json, this.attempts, this.secrets) ?? new Cut('the stream ended without an end event'));
        return;
      }
    } catch (error) {
      if (this.closed) throw new Closed();
      if (this.silent) this.end(new Cut(`nothing came for ${this.silence / 1000} s, keepalives neither`));
      else if (error instanceof EnvelopeError) this.end(new Cut(error.message));
      else this.end(new Cut(`the connection was lost: ${reason(error)}`));
    }
  }

  private async piece(): Promise<ReadableStreamReadResult<Uint8Array>> {
    if (this.reader === undefined) return { done: true, value: undefined };
    if (this.silence === 0) return this.reader.read();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const dead = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.silent = true;
        reject(new Cut());
      }, this.silence);
    });
    try {
      return await Promise.race([this.reader.read(), dead]);
    } finally {
      clearTimeout(timer);
    }
  }

  private end(how: Error): void {
    this.ended = how;
    this.abort();
    this.reader?.cancel().catch(() => {});
  }
}

/** The innermost words of an error of `fetch`. */
export function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
