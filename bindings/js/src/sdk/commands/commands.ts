/** Commands in a sandbox. */

import { toBase64 } from '../envd/base64.ts';
import type { Envd } from '../envd/envd.ts';
import { Refusal, rpcError } from '../envd/refusal.ts';
import { Closed, Cut, type Watchdog, watchdogOf } from '../envd/stream.ts';
import { type CommandResult, ConnectionLostError, InvalidArgumentError, TemplateError } from '../errors.ts';
import { milliseconds, text, variables, whole } from '../validate.ts';
import { attach } from './attached.ts';
import { dispatch, listRaw, type Start } from './dispatch.ts';
import type { Known } from './events.ts';
import { REATTACHMENTS } from './follow.ts';
import { CommandHandle, type CommandRequestOpts, type Controls, type Sinks } from './handle.ts';

/** How long a command may run, in milliseconds, unless it is said. */
export const COMMAND_TIMEOUT = 60_000;

/** The most output that is kept, in bytes, unless it is said. */
const MAX_OUTPUT = 64 << 20;

/** How a command's stream is followed. */
export interface FollowOpts extends CommandRequestOpts, Watchdog {
  /** Gets the text of its standard output as it comes. Characters are never cut. */
  onStdout?: ((data: string) => void | Promise<void>) | undefined;
  /** Gets the text of its standard error as it comes. */
  onStderr?: ((data: string) => void | Promise<void>) | undefined;
  /** Is told that the stream was cut and attached to again, and why; what was written in between is lost. */
  onGap?: ((reason: string) => void | Promise<void>) | undefined;
  /** Whether output is kept; without it `wait` gives empty texts, and a gap is no error. Default: true. */
  retainOutput?: boolean | undefined;
  /** The most output that is kept, in bytes; more is an error. Default: 64 MiB. */
  maxOutputBytes?: number | undefined;
  /** Reattachments in a row without output. Default: 5; 0: a cut is the end. */
  reattachments?: number | undefined;
}

/** Options of a command. */
export interface CommandStartOpts extends FollowOpts {
  /** Whether `run` returns once it runs, with a handle. Default: false. */
  background?: boolean | undefined;
  /** Where it runs. Default: the user's home. */
  cwd?: string | undefined;
  /** As whom. Default: the template's user. */
  user?: string | undefined;
  /** Variables beside those of the sandbox. */
  envs?: Record<string, string> | undefined;
  /** Whether it gets a standard input that can be written to. Default: false: it is at its end. */
  stdin?: boolean | undefined;
  /** When the sandbox kills it, in **milliseconds** after its start; 0: never. Default: 60,000, also in the background. */
  timeoutMs?: number | undefined;
}

/** Options of `connect`. */
export interface CommandConnectOpts extends FollowOpts {
  /** How long it is watched, in **milliseconds**; 0: until it ends. It goes on running. Default: 60,000. */
  timeoutMs?: number | undefined;
}

/** A process in a sandbox. */
export interface ProcessInfo {
  /** Its number in the sandbox. */
  pid: number;
  /** What it was marked by. Those that this SDK started begin with `oncebox-`. */
  tag?: string | undefined;
  /** The program. */
  cmd: string;
  /** The program's arguments. */
  args: string[];
  /** The variables that its start gave it. */
  envs: Record<string, string>;
  /** Where it was started, where that was said. */
  cwd?: string | undefined;
}

/** Runs commands in a sandbox: `sandbox.commands`. */
export class Commands {
  constructor(private readonly envd: Envd) {}

  /** @internal Where its commands run. */
  static envdOf(commands: Commands): Envd {
    return commands.envd;
  }

  /** Whether the sandbox's daemon can end a command's standard input (from version 0.5.2 on). */
  get supportsStdinClose(): boolean {
    return this.envd.atLeast('0.5.2');
  }

  /** The processes that were started by requests and still run. */
  async list(opts: CommandRequestOpts = {}): Promise<ProcessInfo[]> {
    const processes = await listRaw(this.envd, opts);
    return processes.map(({ pid = 0, tag, config = {} }) => ({
      pid,
      ...(tag ? { tag } : {}),
      cmd: config.cmd ?? '',
      args: config.args ?? [],
      envs: config.envs ?? {},
      ...(config.cwd ? { cwd: config.cwd } : {}),
    }));
  }

