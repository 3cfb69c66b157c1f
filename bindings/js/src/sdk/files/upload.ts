/** Uploads by parts, each of which can be sent again on its own, joined in the sandbox (`/files/compose`). */

import { platform } from '#platform';
import { parsed } from '../api/control-plane.ts';
import type { CallLimits, Envd } from '../envd/envd.ts';
import {
  ConnectionLostError,
  InvalidArgumentError,
  NotDoneError,
  OnceboxError,
  OutcomeUnknownError,
  SandboxUnreachableError,
  ServiceBusyError,
  UnsupportedError,
} from '../errors.ts';
import { canStreamUploads, randomHex, sleep } from '../runtime.ts';
import type { FileData } from './data.ts';
import type { EntryInfo, WriteInfo } from './entry.ts';
import type { LocalFile, LocalFiles } from './local-types.ts';
import { Pieces } from './pieces.ts';
import { compare, type FilesystemWriteOpts } from './write.ts';

/** The size of a part, in bytes: large enough that its round trip does not count, small enough to be sent again. */
export const PART = 16 << 20;

/** Attempts in a row of one part that came to nothing. */
const IN_VAIN = 5;

/** The first wait before a part is sent again, in milliseconds; each further one is twice as long. */
const FIRST_WAIT = 100;

/** How long the parts of an upload that was given up are tried to be removed, in milliseconds. */
const CLEANUP = 30_000;

/** What a file of this machine is streamed by, in bytes. */
const PIECE = 256 << 10;

/** Options of an upload and of a download. */
export interface FilesystemTransferOpts extends CallLimits {
  /** As whom; relative paths are relative to their home. Default: the template's user. */
  user?: string | undefined;
  /** Is told how many bytes are there, and of how many where that is known. */
  onProgress?: ((done: number, total: number | undefined) => void) | undefined;
}

/** What can be uploaded: a file of this machine by its path, where there are files; a `Blob`; a stream. */
export type UploadSource = string | URL | Blob | ReadableStream;

/** What an upload does in the sandbox. */
export interface Target {
  write(path: string, data: FileData, opts: FilesystemWriteOpts): Promise<WriteInfo>;
  exists(path: string, opts: CallLimits & { user?: string | undefined }): Promise<boolean>;
  getInfo(path: string, opts: CallLimits & { user?: string | undefined }): Promise<EntryInfo>;
  remove(path: string, opts: CallLimits & { user?: string | undefined }): Promise<void>;
}

/** Uploads to one sandbox. */
export class Uploads {
  private composes: boolean | undefined;

  constructor(
    private readonly envd: Envd,
    private readonly target: Target,
    /** Whose requests are no part of a call: what is asked beforehand, and what clears away. */
    private readonly plain?: Uploads,
  ) {}

  /** The same, by whom the requests of one call are noted. */
  by(envd: Envd, target: Target): Uploads {
    return new Uploads(envd, target, this.plain ?? this);
  }

  /** Writes a file, by parts where it is large and the sandbox can join them. */
  async upload(from: UploadSource, path: string, opts: FilesystemTransferOpts): Promise<WriteInfo> {
    if (from instanceof Blob) return this.known(new BlobFile(from), path, opts, from);
    if (from instanceof ReadableStream) return this.stream(from, path, opts);
    const file = await (await localFiles('upload: give a Blob or a stream')).open(from);
    try {
      return await this.known(file, path, opts);
    } finally {
      await file.close();
    }
  }

  /** Writes files, together, as often as it takes: a whole file that is written again is the same file. */
  async insistently<T>(write: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    for (let inVain = 1; ; inVain++) {
      try {
        return await write();
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (inVain === IN_VAIN || !mayPass(error)) throw await this.envd.afterLoss(error);
      }
      await sleep(FIRST_WAIT * 2 ** (inVain - 1) * (0.5 + Math.random() / 2), signal);
    }
  }

