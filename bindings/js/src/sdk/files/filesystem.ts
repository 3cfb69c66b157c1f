/** Files in a sandbox. */

import { query } from '../endpoints.ts';
import type { CallLimits, Envd, Rpc } from '../envd/envd.ts';
import { Refusal, rpcError } from '../envd/refusal.ts';
import { FileNotFoundError } from '../errors.ts';
import { checkNames, namesOf } from '../known.ts';
import { hide } from '../runtime.ts';
import { type Trail, through } from '../trail.ts';
import { milliseconds, text, whole } from '../validate.ts';
import type { FileData } from './data.ts';
import { type DownloadOpts, type Get, readAs, readInto } from './download.ts';
import { type EntryInfo, entryOf, type WireEntry, type WriteInfo } from './entry.ts';
import { type DirectoryTransferOpts, downloadDir, type Transferred, uploadDir } from './tree.ts';
import { type FilesystemTransferOpts, localFiles, type UploadSource, Uploads } from './upload.ts';
import { type FilesystemEvent, type WatchHandle, type WatchOpts, watch } from './watch.ts';
import { type FilesystemWriteOpts, type WriteEntry, writeAll } from './write.ts';

/** Options of a request about files. */
export interface FilesystemRequestOpts extends CallLimits {
  /** As whom; relative paths are relative to their home. Default: the template's user. */
  user?: string | undefined;
}

/** Options of reading. */
export interface FilesystemReadOpts extends FilesystemRequestOpts {
  /** Lets it come compressed. Such a download is not resumed after a cut. Default: false. */
  gzip?: boolean | undefined;
  /** How long nothing may come, in **milliseconds**; 0: no limit. Default: 60,000. */
  streamIdleTimeoutMs?: number | undefined;
}

/** Options of listing. */
export interface FilesystemListOpts extends FilesystemRequestOpts {
  /** How many levels, from 1 on. Default: 1. */
  depth?: number | undefined;
}

const request = { user: true, requestTimeoutMs: true, signal: true } as const;
const read = { ...request, gzip: true, streamIdleTimeoutMs: true } as const;
const transfer = { ...request, onProgress: true } as const;

/** Names of options, by method; `request`: of those that have no more. */
const OF = {
  request: namesOf<Omit<FilesystemRequestOpts, 'once'>>(request),
  read: namesOf<Omit<FilesystemReadOpts, 'once'> & { format: string }>({ ...read, format: true }),
  list: namesOf<Omit<FilesystemListOpts, 'once'>>({ ...request, depth: true }),
  write: namesOf<Omit<FilesystemWriteOpts, 'once'>>({
    ...request,
    gzip: true,
    useOctetStream: true,
    metadata: true,
    verify: true,
  }),
  transfer: namesOf<Omit<FilesystemTransferOpts, 'once'>>(transfer),
  download: namesOf<Omit<FilesystemTransferOpts & FilesystemReadOpts, 'once'>>({ ...read, ...transfer }),
  directory: namesOf<Omit<DirectoryTransferOpts, 'once'>>({ ...transfer, include: true, exclude: true }),
  watch: namesOf<Omit<WatchOpts, 'once'>>({
    ...request,
    timeoutMs: true,
    onExit: true,
    recursive: true,
    includeEntry: true,
    allowNetworkMounts: true,
  }),
};

/** Reads and writes a sandbox's files: `sandbox.files`. Paths are absolute, or relative to the user's home. */
export class Filesystem {
  /** @internal */
  readonly uploads: Uploads;