  /**
   * Writes to a command's standard input.
   *
   * A write whose answer is lost is not made again: the error says that nobody knows whether it arrived.
   */
  async sendStdin(pid: number, data: string | Uint8Array, opts: CommandRequestOpts = {}): Promise<void> {
    await sendInput(this.envd, pid, 'stdin', data, opts);
  }

  /** Ends a command's standard input. */
  async closeStdin(pid: number, opts: CommandRequestOpts = {}): Promise<void> {
    if (!this.supportsStdinClose) {
      throw new TemplateError("closeStdin: the sandbox's daemon is older than 0.5.2; build its template anew");
    }
    await this.envd.unary({
      action: `end the input of process ${pid}`,
      service: 'process.Process',
      method: 'CloseStdin',
      message: { process: { pid: checkPid(pid) } },
      ...opts,
    });
  }

  /**
   * Kills a command by SIGKILL.
   *
   * @returns `false` where there is no such process.
   */
  kill(pid: number, opts: CommandRequestOpts = {}): Promise<boolean> {
    return killProcess(this.envd, pid, opts);
  }

  /**
   * Follows a command that runs, from now on: what it wrote before is not told.
   *
   * @throws NotFoundError where there is no such process.
   */
  async connect(pid: number, opts: CommandConnectOpts = {}): Promise<CommandHandle> {
    return connectTo(this.envd, this, checkPid(pid), opts);
  }

  /**
   * Runs a command line by `bash -l`.
   *
   * It is started at most once: where the answer to the start is lost, its process is looked for and attached to. A stream
   * that is cut is attached to again. Neither a lost connection nor `signal` kills it; `timeoutMs` does.
   *
   * @returns how it ended; with `background: true` a handle, as soon as it runs.
   * @throws CommandExitError, OutputLostError, CommandLostError, TimeoutError: see {@link CommandHandle.wait};
   * OutcomeUnknownError where nobody knows whether it was started; InvalidArgumentError where it cannot be.
   */
  run(cmd: string, opts?: CommandStartOpts & { background?: false | undefined }): Promise<CommandResult>;
  run(cmd: string, opts: CommandStartOpts & { background: true }): Promise<CommandHandle>;
  run(
    cmd: string,
    opts?: CommandStartOpts & { background?: boolean | undefined },
  ): Promise<CommandHandle | CommandResult>;
  async run(cmd: string, opts: CommandStartOpts = {}): Promise<CommandHandle | CommandResult> {
    const process = { cmd: '/bin/bash', args: ['-l', '-c', text('cmd', cmd)] };
    const handle = await startProcess(this.envd, this, { ...opts, ...process, stdin: opts.stdin ?? false });
    return opts.background ? handle : handle.wait();
  }
}

/** Starts a program of the sandbox without a shell. For what is built on commands. */
export function startProgram(commands: Commands, opts: ProgramOpts): Promise<CommandHandle> {
  return startProcess(Commands.envdOf(commands), commands, opts);
}

/** A program, and how it is started. */
export interface ProgramOpts extends Omit<CommandStartOpts, 'background'> {
  readonly cmd: string;
  readonly args: string[];
  readonly stdin: boolean;
  readonly pty?: { cols: number; rows: number };
  readonly onPty?: ((data: Uint8Array) => void | Promise<void>) | undefined;
}

/** Starts a program and follows it. */
export async function startProcess(envd: Envd, controls: Controls, opts: ProgramOpts): Promise<CommandHandle> {
  const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? COMMAND_TIMEOUT);
  const sinks = sinksOf(opts);
  const reattachments = whole('reattachments', opts.reattachments ?? REATTACHMENTS, 0);
  const process: Start['process'] = { cmd: opts.cmd, args: opts.args, envs: variables('envs', opts.envs ?? {}) };
  if (opts.cwd !== undefined) process.cwd = text('cwd', opts.cwd);
  const user = opts.user === undefined ? undefined : checkUser(opts.user);
  const limit = milliseconds('requestTimeoutMs', opts.requestTimeoutMs ?? envd.config.requestTimeoutMs);
  const watchdog = watchdogIn(opts);
  const control = controlled(opts.signal ?? envd.config.signal);
  const startedAt = performance.now();
  const { attached, marker, gap } = await dispatch(envd, {
    process,
    ...(opts.pty ? { pty: { size: opts.pty } } : {}),
    stdin: opts.stdin,
    user,
    timeoutMs,
    requestTimeoutMs: limit,
    watchdog,
    signal: control.signal,
  });
  const known = { envd, pid: attached.pid, marker, timeoutMs, watching: false, startedAt, reattachments, watchdog };
  return new CommandHandle(known, attached, control, sinks, controls, gap);
}

