/** Commands in a sandbox. */

import { type Envd, limitsOf } from '../envd/envd.ts';
import { Refusal, rpcError } from '../envd/refusal.ts';
import { Closed, Cut } from '../envd/stream.ts';
import { type CommandResult, ConnectionLostError } from '../errors.ts';
import { checkNames } from '../known.ts';
import { secretsIn } from '../repeated.ts';
import { type Trail, through } from '../trail.ts';
import { milliseconds, text, variables, whole } from '../validate.ts';
import { type Attached, attach } from './attached.ts';
import { dispatch, listRaw, type Start } from './dispatch.ts';
import {
  attachDurable,
  checkId,
  type DurableStart,
  forgetDurable,
  refuseDurableOpts,
  startDurable,
  watched,
} from './durable/durable.ts';
import type { Known } from './events.ts';
import { follow, REATTACHMENTS } from './follow.ts';
import { CommandHandle, type CommandRequestOpts, type Controls, type Source } from './handle.ts';
import { checkPid, closeInput, sendInput } from './input.ts';
import {
  COMMAND_TIMEOUT,
  type CommandAttachOpts,
  type CommandConnectOpts,
  type CommandForgetOpts,
  type CommandStartOpts,
  checkUser,
  controlling,
  OF,
  type ProcessInfo,
  reachOf,
  sinksOf,
  watchdogIn,
} from './options.ts';

/** Runs commands in a sandbox: `sandbox.commands`. */
export class Commands {
  constructor(private readonly envd: Envd) {}

  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): Commands {
    return new Commands(this.envd.noting(trail));
  }

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
    this.checkNames('list', opts, OF.request);
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
    this.checkNames('sendStdin', opts, OF.request);
    await sendInput(this.envd, pid, 'stdin', data, opts);
  }

  /** Ends a command's standard input. */
  async closeStdin(pid: number, opts: CommandRequestOpts = {}): Promise<void> {
    this.checkNames('closeStdin', opts, OF.request);
    await closeInput(this.envd, pid, opts);
  }

  /**
   * Kills a command by SIGKILL.
   *
   * @returns `false` where there is no such process.
   */
  async kill(pid: number, opts: CommandRequestOpts = {}): Promise<boolean> {
    this.checkNames('kill', opts, OF.request);
    return killProcess(this.envd, pid, opts);
  }

  /**
   * Follows a command that runs, from now on: what it wrote before is not told.
   *
   * @throws NotFoundError where there is no such process.
   */
  async connect(pid: number, opts: CommandConnectOpts = {}): Promise<CommandHandle> {
    this.checkNames('connect', opts, OF.connect);
    return connectTo(this.envd, this, checkPid(pid), opts);
  }

  /**
   * Attaches to a durable command, from any process, while it runs or up to a day after its end.
   *
   * @throws NotFoundError where the sandbox has none of this id and user.
   */
  async attach(id: string, opts: CommandAttachOpts = {}): Promise<CommandHandle> {
    this.checkNames('attach', opts, OF.attach);
    const sinks = sinksOf(opts);
    const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? 0);
    const { stdout = 0, stderr = 0 } = opts.offsets ?? {};
    const reach = { ...reachOf(this.envd, opts), id: checkId(id), shell: opts.shell };
    return controlling(opts.signal ?? this.envd.config.signal, async (control) => {
      const source = await attachDurable(reach, { stdout, stderr }, control.signal);
      const events = watched(source.events, id, timeoutMs, control);
      return new CommandHandle({ ...source, events }, control, sinks);
    });
  }

  /**
   * Removes what is kept of a durable command that has ended. Otherwise that is removed a day after its end, when another
   * one is started.
   *
   * @returns `false` where there is nothing.
   */
  async forget(id: string, opts: CommandForgetOpts = {}): Promise<boolean> {
    this.checkNames('forget', opts, OF.forget);
    const reach = { ...reachOf(this.envd, opts), id: checkId(id), shell: opts.shell };
    return forgetDurable(reach, opts.signal ?? this.envd.config.signal ?? new AbortController().signal);
  }

  /**
   * Runs a command line by `bash -l`.
   *
   * It is started at most once: where the answer to the start is lost, its process is looked for and attached to. A stream
   * that is cut is attached to again; with `durable: true` nothing is lost by that. Neither a lost connection nor `signal` kills it; `timeoutMs` does.
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
    this.checkNames('run', opts, OF.run);
    const process = { cmd: '/bin/bash', args: ['-l', '-c', text('cmd', cmd)] };
    if (opts.durable) {
      const handle = await durableProcess(this.envd, [process.cmd, ...process.args], opts);
      return opts.background ? handle : handle.wait();
    }
    refuseDurableOpts(opts);
    const handle = await startProcess(this.envd, this, { ...opts, ...process, stdin: opts.stdin ?? false });
    return opts.background ? handle : handle.wait();
  }

  private checkNames(method: string, opts: unknown, names: readonly string[]): void {
    checkNames(`commands.${method}`, opts, names, this.envd.config.logger);
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
  /** What no error may tell, besides its variables. */
  readonly secrets?: readonly string[];
}

