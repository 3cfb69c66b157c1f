/** A download that goes on after a cut, where it is certain that the rest is of the same file. */

import type { Envd } from '../envd/envd.ts';
import { reason } from '../envd/stream.ts';
import {
  AuthenticationError,
  CannotResumeError,
  ConnectionLostError,
  InvalidArgumentError,
  NotFoundError,
  type OnceboxError,
  SandboxError,
  SandboxNotRunningError,
} from '../errors.ts';
import { sleep } from '../runtime.ts';
import { contentRange, isSame, type Validator, validatorOf } from './validator.ts';

/** Resumes in a row without a byte. */
export const RESUMES = 5;

/** The first wait between two resumes without a byte, in milliseconds; each further one is twice as long. */
const FIRST_WAIT = 100;

/** How an answer to a request for a file is had: with these headers, until the signal is aborted. */
export type Get = (
  headers: Record<string, string>,
  signal: AbortSignal,
) => Promise<{ headers: Headers; status: number; response: Response }>;

/** Options of a download. */
export interface DownloadOpts {
  /** What is being done, in words. */
  readonly action: string;
  /** Whether it may come compressed, which cannot be resumed. */
  readonly gzip: boolean;
  /** How long nothing may come, in milliseconds; 0: no limit. */
  readonly idleMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly envd?: Envd;
}

/** A file that is being read. */
export class Download {
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private control = new AbortController();
  private size: number | undefined;
  private validator: Validator = { kind: 'none', why: 'nothing of it had come' };
  private offset = 0;
  private inVain = 0;
  private resumed = false;
  private cut = '';

  private constructor(
    private readonly get: Get,
    private readonly opts: DownloadOpts,
  ) {}

  /** Begins a download. */
  static async open(get: Get, opts: DownloadOpts): Promise<Download> {
    const download = new Download(get, opts);
    const { headers, response } = await download.request(opts.gzip ? {} : { 'Accept-Encoding': 'identity' });
    const encoding = headers.get('content-encoding');
    if (encoding !== null && encoding !== 'identity') {
      // What comes is unpacked by fetch: neither its length nor its parts are those of the file.
      download.validator = { kind: 'none', why: 'it came compressed' };
    } else {
      const length = headers.get('content-length');
      if (length !== null && /^\d+$/.test(length)) download.size = Number(length);
      download.validator = validatorOf(headers);
    }
    download.reader = response.body?.getReader();
    if (download.reader === undefined) download.size = 0;
    return download;
  }

