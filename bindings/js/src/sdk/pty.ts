/** Terminals in a sandbox. */

import { connectTo, killProcess, startProcess } from './commands/commands.ts';
import type { CommandHandle, CommandRequestOpts, Controls } from './commands/handle.ts';
import { sendInput } from './commands/input.ts';
import { COMMAND_TIMEOUT, OF as OF_COMMANDS } from './commands/options.ts';
import { type Envd, limitsOf } from './envd/envd.ts';
import { checkNames, namesOf } from './known.ts';
import { whole } from './validate.ts';

/** Options of a terminal. */
export interface PtyCreateOpts extends CommandRequestOpts {
  /** Columns, from 1 on. */
  cols: number;
  /** Rows, from 1 on. */
  rows: number;
  /** Gets what the terminal shows, as it comes. */
  onData: (data: Uint8Array) => void | Promise<void>;
  /** When the sandbox kills it, in **milliseconds**; 0: never. Default: 60,000. */
  timeoutMs?: number | undefined;
  /** As whom. Default: the template's user. */
  user?: string | undefined;
  /** Variables; TERM, LANG and LC_ALL are set unless given. */
  envs?: Record<string, string> | undefined;
  /** Where its shell begins. Default: the user's home. */
  cwd?: string | undefined;
}

/** Options of `connect`. */
export interface PtyConnectOpts extends CommandRequestOpts {
  /** Gets what the terminal shows from now on. */
  onData: (data: Uint8Array) => void | Promise<void>;
  /** How long it is watched, in **milliseconds**; 0: until it ends. Default: 60,000. */
  timeoutMs?: number | undefined;
}

/** Names of options, by method. */
const OF = {
  request: OF_COMMANDS.request,
  create: namesOf<PtyCreateOpts>({
    cols: true,
    rows: true,
    onData: true,
    timeoutMs: true,
    user: true,
    envs: true,
    cwd: true,
    requestTimeoutMs: true,
    signal: true,
  }),
  connect: namesOf<PtyConnectOpts>({ onData: true, timeoutMs: true, requestTimeoutMs: true, signal: true }),
};

/** Runs terminals in a sandbox: `sandbox.pty`. */
export class Pty {
  private readonly controls: Controls;

  constructor(private readonly envd: Envd) {
    this.controls = {
      kill: (pid) => this.kill(pid),
      sendStdin: (pid, data, opts) => sendInput(envd, pid, 'pty', data, opts ?? {}),
      // A terminal's input ends by Ctrl-D; the daemon refuses to end it otherwise.
      closeStdin: (pid, opts) => sendInput(envd, pid, 'pty', '\x04', opts ?? {}),
    };
  }

  /** Starts `bash -i -l` in a terminal. Its output is not kept: it goes to `onData`, and to who iterates over the handle. */
  async create(opts: PtyCreateOpts): Promise<CommandHandle> {
    this.checkNames('create', opts, OF.create);
    const { onData, cols, rows, envs, ...rest } = opts;
    return startProcess(this.envd, this.controls, {
      ...rest,
      timeoutMs: opts.timeoutMs ?? COMMAND_TIMEOUT,
      cmd: '/bin/bash',
      args: ['-i', '-l'],
      stdin: true,
      pty: size({ cols, rows }),
      envs: { TERM: 'xterm-256color', LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8', ...envs },
      onPty: onData,
      retainOutput: false,
    });
  }

  /** Follows a terminal that runs, from now on. */
  async connect(pid: number, opts: PtyConnectOpts): Promise<CommandHandle> {
    this.checkNames('connect', opts, OF.connect);
    const { onData, ...rest } = opts;
    return connectTo(this.envd, this.controls, whole('pid', pid, 0, 2 ** 32 - 1), {
      ...rest,
      onPty: onData,
      retainOutput: false,
    });
  }

  /** Types into a terminal. */
  async sendInput(pid: number, data: Uint8Array, opts: CommandRequestOpts = {}): Promise<void> {
    this.checkNames('sendInput', opts, OF.request);
    await sendInput(this.envd, pid, 'pty', data, opts);
  }

  /** Changes a terminal's size. */
  async resize(pid: number, to: { cols: number; rows: number }, opts: CommandRequestOpts = {}): Promise<void> {
    this.checkNames('resize', opts, OF.request);
    await this.envd.unary({
      action: `change the size of terminal ${pid}`,
      service: 'process.Process',
      method: 'Update',
      message: { process: { pid: whole('pid', pid, 0, 2 ** 32 - 1) }, pty: { size: size(to) } },
      ...limitsOf(opts),
    });
  }

  /**
   * Kills a terminal's shell by SIGKILL.
   *
   * @returns `false` where there is no such process.
   */
  async kill(pid: number, opts: CommandRequestOpts = {}): Promise<boolean> {
    this.checkNames('kill', opts, OF.request);
    return killProcess(this.envd, pid, opts);
  }

  private checkNames(method: string, opts: unknown, names: readonly string[]): void {
    checkNames(`pty.${method}`, opts, names, this.envd.config.logger);
  }
}

function size({ cols, rows }: { cols: number; rows: number }): { cols: number; rows: number } {
  return { cols: whole('cols', cols, 1, 65_535), rows: whole('rows', rows, 1, 65_535) };
}
