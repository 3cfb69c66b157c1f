/** Calls of the wrapper: one start of a small program each. Each may be repeated, since what it does it does once. */

import { WRAPPER_LINES } from '../../../generated/durable-wrapper.ts';
import { fromBase64 } from '../../envd/base64.ts';
import type { Envd } from '../../envd/envd.ts';
import { Refusal, rpcError } from '../../envd/refusal.ts';
import { Closed, Cut, type Watchdog } from '../../envd/stream.ts';
import {
  AuthenticationError,
  CommandLostError,
  ConnectionLostError,
  InvalidArgumentError,
  NotFoundError,
  OnceboxError,
  SandboxError,
  SandboxNotRunningError,
  SupersededError,
  UnsupportedError,
} from '../../errors.ts';
import { maskedAll } from '../../repeated.ts';
import { randomHex, sleep } from '../../runtime.ts';
import type { Trail } from '../../trail.ts';
import { Attached } from '../attached.ts';
import { waitBefore } from '../follow.ts';
import { closeInput, sendInput } from '../input.ts';
import { Limited } from '../limited.ts';
import { Frames, Malformed, type Said } from './frames.ts';

/** The wrapper, which `$1` holds and `eval` runs: so it can start itself again. */
const WRAPPER = `${WRAPPER_LINES.join('\n')}\n`;

/**
 * When the sandbox kills a call that changes something, in milliseconds: it needs far less, and should not wait for ever for
 * input that never comes.
 */
const CALL_TIMEOUT = 60_000;

/** How long a start may take where there is no `requestTimeoutMs`. */
const LONGEST_START = 60_000;

/** What does not pass by waiting. */
const FINAL = [
  SandboxNotRunningError,
  AuthenticationError,
  InvalidArgumentError,
  NotFoundError,
  UnsupportedError,
  SupersededError,
];

/** A start of the wrapper. */
export interface WrapperCall {
  readonly mode: 'run' | 'tail' | 'feed' | 'fed' | 'kill' | 'forget';
  readonly args: readonly string[];
  /** The directory and the variables of a call that starts the command. */
  readonly surroundings?: { readonly envs: Record<string, string>; readonly cwd?: string | undefined } | undefined;
  readonly input?: Uint8Array<ArrayBuffer> | undefined;
}

/** Which spool, and how it is reached. */
export interface SpoolOptions {
  readonly envd: Envd;
  readonly id: string;
  readonly user?: string | undefined;
  /** The shell that runs the wrapper, and its arguments. */
  readonly shell: readonly string[];
  readonly watchdog: Watchdog;
  /** Calls in a row of which nothing came. */
  readonly reattachments: number;
  /** In milliseconds; 0: none. */
  readonly requestTimeoutMs: number;
  /** Of the command's variables: what no error may tell. */
  readonly secrets?: readonly string[] | undefined;
}

