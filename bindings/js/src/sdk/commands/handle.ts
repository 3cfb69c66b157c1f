/** A running command's output and end. */

import { turn } from '../../retry/clock.ts';
import { CommandExitError, type CommandResult, OutputLostError, SandboxError, UnsupportedError } from '../errors.ts';
import type { Offsets } from './durable/following.ts';
import type { CommandEvent } from './events.ts';
import { type Feed, Feeds } from './feeds.ts';

/** Text of a command's standard output. */
export type Stdout = string;
/** Text of a command's standard error. */
export type Stderr = string;
/** What a terminal shows. */
export type PtyOutput = Uint8Array;

/** Options of one request about a command. */
export interface CommandRequestOpts {
  /** How long the request may take, in **milliseconds**; 0: no limit. Default: the sandbox's, 60,000. */
  requestTimeoutMs?: number | undefined;
  /** Aborts it; its reason is thrown. */
  signal?: AbortSignal | undefined;
}

/** What a handle does with what it is told. */
export interface Sinks {
  readonly onStdout?: ((data: string) => void | Promise<void>) | undefined;
  readonly onStderr?: ((data: string) => void | Promise<void>) | undefined;
  readonly onPty?: ((data: Uint8Array) => void | Promise<void>) | undefined;
  readonly onGap?: ((reason: string) => void | Promise<void>) | undefined;
  /** Whether output is kept for `wait` and for iterators that begin later. */
  readonly retainOutput: boolean;
  /** In bytes. */
  readonly maxOutputBytes: number;
}

/** What can be asked of the sandbox about its processes. */
export interface Controls {
  kill(pid: number): Promise<boolean>;
  sendStdin(pid: number, data: string | Uint8Array, opts?: CommandRequestOpts): Promise<void>;
  closeStdin(pid: number, opts?: CommandRequestOpts): Promise<void>;
}

/** Whom a handle follows. */
export interface Source {
  /** 0 where it cannot be told. */
  readonly pid: number;
  /** Of durable commands. */
  readonly id?: string;
  /** In words. */
  readonly name: string;
  readonly events: AsyncGenerator<CommandEvent, void>;
  /** How much of a durable command's outputs was told. */
  offsets?(): Offsets;
  kill(): Promise<boolean>;
  sendStdin(data: string | Uint8Array, opts?: CommandRequestOpts): Promise<void>;
  closeStdin(opts?: CommandRequestOpts): Promise<void>;
}

/**
 * A command that runs, or ran. It is followed from the start on, whether or not anybody waits: callbacks are called in
 * order, one at a time, and an asynchronous one is waited for before more is read.
 *
 * `for await (const event of handle)` gives its events; `handle.stream('stdout')` its bytes as a web stream. Leaving the
 * loop stops neither the command nor `wait`.
 */
export class CommandHandle {
  private readonly feeds: Feeds;
  private readonly decoders = { stdout: decoder(), stderr: decoder() };
  private readonly texts = { stdout: '', stderr: '' };
  private readonly control: AbortController;
  private readonly done: Promise<void>;
  private bytes = 0;
  private lastGap: string | undefined;
  /** Whether a callback or a reader is waited for, either of which may be who disconnects. */
  private telling = false;
  private result: { exitCode: number; error?: string | undefined } | undefined;

  /** Made by `commands.run`, `commands.connect`, `commands.attach` and `pty.create`. */
  constructor(
    private readonly source: Source,
    control: AbortController,
    private readonly sinks: Sinks,
  ) {
    this.control = control;
    this.feeds = new Feeds(sinks.retainOutput);
    this.done = this.run(source.events);
    // Told to whoever waits; nobody has to.
    this.done.catch(() => {});
  }

  /** The process's number in the sandbox. A durable command has none that can be told: 0. */
  get pid(): number {
    return this.source.pid;
  }

  /** A durable command's id, by which any client attaches to it: `commands.attach(id)`. */
  get id(): string | undefined {
    return this.source.id;
  }

  /**
   * How many bytes of a durable command's outputs were told to this handle. Who keeps these can go on from there, also elsewhere.
   *
   * An iterator may lag behind: up to a MiB waits for it. Who goes on after what it gave keeps the `offset` of its last event.
   */
  get offsets(): Offsets | undefined {
    return this.source.offsets?.();
  }

  /** The exit code; `undefined` while it runs, and where nobody knows. */
  get exitCode(): number | undefined {
    return this.result?.exitCode;
  }

  /** The daemon's words about how it ended, where it has any. */
  get error(): string | undefined {
    return this.result?.error;
  }

  /** What it wrote to its standard output until now; of a terminal, all output. */
  get stdout(): string {
    return this.texts.stdout;
  }

  /** What it wrote to its standard error until now. */
  get stderr(): string {
    return this.texts.stderr;
  }

  /** How often the stream was cut and attached to again. */
  gaps = 0;