/** Starts a durable program and follows it. */
async function durableProcess(envd: Envd, argv: string[], opts: CommandStartOpts): Promise<CommandHandle> {
  const sinks = sinksOf(opts);
  const start: DurableStart = {
    ...reachOf(envd, opts),
    id: opts.id === undefined ? undefined : checkId(opts.id),
    shell: opts.shell,
    argv,
    envs: opts.envs ?? {},
    cwd: opts.cwd === undefined ? undefined : text('cwd', opts.cwd),
    stdin: opts.stdin ?? false,
    timeoutMs: milliseconds('timeoutMs', opts.timeoutMs ?? COMMAND_TIMEOUT),
  };
  return controlling(opts.signal ?? envd.config.signal, async (control) => {
    return new CommandHandle(await startDurable(start, opts, control.signal), control, sinks);
  });
}

/** Starts a program and follows it. */
export async function startProcess(envd: Envd, controls: Controls, opts: ProgramOpts): Promise<CommandHandle> {
  const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? COMMAND_TIMEOUT);
  const sinks = sinksOf(opts);
  const reattachments = whole('reattachments', opts.reattachments ?? REATTACHMENTS, 0);
  const process: Start['process'] = { cmd: opts.cmd, args: opts.args, envs: variables('envs', opts.envs ?? {}) };
  const secrets = secretsIn(process.envs, opts.secrets);
  if (opts.cwd !== undefined) process.cwd = text('cwd', opts.cwd);
  const user = opts.user === undefined ? undefined : checkUser(opts.user);
  const limit = milliseconds('requestTimeoutMs', opts.requestTimeoutMs ?? envd.config.requestTimeoutMs);
  const watchdog = watchdogIn(opts);
  const startedAt = performance.now();
  return controlling(opts.signal ?? envd.config.signal, async (control) => {
    const start: Start = {
      process,
      ...(opts.pty ? { pty: { size: opts.pty } } : {}),
      stdin: opts.stdin,
      user,
      timeoutMs,
      requestTimeoutMs: limit,
      watchdog,
      signal: control.signal,
      secrets,
    };
    const begin = (noting: Envd) => dispatch(noting, start);
    const { attached, marker, gap } = await through(envd, begin, 'it may have been started before');
    const known = { envd, pid: attached.pid, marker, timeoutMs, watching: false, startedAt, reattachments, watchdog };
    return new CommandHandle(sourceOf(known, attached, control, controls, gap), control, sinks);
  });
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
  const action = `connect to process ${pid}`;
  const startedAt = performance.now();
  const { requestTimeoutMs } = opts;
  return controlling(opts.signal ?? envd.config.signal, async (control) => {
    const { signal } = control;
    try {
      const attached = await attach(envd, pid, { action, timeoutMs, signal, requestTimeoutMs, watchdog });
      const known: Omit<Known, 'signal'> = { envd, pid, timeoutMs, watching: true, startedAt, reattachments, watchdog };
      return new CommandHandle(sourceOf(known, attached, control, controls), control, sinks);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof Refusal) throw await envd.afterLoss(rpcError(action, error));
      if (error instanceof Cut || error instanceof Closed) {
        throw await envd.afterLoss(new ConnectionLostError(`could not ${action}: ${error.message}`));
      }
      throw error;
    }
  });
}

function sourceOf(
  known: Omit<Known, 'signal'>,
  attached: Attached,
  { signal }: AbortController,
  controls: Controls,
  gap?: string,
): Source {
  const { pid } = known;
  return {
    pid,
    name: `process ${pid}`,
    events: follow({ ...known, signal }, attached, gap),
    kill: () => controls.kill(pid),
    sendStdin: (data, opts) => controls.sendStdin(pid, data, opts),
    closeStdin: (opts) => controls.closeStdin(pid, opts),
  };
}

/** Kills a process. */
export async function killProcess(envd: Envd, pid: number, opts: CommandRequestOpts): Promise<boolean> {
  const action = `kill process ${pid}`;
  const message = { process: { pid: checkPid(pid) }, signal: 'SIGNAL_SIGKILL' };
  try {
    await envd.tryUnary({ action, service: 'process.Process', method: 'SendSignal', message, ...limitsOf(opts) });
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === 'not_found') return false;
    throw await envd.afterLoss(rpcError(action, error));
  }
}