/** The spool of one command. */
export class Spool {
  constructor(readonly options: SpoolOptions) {}

  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): Spool {
    return new Spool({ ...this.options, envd: this.options.envd.noting(trail) });
  }

  /** The command's id. */
  get id(): string {
    return this.options.id;
  }

  /** Starts a call, and returns once it runs. `remoteTimeoutMs`: when the sandbox kills it; 0: never. */
  async start(action: string, call: WrapperCall, signal: AbortSignal, remoteTimeoutMs = 0): Promise<Attached> {
    const { envd, id, user, shell, watchdog, requestTimeoutMs, secrets } = this.options;
    const [cmd = 'sh', ...first] = shell;
    const args = [...first, '-c', 'eval "$1"', 'oncebox', WRAPPER, shell.join(' '), call.mode, id, ...call.args];
    const { envs = {}, cwd } = call.surroundings ?? {};
    const limit = requestTimeoutMs || LONGEST_START;
    const limited = new Limited(signal, limit);
    const rpc = {
      action,
      service: 'process.Process',
      method: 'Start',
      message: {
        process: { cmd, args, envs, ...(cwd === undefined ? {} : { cwd }) },
        tag: `oncebox-durable-${id}`,
        stdin: call.input !== undefined,
      },
      user,
      requestTimeoutMs: limit,
      watchdog,
      secrets,
      signal: limited.signal,
    } as const;
    try {
      return await Attached.open(envd, rpc, remoteTimeoutMs, () => limited.close());
    } catch (error) {
      limited.close();
      if (limited.isLate) {
        throw new ConnectionLostError(
          `could not ${action}: the wrapper did not start within ${limit} ms (requestTimeoutMs)`,
        );
      }
      throw error;
    } finally {
      limited.done();
    }
  }

  /** Signals the command's group. `false`: it had ended. */
  async kill(signal: AbortSignal, number = 9): Promise<boolean> {
    const action = `kill the durable command ${this.id}`;
    const said = await this.change(action, { mode: 'kill', args: [String(number)] }, signal);
    if (said.type === 'done') return true;
    if (said.type === 'refused' && said.why === 'ended') return false;
    throw this.refused(action, said);
  }

  /** Removes the spool of a command that has ended. `false`: there is none. */
  async forget(signal: AbortSignal): Promise<boolean> {
    const action = `forget the durable command ${this.id}`;
    const said = await this.change(action, { mode: 'forget', args: [] }, signal);
    if (said.type === 'done') return true;
    if (said.type === 'refused' && said.why === 'none') return false;
    throw this.refused(action, said);
  }

  /**
   * Adds input at an offset; returns when little enough of it waits for the command to read.
   *
   * @param accepted called when it is there, whatever becomes of the wait
   */
  async feed(
    offset: number,
    input: Uint8Array<ArrayBuffer>,
    last: boolean,
    signal: AbortSignal,
    accepted: () => void,
  ): Promise<void> {
    const action = `write to the durable command ${this.id}`;
    const args = [String(offset), String(input.length), randomHex(8), last ? '1' : '0'];
    let said = await this.change(action, { mode: 'feed', args, input }, signal);
    if (said.type === 'done' || said.type === 'waits') accepted();
    const end = String(offset + input.length);
    while (said.type === 'waits') said = await this.change(action, { mode: 'fed', args: [end] }, signal);
    if (said.type !== 'done') throw this.refused(action, said);
  }

  /** What it means that the wrapper refused something. */
  refused(action: string, said: Said): OnceboxError {
    if (said.type !== 'refused') return new SandboxError(`could not ${action}: the wrapper said ${said.type}`);
    const { id } = this;
    switch (said.why) {
      case 'none':
        return new NotFoundError(`could not ${action}: the sandbox has no durable command ${id} of this user`);
      case 'forgotten':
        return new NotFoundError(`could not ${action}: it was forgotten`);
      case 'ended':
        return new NotFoundError(`could not ${action}: it has ended`);
      case 'running':
        return new SandboxError(`could not ${action}: it still runs; kill it first`);
      case 'noinput':
        return new InvalidArgumentError(`could not ${action}: it was started without a standard input (stdin)`);
      case 'conflict':
        return new SandboxError(
          `could not ${action}: another client, or a call of this one that was given up, has added to its input meanwhile; attach to it again`,
        );
      case 'unstarted':
        return new CommandLostError(
          `could not ${action}: who was to start it is gone, and nobody knows whether it ran`,
        );
      case 'nospool':
        return new UnsupportedError(
          `could not ${action}: no folder for spools can be made under /tmp, or ONCEBOX_SPOOL`,
        );
      default:
        return new SandboxError(`could not ${action}: the wrapper refused it: ${said.why}`);
    }
  }

  /** Makes a call that changes something, and gives what it said last. It is repeated while the connection is lost. */
  private async change(action: string, call: WrapperCall, signal: AbortSignal): Promise<Said> {
    const { envd, reattachments } = this.options;
    for (let inVain = 1; ; inVain++) {
      try {
        return await this.once(action, call, signal);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        const why = cutBy(action, error);
        // The process of a call with input may have been killed before its input was closed.
        const passes = isPassing(why) || (call.input !== undefined && why instanceof NotFoundError);
        if (!passes || inVain > reattachments) throw await envd.afterLoss(why);
      }
      await sleep(waitBefore(inVain), signal);
    }
  }

  private async once(action: string, call: WrapperCall, signal: AbortSignal): Promise<Said> {
    const { envd } = this.options;
    const attached = await this.start(action, call, signal, CALL_TIMEOUT);
    try {
      if (call.input) {
        await sendInput(envd, attached.pid, 'stdin', call.input, { signal });
        await closeInput(envd, attached.pid, { signal });
      }
      const frames = new Frames();
      const words = new Words(this.options.secrets);
      let last: Said | undefined;
      for (;;) {
        const { data, end } = await attached.next();
        if (data?.stdout !== undefined) for (const said of frames.push(fromBase64(data.stdout))) last = said;
        if (data?.stderr !== undefined) words.add(data.stderr);
        if (end === undefined) continue;
        if (last !== undefined) return last;
        throw words.failed(action, end.status ?? '');
      }
    } finally {
      attached.close();
    }
  }
}

/** The most that is kept of a wrapper's complaints, far more than is shown: of a secret that was cut nobody knows it. */
const MAX_KEPT = 64 << 10;

/** What a wrapper complains of. */
export class Words {
  private text = '';
  private readonly decoder = new TextDecoder();

  constructor(
    /** What must not be told of it. */
    private readonly secrets: readonly string[] = [],
  ) {}

  /** Adds a piece of its standard error, in base64. */
  add(base64: string): void {
    if (this.text.length < MAX_KEPT) this.text += this.decoder.decode(fromBase64(base64), { stream: true });
  }

  /** What it means that it ended without a word. */
  failed(action: string, status: string): ConnectionLostError {
    const [ended, written] = [status, this.text].map((each) => maskedAll(each, this.secrets));
    const words = JSON.stringify(written?.slice(0, 200));
    return new ConnectionLostError(`could not ${action}: the wrapper ended early (${ended}); it wrote ${words}`);
  }
}

/** Whether a call failed in a way that passes, so that it is worth another. */
export function isPassing(error: unknown): boolean {
  return error instanceof OnceboxError && !FINAL.some((each) => error instanceof each);
}

/** What a call failed by, in the SDK's words. */
export function cutBy(action: string, error: unknown): unknown {
  if (error instanceof Cut || error instanceof Closed) {
    return new ConnectionLostError(`could not ${action}: ${error.message || 'the stream was closed'}`);
  }
  if (error instanceof Malformed) return new UnsupportedError(`could not ${action}: ${error.message}`);
  if (error instanceof Refusal) return rpcError(action, error);
  return error;
}