  /** The next piece; `undefined` at the end. */
  async piece(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.size === 0 && this.reader === undefined) return undefined;
      if (this.reader === undefined) {
        await this.resume();
        continue;
      }
      let how: string | undefined;
      try {
        const { done, value } = await this.read(this.reader);
        if (!done) {
          if (value.length === 0) continue;
          this.offset += value.length;
          if (this.size !== undefined && this.offset > this.size) {
            throw new SandboxError(
              `could not ${this.opts.action}: it has more than the ${this.size} bytes it was to have`,
            );
          }
          this.inVain = 0;
          return value;
        }
        if (this.size !== undefined && this.offset !== this.size) how = 'the stream ended too early';
      } catch (error) {
        if (this.opts.signal?.aborted) throw this.opts.signal.reason;
        if (error instanceof SandboxError) throw error;
        how = reason(error);
      }
      this.drop();
      // All that was announced is here: what was cut, if anything was, is the end alone.
      if (how === undefined || this.size === this.offset) return this.end();
      this.cut = `${how}, after ${this.offset}${this.size === undefined ? '' : ` of ${this.size}`} bytes`;
    }
  }

  /** How many bytes it has, as far as it was told. */
  get total(): number | undefined {
    return this.size;
  }

  /** Gives it up. */
  close(): void {
    this.drop();
  }

  private drop(): void {
    this.control.abort();
    this.reader?.cancel().catch(() => {});
    this.reader = undefined;
  }

  private async read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<ReadableStreamReadResult<Uint8Array>> {
    const { idleMs } = this.opts;
    if (idleMs === 0) return reader.read();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const idle = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came for ${idleMs} ms (streamIdleTimeoutMs)`)), idleMs);
    });
    try {
      return await Promise.race([reader.read(), idle]);
    } finally {
      clearTimeout(timer);
    }
  }

  private request(headers: Record<string, string>): ReturnType<Get> {
    this.control = new AbortController();
    const { signal } = this.opts;
    return this.get(headers, signal ? AbortSignal.any([signal, this.control.signal]) : this.control.signal);
  }

  /** What was told by times has to be so at the end, too: what changed while its last part was read had the old time before. */
  private async end(): Promise<undefined> {
    this.drop();
    this.size = this.offset;
    if (this.validator.kind === 'time' && this.resumed && this.offset > 0) {
      const { headers } = await this.request({ 'Accept-Encoding': 'identity', Range: 'bytes=0-0' });
      this.control.abort();
      if (!isSame(this.validator, headers) || contentRange(headers)?.total !== this.offset) {
        throw this.cannot('it changed while it was read');
      }
      this.resumed = false;
    }
    this.size = 0;
    return undefined;
  }

  /** Asks for what is left. */
  private async resume(): Promise<void> {
    const { validator, opts } = this;
    if (validator.kind === 'none') throw this.cannot(validator.why);
    if (this.inVain === RESUMES) {
      const message = `could not ${opts.action}: ${this.cut}; resumed ${RESUMES} times in a row without a byte`;
      const lost = new ConnectionLostError(message);
      throw opts.envd ? await opts.envd.afterLoss(lost) : lost;
    }
    if (this.inVain > 0) {
      await sleep(FIRST_WAIT * 2 ** (this.inVain - 1) * (0.5 + Math.random() / 2), opts.signal);
    }
    this.inVain += 1;
    this.resumed = true;
    const range = { 'Accept-Encoding': 'identity', Range: `bytes=${this.offset}-`, 'If-Range': validator.value };
    try {
      const answer = await this.request(range);
      if (answer.status !== 206) {
        this.control.abort();
        throw this.cannot('it changed, so that the server gave all of it instead of what was left');
      }
      this.goOn(answer);
    } catch (error) {
      if (opts.signal?.aborted) throw opts.signal.reason;
      const status = (error as OnceboxError)?.statusCode;
      if (status === 412 || status === 416) throw this.cannot(`it changed: the server answered ${status}`);
      const final = [
        SandboxNotRunningError,
        NotFoundError,
        AuthenticationError,
        InvalidArgumentError,
        CannotResumeError,
      ];
      if (!(error instanceof Error) || final.some((each) => error instanceof each)) throw error;
      this.cut = error.message;
    }
  }

  private goOn({ headers, response }: { headers: Headers; response: Response }): void {
    const part = contentRange(headers);
    const { action } = this.opts;
    if (part === undefined) throw new CannotResumeError(`could not ${action}: a part does not say which one it is`);
    if (part.first !== this.offset) {
      const message = `the part from byte ${this.offset} was asked for, and the one from ${part.first} came`;
      throw new CannotResumeError(`could not ${action}: ${message}`);
    }
    const sizes = this.size === undefined || part.total === undefined || this.size === part.total;
    if (!isSame(this.validator, headers) || !sizes) throw this.cannot('it changed');
    this.size ??= part.total;
    this.reader = response.body?.getReader();
  }

  private cannot(why: string): CannotResumeError {
    const cut = this.cut ? `${this.cut}, and what is left could not be asked for: ` : '';
    return new CannotResumeError(`could not ${this.opts.action}: ${cut}${why}`);
  }
}

/** Reads all of a file; where its rest could not be asked for, from the beginning again: nothing was handed on yet. */
export async function readWhole(get: Get, opts: DownloadOpts): Promise<Uint8Array<ArrayBuffer>> {
  for (let begun = 0; ; begun++) {
    const pieces: Uint8Array[] = [];
    const download = await Download.open(get, opts);
    try {
      for (let piece = await download.piece(); piece !== undefined; piece = await download.piece()) pieces.push(piece);
    } catch (error) {
      if (error instanceof CannotResumeError && begun < RESUMES) continue;
      throw error;
    } finally {
      download.close();
    }
    const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }
}

/** Reads a file as a stream; nothing is asked for before it is read, and not more. */
export async function readStream(get: Get, opts: DownloadOpts): Promise<ReadableStream<Uint8Array>> {
  const download = await Download.open(get, opts);
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const piece = await download.piece();
          if (piece === undefined) controller.close();
          else controller.enqueue(piece);
        } catch (error) {
          // A stream that has failed is never cancelled: an answer that was refused would hold its connection.
          download.close();
          throw error;
        }
      },
      cancel: () => download.close(),
    },
    { highWaterMark: 0 },
  );
}

/** Reads a file piece by piece into a sink; from the beginning again where its rest could not be asked for. */
export async function readInto(
  get: Get,
  opts: DownloadOpts,
  sink: { write(piece: Uint8Array): Promise<void>; restart(): Promise<void> },
  told: (received: number, total: number | undefined) => void,
): Promise<number> {
  for (let begun = 0; ; begun++) {
    const download = await Download.open(get, opts);
    const total = download.total;
    let received = 0;
    try {
      for (let piece = await download.piece(); piece !== undefined; piece = await download.piece()) {
        await sink.write(piece);
        received += piece.length;
        told(received, total);
      }
      return received;
    } catch (error) {
      if (!(error instanceof CannotResumeError) || begun === RESUMES) throw error;
      await sink.restart();
    } finally {
      download.close();
    }
  }
}

const FORMS = {
  text: (bytes: Uint8Array<ArrayBuffer>) => new TextDecoder().decode(bytes),
  bytes: (bytes: Uint8Array<ArrayBuffer>) => bytes,
  blob: (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes]),
};

/** What was read, in the form that was asked for. */
export async function readAs(
  get: Get,
  format: 'text' | 'bytes' | 'blob' | 'stream',
  opts: DownloadOpts,
): Promise<string | Uint8Array | Blob | ReadableStream<Uint8Array>> {
  if (format === 'stream') return readStream(get, opts);
  const made = Object.hasOwn(FORMS, format) ? FORMS[format] : undefined;
  if (made === undefined) {
    throw new InvalidArgumentError(`format: ${JSON.stringify(format)} is none of text, bytes, blob, stream`);
  }
  return made(await readWhole(get, opts));
}