  /**
   * Waits until the command ends.
   *
   * @throws CommandExitError at an exit code other than 0; OutputLostError where a cut may have swallowed output;
   * CommandLostError where nobody knows how it ended; TimeoutError after `timeoutMs`; what a callback threw.
   */
  async wait(): Promise<CommandResult> {
    await this.done;
    if (this.result === undefined) throw new SandboxError(`${this.source.name} was disconnected from`);
    const result: CommandResult = { ...this.result, stdout: this.stdout, stderr: this.stderr };
    if (this.lastGap !== undefined && this.sinks.retainOutput) {
      throw new OutputLostError(
        `${this.lastGap}; ${this.source.name} ended with exit code ${result.exitCode}, but what it wrote in between is ` +
          `lost (${this.gaps} gaps)`,
        result,
      );
    }
    if (result.exitCode !== 0) throw new CommandExitError(result);
    return result;
  }

  /** Stops following, also from within a callback. The command goes on; `commands.connect(pid)` follows it again. */
  async disconnect(): Promise<void> {
    this.control.abort(new SandboxError(`${this.source.name} was disconnected from`));
    if (!this.telling) await this.done.catch(() => {});
  }

  /**
   * Kills the command by SIGKILL; a durable one with all that it started.
   *
   * @returns `false` where there was no such process any more.
   */
  kill(): Promise<boolean> {
    return this.source.kill();
  }

  /** Writes to its standard input, or to its terminal. Needs `stdin: true` where it was started. */
  sendStdin(data: string | Uint8Array, opts?: CommandRequestOpts): Promise<void> {
    return this.source.sendStdin(data, opts);
  }

  /** Ends its standard input. */
  closeStdin(opts?: CommandRequestOpts): Promise<void> {
    return this.source.closeStdin(opts);
  }

  /**
   * Events from the beginning on, to the exit. What ends the following is thrown. Without `retainOutput` from now on: from the
   * beginning where it is begun as soon as the handle is there, before anything else is waited for.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<CommandEvent> {
    return this.feeds.open();
  }

  /** The bytes of one output as a web stream, from the beginning on; without `retainOutput` as of iterating. */
  stream(output: 'stdout' | 'stderr' | 'pty' = 'stdout'): ReadableStream<Uint8Array> {
    let feed: Feed | undefined;
    return new ReadableStream<Uint8Array>(
      {
        start: () => {
          feed = this.feeds.open();
        },
        pull: async (controller) => {
          for (;;) {
            const next = await feed?.next();
            if (next === undefined || next.done) {
              controller.close();
              return;
            }
            if (next.value.type === output) {
              controller.enqueue(next.value.data);
              return;
            }
          }
        },
        cancel: () => void feed?.return(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Stops following, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.disconnect();
  }

  private async run(events: AsyncGenerator<CommandEvent, void>): Promise<void> {
    try {
      // Nothing is kept for readers that come later: who gets the handle has a turn to open one.
      if (!this.sinks.retainOutput) await turn();
      for await (const event of events) {
        this.telling = true;
        await this.take(event);
        await this.feeds.push(event);
        this.telling = false;
      }
      this.feeds.end();
    } catch (error) {
      this.telling = true;
      await this.flush().catch(() => {});
      this.feeds.end(error);
      throw error;
    } finally {
      // The caller's signal is let go of.
      this.control.abort();
    }
  }

  private async take(event: CommandEvent): Promise<void> {
    switch (event.type) {
      case 'stdout':
      case 'stderr':
        this.count(event.data);
        await this.text(event.type, this.decoders[event.type].decode(event.data, { stream: true }));
        return;
      case 'pty':
        this.count(event.data);
        if (this.sinks.retainOutput) this.texts.stdout += this.decoders.stdout.decode(event.data, { stream: true });
        await this.sinks.onPty?.(event.data);
        return;
      case 'gap':
        // A character that was cut is not completed by what comes after the hole.
        await this.flush();
        this.gaps += 1;
        this.lastGap = event.reason;
        await this.sinks.onGap?.(event.reason);
        return;
      case 'exit':
        await this.flush();
        this.result = { exitCode: event.exitCode, error: event.error };
    }
  }

  private count(data: Uint8Array): void {
    if (!this.sinks.retainOutput) return;
    this.bytes += data.length;
    if (this.bytes <= this.sinks.maxOutputBytes) return;
    throw new UnsupportedError(
      `the output of ${this.source.name} is longer than ${this.sinks.maxOutputBytes} bytes (maxOutputBytes; ` +
        'retainOutput: false keeps none of it); it goes on running',
    );
  }

  private async text(output: 'stdout' | 'stderr', text: string): Promise<void> {
    if (text === '') return;
    if (this.sinks.retainOutput) this.texts[output] += text;
    await (output === 'stdout' ? this.sinks.onStdout : this.sinks.onStderr)?.(text);
  }

  private async flush(): Promise<void> {
    for (const output of ['stdout', 'stderr'] as const) {
      const rest = this.decoders[output].decode();
      await this.text(output, rest);
    }
  }
}

/** Whatever a program writes: what is no UTF-8 is replaced, and a byte order mark is output like any other. */
function decoder(): TextDecoder {
  return new TextDecoder('utf-8', { ignoreBOM: true });
}