  constructor(private readonly envd: Envd) {
    this.uploads = new Uploads(envd, this);
    hide(this, 'uploads');
  }

  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): Filesystem {
    const envd = this.envd.noting(trail);
    const files: Filesystem = Object.create(this, { envd: { value: envd } });
    return Object.defineProperty(files, 'uploads', { value: this.uploads.by(envd, files) });
  }

  /**
   * Reads a file. A download that is cut goes on from the byte where it was cut, where it is certain that the file is the
   * same.
   *
   * @throws FileNotFoundError; CannotResumeError of a stream that was cut and could not be gone on with.
   */
  read(path: string, opts?: FilesystemReadOpts & { format?: 'text' | undefined }): Promise<string>;
  read(path: string, opts: FilesystemReadOpts & { format: 'bytes' }): Promise<Uint8Array>;
  read(path: string, opts: FilesystemReadOpts & { format: 'blob' }): Promise<Blob>;
  read(path: string, opts: FilesystemReadOpts & { format: 'stream' }): Promise<ReadableStream<Uint8Array>>;
  async read(
    path: string,
    opts: FilesystemReadOpts & { format?: 'text' | 'bytes' | 'blob' | 'stream' | undefined } = {},
  ): Promise<string | Uint8Array | Blob | ReadableStream<Uint8Array>> {
    this.checkNames('read', opts, OF.read);
    const { get, download } = this.getter(path, opts);
    return readAs(get, opts.format ?? 'text', download);
  }

  /**
   * Writes a file, or many; directories above them are made. Each size is asked for afterwards (`verify`).
   *
   * What is written is not sent again by itself after an unknown outcome, unless `retries` was given for the sandbox.
   *
   * @throws NotEnoughSpaceError; InvalidArgumentError before anything is sent.
   */
  write(path: string, data: FileData, opts?: FilesystemWriteOpts): Promise<WriteInfo>;
  write(files: WriteEntry[], opts?: FilesystemWriteOpts): Promise<WriteInfo[]>;
  async write(
    pathOrFiles: string | WriteEntry[],
    dataOrOpts?: FileData | FilesystemWriteOpts,
    opts: FilesystemWriteOpts = {},
  ): Promise<WriteInfo | WriteInfo[]> {
    if (Array.isArray(pathOrFiles)) return this.writeFiles(pathOrFiles, dataOrOpts as FilesystemWriteOpts | undefined);
    const file = { path: pathOrFiles, data: dataOrOpts as FileData };
    this.checkNames('write', opts, OF.write);
    const [written] = await through(this, (files) => writeAll(files.envd, files, [file], opts));
    return written as WriteInfo;
  }

  /** Writes many files, up to 1,000 or 16 MiB in one request. None: nothing is sent. */
  async writeFiles(files: WriteEntry[], opts: FilesystemWriteOpts = {}): Promise<WriteInfo[]> {
    this.checkNames('writeFiles', opts, OF.write);
    return files.length === 0 ? [] : through(this, (noting) => writeAll(noting.envd, noting, files, opts));
  }

  /**
   * Writes a file of any size in bounded memory: one of this machine by its path (Node, Bun, Deno), a `Blob`, or a stream. A
   * large one goes in parts of 16 MiB, where the sandbox can join them; a part that was cut is sent again, up to five times
   * in a row, so that a cut costs no more than a part. It appears when all of it is there, and its size is checked.
   *
   * @throws as `write`; InvalidArgumentError where the file cannot be read here. Parts that are left after an error are
   * removed; those of an upload that was aborted are removed in the background.
   */
  async upload(from: UploadSource, path: string, opts: FilesystemTransferOpts = {}): Promise<WriteInfo> {
    this.checkNames('upload', opts, OF.transfer);
    text('path', path);
    return through(this, (files) => files.uploads.upload(from, path, opts));
  }

  /**
   * Reads a file into one of this machine (Node, Bun, Deno), in bounded memory. It appears when all of it has come, in place
   * of what was there.
   *
   * @returns how many bytes it has.
   * @throws as `read`; InvalidArgumentError where the file cannot be written here.
   */
  async download(
    path: string,
    to: string | URL,
    opts: FilesystemTransferOpts & FilesystemReadOpts = {},
  ): Promise<number> {
    this.checkNames('download', opts, OF.download);
    const { get, download } = this.getter(path, opts);
    const local = await localFiles('download: read it');
    const sink = await local.create(to);
    try {
      const received = await readInto(get, download, sink, (done, total) => opts.onProgress?.(done, total));
      await sink.commit();
      return received;
    } finally {
      await sink.drop();
    }
  }

  /**
   * Carries a directory of this machine (Node, Bun, Deno), with all that is below it, into the sandbox, where it takes the
   * place of files of the same names and leaves others. Small files go many in a request, large ones as by `upload`.
   *
   * @throws as `upload`; some of the files may be there.
   */
  async uploadDir(from: string | URL, to: string, opts: DirectoryTransferOpts = {}): Promise<Transferred> {
    this.checkNames('uploadDir', opts, OF.directory);
    const all = { ...opts, signal: opts.signal ?? this.envd.config.signal };
    text('to', to);
    return through(this, (files) => uploadDir(files, from, to, all));
  }

  /**
   * Carries a directory of the sandbox, with all that is below it, to this machine (Node, Bun, Deno), where it takes the place
   * of files of the same names and leaves others. Each file as by `download`, some at a time.
   *
   * @throws as `download`; some of the files may be there. SandboxError where the sandbox names an entry that would lie
   * outside the directory.
   */
  async downloadDir(from: string, to: string | URL, opts: DirectoryTransferOpts = {}): Promise<Transferred> {
    this.checkNames('downloadDir', opts, OF.directory);
    return downloadDir(this, text('from', from), to, { ...opts, signal: opts.signal ?? this.envd.config.signal });
  }

  /**
   * Lists a directory.
   *
   * @throws FileNotFoundError; InvalidArgumentError of what is no directory.
   */
  async list(path: string, opts: FilesystemListOpts = {}): Promise<EntryInfo[]> {
    this.checkNames('list', opts, OF.list);
    const depth = whole('depth', opts.depth ?? 1, 1, 2 ** 32 - 1);
    const list = await this.call<{ entries?: WireEntry[] }>(
      'list the directory',
      'ListDir',
      { path: text('path', path), depth },
      opts,
    );
    return (list.entries ?? []).map(entryOf);
  }

  /**
   * Makes a directory, and those above it.
   *
   * @returns `false` where it was there already.
   */
  async makeDir(path: string, opts: FilesystemRequestOpts = {}): Promise<boolean> {
    this.checkNames('makeDir', opts, OF.request);
    try {
      await this.tryCall('make the directory', 'MakeDir', { path: text('path', path) }, opts);
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'already_exists' && error.status === 409) {
        if (!error.message.includes('transitioning')) return false;
      }
      throw await this.told('make the directory', error);
    }
  }

  /** Moves a file or a directory; directories above the new path are made. */
  async rename(oldPath: string, newPath: string, opts: FilesystemRequestOpts = {}): Promise<EntryInfo> {
    this.checkNames('rename', opts, OF.request);
    const message = { source: text('oldPath', oldPath), destination: text('newPath', newPath) };
    const moved = await this.call<{ entry?: WireEntry }>('rename', 'Move', message, opts);
    return entryOf(moved.entry ?? {});
  }

  /** Removes a file, or a directory with all that is in it. What is not there is removed already. */
  async remove(path: string, opts: FilesystemRequestOpts = {}): Promise<void> {
    this.checkNames('remove', opts, OF.request);
    await this.call('remove', 'Remove', { path: text('path', path) }, opts);
  }

  /** Whether there is such a file or directory. */
  async exists(path: string, opts: FilesystemRequestOpts = {}): Promise<boolean> {
    this.checkNames('exists', opts, OF.request);
    try {
      await this.tryCall('look for the file', 'Stat', { path: text('path', path) }, opts);
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'not_found') return false;
      throw await this.told('look for the file', error);
    }
  }

  /**
   * Describes a file or a directory.
   *
   * @throws FileNotFoundError
   */
  async getInfo(path: string, opts: FilesystemRequestOpts = {}): Promise<EntryInfo> {
    this.checkNames('getInfo', opts, OF.request);
    const { entry } = await this.call<{ entry?: WireEntry }>(
      'describe the file',
      'Stat',
      { path: text('path', path) },
      opts,
    );
    return entryOf(entry ?? {});
  }

  /**
   * Watches a directory. A watch that is cut ends: `onExit` is told, since what changed meanwhile is not known.
   *
   * @throws FileNotFoundError; InvalidArgumentError of what is no directory.
   */
  async watchDir(
    path: string,
    onEvent: (event: FilesystemEvent) => void | Promise<void>,
    opts: WatchOpts = {},
  ): Promise<WatchHandle> {
    this.checkNames('watchDir', opts, OF.watch);
    return watch(this.envd, text('path', path), onEvent, { signal: this.envd.config.signal, ...opts });
  }

  private checkNames(method: string, opts: unknown, names: readonly string[]): void {
    checkNames(`files.${method}`, opts, names, this.envd.config.logger);
  }

  /** How a file is asked for, and how its download is kept. */
  private getter(path: string, opts: FilesystemReadOpts): { get: Get; download: DownloadOpts } {
    const action = `read the file ${text('path', path)}`;
    const { gzip = false, user, requestTimeoutMs, signal = this.envd.config.signal } = opts;
    const idleMs = milliseconds('streamIdleTimeoutMs', opts.streamIdleTimeoutMs ?? this.envd.config.readIdleTimeoutMs);
    const get: Get = (headers, within) =>
      this.envd.rest({
        action,
        method: 'GET',
        path: `/files${query({ path, username: user })}`,
        headers,
        read: 'stream',
        requestTimeoutMs,
        signal: within,
        classes: { notFound: FileNotFoundError },
      });
    return { get, download: { action, gzip, idleMs, signal, envd: this.envd } };
  }

  private async call<T>(action: string, method: string, message: unknown, opts: FilesystemRequestOpts): Promise<T> {
    try {
      return await this.tryCall<T>(action, method, message, opts);
    } catch (error) {
      throw await this.told(action, error);
    }
  }

  private tryCall<T>(action: string, method: string, message: unknown, opts: FilesystemRequestOpts): Promise<T> {
    const { user, requestTimeoutMs, signal } = opts;
    const rpc: Rpc = { action, service: 'filesystem.Filesystem', method, message, user, requestTimeoutMs, signal };
    return this.envd.tryUnary<T>(rpc);
  }

  private async told(action: string, error: unknown): Promise<unknown> {
    if (!(error instanceof Refusal)) return error;
    return this.envd.afterLoss(rpcError(action, error, { notFound: FileNotFoundError }));
  }
}