/** Follows a process that runs. */
export async function connectTo(
  envd: Envd,
  controls: Controls,
  pid: number,
  opts: CommandConnectOpts & { onPty?: ((data: Uint8Array) => void | Promise<void>) | undefined },
): Promise<CommandHandle> {
  const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? COMMAND_TIMEOUT);
  const sinks = sinksOf(opts);
  const reattachments = whole('reattachments', opts.reattachments ?? REATTACHMENTS, 0);
  const watchdog = watchdogIn(opts);
  const control = controlled(opts.signal ?? envd.config.signal);
  const action = `connect to process ${pid}`;
  const startedAt = performance.now();
  const { requestTimeoutMs } = opts;
  try {
    const attached = await attach(envd, pid, { action, timeoutMs, signal: control.signal, requestTimeoutMs, watchdog });
    const known: Omit<Known, 'signal'> = { envd, pid, timeoutMs, watching: true, startedAt, reattachments, watchdog };
    return new CommandHandle(known, attached, control, sinks, controls);
  } catch (error) {
    if (control.signal.aborted) throw control.signal.reason;
    if (error instanceof Refusal) throw await envd.afterLoss(rpcError(action, error));
    if (error instanceof Cut || error instanceof Closed) {
      throw await envd.afterLoss(new ConnectionLostError(`could not ${action}: ${error.message}`));
    }
    throw error;
  }
}

/** Kills a process. */
export async function killProcess(envd: Envd, pid: number, opts: CommandRequestOpts): Promise<boolean> {
  const action = `kill process ${pid}`;
  const message = { process: { pid: checkPid(pid) }, signal: 'SIGNAL_SIGKILL' };
  try {
    await envd.tryUnary({ action, service: 'process.Process', method: 'SendSignal', message, ...opts });
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === 'not_found') return false;
    throw await envd.afterLoss(rpcError(action, error));
  }
}

/** Writes to a process. */
export async function sendInput(
  envd: Envd,
  pid: number,
  to: 'stdin' | 'pty',
  data: string | Uint8Array,
  opts: CommandRequestOpts,
): Promise<void> {
  if (typeof data !== 'string' && !(data instanceof Uint8Array)) {
    throw new InvalidArgumentError('data: it is neither a text nor a Uint8Array');
  }
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  await envd.unary({
    action: `write to process ${pid}`,
    service: 'process.Process',
    method: 'SendInput',
    message: { process: { pid: checkPid(pid) }, input: { [to]: toBase64(bytes) } },
    ...opts,
  });
}

function checkPid(pid: number): number {
  return whole('pid', pid, 0, 2 ** 32 - 1);
}

/** A user's name, as Basic credentials can carry it. */
export function checkUser(user: string): string {
  if (text('user', user).includes(':')) throw new InvalidArgumentError('user: it holds a colon');
  return user;
}

/** A controller that another signal aborts, too. */
function controlled(signal: AbortSignal | undefined): AbortController {
  const control = new AbortController();
  if (signal?.aborted) control.abort(signal.reason);
  else signal?.addEventListener('abort', () => control.abort(signal.reason), { once: true, signal: control.signal });
  return control;
}

/** The watchdog's options, checked before anything is sent. */
function watchdogIn({ keepaliveMs, silenceMs }: Watchdog): Watchdog {
  watchdogOf({ keepaliveMs, silenceMs });
  return { keepaliveMs, silenceMs };
}

function sinksOf(opts: FollowOpts & { onPty?: Sinks['onPty'] }): Sinks {
  const { onStdout, onStderr, onPty, onGap, retainOutput = true } = opts;
  const maxOutputBytes = whole('maxOutputBytes', opts.maxOutputBytes ?? MAX_OUTPUT, 0);
  return { onStdout, onStderr, onPty, onGap, retainOutput, maxOutputBytes };
}
