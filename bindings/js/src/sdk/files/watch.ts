/** Changes below a directory, as they come. */

import type { CallLimits, Envd } from '../envd/envd.ts';
import { Refusal, rpcError } from '../envd/refusal.ts';
import { Closed, Cut, type MessageStream } from '../envd/stream.ts';
import { ConnectionLostError, FileNotFoundError, SandboxError, TemplateError, TimeoutError } from '../errors.ts';
import { milliseconds } from '../validate.ts';
import { type EntryInfo, entryOf, type WireEntry } from './entry.ts';

const ACTION = 'watch the directory';

/** What happened to a file. */
export enum FilesystemEventType {
  /** Its permissions changed. */
  CHMOD = 'chmod',
  /** It was made. */
  CREATE = 'create',
  /** It was removed. */
  REMOVE = 'remove',
  /** It was renamed. */
  RENAME = 'rename',
  /** It was written to. */
  WRITE = 'write',
}

/** One change. */
export interface FilesystemEvent {
  /** Relative to the directory. */
  name: string;
  /** What happened. */
  type: FilesystemEventType;
  /** The entry after the change, where that was asked for and it is there. */
  entry?: EntryInfo | undefined;
}

/** Options of watching. */
export interface WatchOpts extends CallLimits {
  /** As whom. */
  user?: string | undefined;
  /** How long it is watched, in **milliseconds**; 0: until it is stopped. Default: 60,000. */
  timeoutMs?: number | undefined;
  /** Is told that the watching ended: without an error after `stop`. */
  onExit?: ((err?: Error) => void | Promise<void>) | undefined;
  /** What is below its directories, too. Default: false. */
  recursive?: boolean | undefined;
  /** Gives the entry with each change. Default: false. */
  includeEntry?: boolean | undefined;
  /** Allows directories of network file systems, where changes by others are not told. Default: false. */
  allowNetworkMounts?: boolean | undefined;
}

const TYPES: Record<string, FilesystemEventType> = {
  EVENT_TYPE_CREATE: FilesystemEventType.CREATE,
  EVENT_TYPE_WRITE: FilesystemEventType.WRITE,
  EVENT_TYPE_REMOVE: FilesystemEventType.REMOVE,
  EVENT_TYPE_RENAME: FilesystemEventType.RENAME,
  EVENT_TYPE_CHMOD: FilesystemEventType.CHMOD,
};

/** A directory that is watched. */
export class WatchHandle {
  /** Settles when the watching ended, and `onExit` was told. */
  private readonly done: Promise<void>;
  private stopped = false;
  /** Whether a callback runs, which may be who stops it. */
  private telling = false;

  /** Made by `files.watchDir`. */
  constructor(
    private readonly envd: Envd,
    private readonly stream: MessageStream,
    private readonly onEvent: (event: FilesystemEvent) => void | Promise<void>,
    private readonly opts: WatchOpts,
  ) {
    this.done = this.run();
    this.done.catch(() => {});
  }

  /** Stops watching, also from within a callback. No event is told once it returned, but for the one that is being told. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.stream.close();
    if (!this.telling) await this.done.catch(() => {});
  }

  /** Stops watching, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async run(): Promise<void> {
    let error: unknown;
    try {
      for (;;) {
        const message = await this.stream.next();
        const event = message.filesystem as { name?: string; type?: string; entry?: WireEntry } | undefined;
        const type = TYPES[event?.type ?? ''];
        if (event === undefined || type === undefined || this.stopped) continue;
        const entry = event.entry ? { entry: entryOf(event.entry) } : {};
        this.telling = true;
        await this.onEvent({ name: event.name ?? '', type, ...entry });
        this.telling = false;
      }
    } catch (caught) {
      if (!this.stopped) error = await this.told(caught);
    } finally {
      this.stream.close();
    }
    this.telling = true;
    if (error === undefined) await this.opts.onExit?.();
    else await this.opts.onExit?.(error as Error);
  }

  private async told(caught: unknown): Promise<unknown> {
    if (this.opts.signal?.aborted) return this.opts.signal.reason;
    if (caught instanceof Refusal) {
      if (caught.code === 'deadline_exceeded') {
        return new TimeoutError('the directory was watched for as long as timeoutMs said (0 is no limit)');
      }
      return this.envd.afterLoss(rpcError(ACTION, caught, { notFound: FileNotFoundError }));
    }
    if (caught instanceof Cut || caught instanceof Closed) {
      const message = `could not ${ACTION}: ${caught.message}; changes since then are not known`;
      return this.envd.afterLoss(new ConnectionLostError(message));
    }
    return caught;
  }
}

/** Begins to watch; it is being watched once this returned. */
export async function watch(
  envd: Envd,
  path: string,
  onEvent: (event: FilesystemEvent) => void | Promise<void>,
  opts: WatchOpts,
): Promise<WatchHandle> {
  const { recursive = false, includeEntry = false, allowNetworkMounts = false, user, requestTimeoutMs, signal } = opts;
  for (const [wanted, since, what] of [
    [recursive, '0.1.4', 'to watch what is below a directory (recursive)'],
    [includeEntry, '0.6.3', 'to describe what changed (includeEntry)'],
    [allowNetworkMounts, '0.6.4', 'to be asked for network mounts (allowNetworkMounts)'],
  ] as const) {
    if (wanted && !envd.atLeast(since))
      throw new TemplateError(`the sandbox's daemon is too old ${what}: ${since} is needed`);
  }
  const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? 60_000);
  const message = {
    path,
    ...(recursive ? { recursive } : {}),
    ...(includeEntry ? { includeEntry } : {}),
    ...(allowNetworkMounts ? { allowNetworkMounts } : {}),
  };
  const rpc = { action: ACTION, service: 'filesystem.Filesystem', method: 'WatchDir', message } as const;
  let stream: MessageStream | undefined;
  try {
    stream = await envd.stream({ ...rpc, user, requestTimeoutMs, signal }, timeoutMs);
    // The first message says that it is being watched.
    for (;;) {
      const first = await stream.next();
      if (first.start) return new WatchHandle(envd, stream, onEvent, opts);
      if (!first.keepalive) throw new SandboxError(`could not ${ACTION}: the stream did not begin with a start`);
    }
  } catch (error) {
    stream?.close();
    if (signal?.aborted) throw signal.reason;
    if (error instanceof Refusal) throw await envd.afterLoss(rpcError(ACTION, error, { notFound: FileNotFoundError }));
    if (error instanceof Cut)
      throw await envd.afterLoss(new ConnectionLostError(`could not ${ACTION}: ${error.message}`));
    throw error;
  }
}