  /** What can be read at any place. */
  private async known(file: LocalFile, path: string, opts: FilesystemTransferOpts, all?: Blob): Promise<WriteInfo> {
    const { size } = file;
    const isLarge = size > PART && (await this.canCompose(opts));
    if (isLarge) {
      const part = async (offset: number) =>
        offset < size ? await file.read(offset, Math.min(PART, size - offset)) : undefined;
      return this.inParts(part, path, size, opts);
    }
    const whole = size > PART ? () => all ?? streamed(file) : undefined;
    const bytes = whole ? undefined : await file.read(0, size);
    const written = await this.write(path, () => bytes ?? whole?.() ?? '', opts);
    opts.onProgress?.(size, size);
    return written;
  }

  /** A stream, which can be read once: part by part it may be cut as often as a file. */
  private async stream(from: ReadableStream, path: string, opts: FilesystemTransferOpts): Promise<WriteInfo> {
    const signal = this.signal(opts);
    const pieces = new Pieces(from, signal);
    try {
      signal?.throwIfAborted();
      const first = await pieces.take(PART);
      if (first.length < PART) {
        const written = await this.write(path, () => first, opts);
        opts.onProgress?.(first.length, first.length);
        return written;
      }
      if (!(await this.canCompose(opts))) {
        const written = await this.target.write(path, pieces.after(first), writeOpts(opts));
        opts.onProgress?.(pieces.taken, pieces.taken);
        return written;
      }
      const part = async (offset: number) => {
        const bytes = offset === 0 ? first : await pieces.take(PART);
        return bytes.length > 0 ? bytes : undefined;
      };
      return await this.inParts(part, path, undefined, opts);
    } finally {
      pieces.close();
    }
  }

  private write(path: string, data: () => FileData, opts: FilesystemTransferOpts): Promise<WriteInfo> {
    return this.insistently(() => this.target.write(path, data(), writeOpts(opts)), this.signal(opts));
  }

  private async inParts(
    next: (offset: number) => Promise<Uint8Array<ArrayBuffer> | undefined>,
    path: string,
    total: number | undefined,
    opts: FilesystemTransferOpts,
  ): Promise<WriteInfo> {
    const upload = randomHex(8);
    const parts: string[] = [];
    const signal = this.signal(opts);
    try {
      let size = 0;
      for (let bytes = await next(0); bytes !== undefined; bytes = await next(size)) {
        const part = `${path}.oncebox-${upload}-${parts.length}`;
        const data = bytes;
        parts.push(part);
        await this.write(part, () => data, opts);
        size += bytes.length;
        opts.onProgress?.(size, total);
      }
      const written = await this.join(path, parts, opts);
      const { user, requestTimeoutMs } = opts;
      compare(await this.target.getInfo(path, { user, requestTimeoutMs, signal }), size);
      return written;
    } catch (error) {
      const removed = this.removeParts(parts, opts.user);
      // Whoever gives up does not wait.
      if (!signal?.aborted) await removed;
      throw error;
    }
  }

  private async join(path: string, parts: readonly string[], opts: FilesystemTransferOpts): Promise<WriteInfo> {
    const { user, requestTimeoutMs } = opts;
    const signal = this.signal(opts);
    try {
      return await this.compose(parts, path, { user, requestTimeoutMs, signal });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (!(error instanceof OnceboxError) || !isOpen(error)) throw error;
      // Nobody knows: what is there tells. When they were joined, they are gone, and the whole is there.
      const unknown = (what: string) =>
        new OutcomeUnknownError(`${error.message}, while the parts were joined; ${what}`, {
          attempts: error.attempts,
          outcome: error.outcome,
          cause: error,
        });
      const limits = { user, requestTimeoutMs, signal };
      try {
        if (await this.target.exists(parts[0] ?? path, limits)) throw unknown('they are still there');
        const { name, path: place } = await this.target.getInfo(path, limits);
        return { name, path: place };
      } catch (lost) {
        if (signal?.aborted || lost instanceof OutcomeUnknownError) throw lost;
        throw unknown(lost instanceof Error ? lost.message : String(lost));
      }
    }
  }

  private async compose(
    parts: readonly string[],
    path: string,
    { user, requestTimeoutMs, signal }: CallLimits & { user?: string | undefined },
  ): Promise<WriteInfo> {
    const action = `join the parts of ${path}`;
    const body = JSON.stringify({ source_paths: parts, destination: path, ...(user ? { username: user } : {}) });
    const headers = { 'Content-Type': 'application/json' };
    const request = { action, method: 'POST', path: '/files/compose', headers, body } as const;
    const answer = await this.envd.rest({ ...request, requestTimeoutMs, signal });
    return (
      (await parsed<WriteInfo>(action, answer, this.envd.secrets)) ?? {
        name: path.slice(path.lastIndexOf('/') + 1),
        path,
      }
    );
  }

  /** Whether the sandbox joins files. Asked once. */
  private async canCompose({ requestTimeoutMs, ...opts }: FilesystemTransferOpts): Promise<boolean> {
    if (this.plain !== undefined) return this.plain.canCompose({ requestTimeoutMs, ...opts });
    if (this.composes !== undefined) return this.composes;
    try {
      // Nothing to join: a server that has the operation refuses it, and does nothing.
      await this.compose([], '', { requestTimeoutMs, signal: this.signal(opts) });
      this.composes = true;
    } catch (error) {
      const status = error instanceof OnceboxError ? error.statusCode : undefined;
      if (status !== undefined && [404, 405, 501].includes(status)) this.composes = false;
      else if (status !== undefined && [400, 422].includes(status)) this.composes = true;
      else throw error;
    }
    return this.composes;
  }

  /** What cannot be removed does no harm, and whoever has it removed knows of what went wrong already. */
  private async removeParts(parts: readonly string[], user: string | undefined): Promise<void> {
    const signal = AbortSignal.timeout(CLEANUP);
    const { target } = this.plain ?? this;
    for (const part of parts) await target.remove(part, { user, signal }).catch(() => {});
  }

  private signal(opts: FilesystemTransferOpts): AbortSignal | undefined {
    return opts.signal ?? this.envd.config.signal;
  }
}

/** The files of this machine. */
export async function localFiles(otherwise: string): Promise<LocalFiles> {
  const files = await platform.localFiles?.();
  if (files === undefined) throw new UnsupportedError(`this runtime has no files of its own; ${otherwise}`);
  return files;
}

/** A `Blob` as if it were a file of this machine. */
class BlobFile implements LocalFile {
  constructor(private readonly blob: Blob) {}

  get size(): number {
    return this.blob.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await this.blob.slice(offset, offset + length).arrayBuffer());
  }

  async close(): Promise<void> {}
}

/** A file as a stream, piece by piece. */
function streamed(file: LocalFile): ReadableStream<Uint8Array> {
  if (!canStreamUploads()) {
    throw new UnsupportedError('upload: the sandbox cannot join parts, and this runtime cannot send a stream');
  }
  let at = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        if (at === file.size) {
          controller.close();
          return;
        }
        const piece = await file.read(at, Math.min(PIECE, file.size - at));
        at += piece.length;
        controller.enqueue(piece);
      },
    },
    { highWaterMark: 0 },
  );
}

/** An upload has no time limit but the one that was given: it takes as long as its bytes. */
function writeOpts({ user, requestTimeoutMs = 0, signal }: FilesystemTransferOpts): FilesystemWriteOpts {
  return { user, requestTimeoutMs, signal };
}

/** Whether a whole file that is written again may go better: writing one is idempotent. */
function mayPass(error: unknown): boolean {
  const passing = [OutcomeUnknownError, ConnectionLostError, NotDoneError, ServiceBusyError, SandboxUnreachableError];
  if (passing.some((each) => error instanceof each)) return true;
  // A server that failed, or kept less than was sent.
  if (!(error instanceof OnceboxError) || error.name !== 'SandboxError') return false;
  return error.statusCode === undefined || [500, 502, 504].includes(error.statusCode);
}

/** Whether it may have been done. */
function isOpen(error: OnceboxError): boolean {
  if (error instanceof NotDoneError || error instanceof InvalidArgumentError) return false;
  return error.statusCode === undefined || [408, 500, 502, 504].includes(error.statusCode);
}
