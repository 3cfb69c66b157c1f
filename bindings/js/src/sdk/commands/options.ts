/** Options of commands, and what they say once they are checked. */

import type { Envd } from '../envd/envd.ts';
import { type Watchdog, watchdogOf } from '../envd/stream.ts';
import { InvalidArgumentError } from '../errors.ts';
import { namesOf } from '../known.ts';
import { milliseconds, text, whole } from '../validate.ts';
import type { DurableOpts } from './durable/durable.ts';
import type { Offsets } from './durable/following.ts';
import { REATTACHMENTS } from './follow.ts';
import type { CommandRequestOpts, Sinks } from './handle.ts';

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
export interface CommandStartOpts extends FollowOpts, DurableOpts {
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

/** Options of `forget`. */
export interface CommandForgetOpts extends CommandRequestOpts {
  /** As whom it ran: its spool is that user's. Default: the template's user. */
  user?: string | undefined;
  /** As of `run`. */
  shell?: readonly string[] | undefined;
}

/** Options of `attach`. */
export interface CommandAttachOpts extends FollowOpts {
  /** What was taken already, which is not told again. Default: nothing. */
  offsets?: Offsets | undefined;
  /** As whom it runs: its spool is that user's. Default: the template's user. */
  user?: string | undefined;
  /** As of `run`. */
  shell?: readonly string[] | undefined;
  /** How long it is watched, in **milliseconds**; 0: until it ends. It goes on running. Default: 0. */
  timeoutMs?: number | undefined;
}

const request: Record<keyof CommandRequestOpts, true> = { requestTimeoutMs: true, signal: true };
const follow: Record<keyof FollowOpts, true> = {
  ...request,
  keepaliveMs: true,
  silenceMs: true,
  onStdout: true,
  onStderr: true,
  onGap: true,
  retainOutput: true,
  maxOutputBytes: true,
  reattachments: true,
};

/** Names of options, by method; `request`: of those that have no more. */
export const OF = {
  request: namesOf<CommandRequestOpts>(request),
  run: namesOf<CommandStartOpts>({
    ...follow,
    durable: true,
    id: true,
    spoolLimit: true,
    whenFull: true,
    shell: true,
    background: true,
    cwd: true,
    user: true,
    envs: true,
    stdin: true,
    timeoutMs: true,
  }),
  connect: namesOf<CommandConnectOpts>({ ...follow, timeoutMs: true }),
  attach: namesOf<CommandAttachOpts>({ ...follow, offsets: true, user: true, shell: true, timeoutMs: true }),
  forget: namesOf<CommandForgetOpts>({ ...request, user: true, shell: true }),
};

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

/** A user's name, as Basic credentials can carry it. */
export function checkUser(user: string): string {
  if (text('user', user).includes(':')) throw new InvalidArgumentError('user: it holds a colon');
  return user;
}

/** How a durable command is reached. */
export function reachOf(envd: Envd, opts: FollowOpts & { user?: string | undefined }) {
  return {
    envd,
    user: opts.user === undefined ? undefined : checkUser(opts.user),
    watchdog: watchdogIn(opts),
    reattachments: whole('reattachments', opts.reattachments ?? REATTACHMENTS, 0),
    requestTimeoutMs: milliseconds('requestTimeoutMs', opts.requestTimeoutMs ?? envd.config.requestTimeoutMs),
  };
}

/**
 * Makes what a controller ends that another signal aborts, too. Where nothing is made it is aborted, so that nothing is left on that
 * signal, which may live as long as the process.
 */
export async function controlling<T>(
  signal: AbortSignal | undefined,
  make: (control: AbortController) => Promise<T>,
): Promise<T> {
  const control = controlled(signal);
  try {
    return await make(control);
  } catch (error) {
    control.abort();
    throw error;
  }
}

function controlled(signal: AbortSignal | undefined): AbortController {
  const control = new AbortController();
  if (signal?.aborted) control.abort(signal.reason);
  else signal?.addEventListener('abort', () => control.abort(signal.reason), { once: true, signal: control.signal });
  return control;
}

/** The watchdog's options, checked before anything is sent. */
export function watchdogIn({ keepaliveMs, silenceMs }: Watchdog): Watchdog {
  watchdogOf({ keepaliveMs, silenceMs });
  return { keepaliveMs, silenceMs };
}

/** Where output goes. */
export function sinksOf(opts: FollowOpts & { onPty?: Sinks['onPty'] }): Sinks {
  const { onStdout, onStderr, onPty, onGap, retainOutput = true } = opts;
  const maxOutputBytes = whole('maxOutputBytes', opts.maxOutputBytes ?? MAX_OUTPUT, 0);
  return { onStdout, onStderr, onPty, onGap, retainOutput, maxOutputBytes };
}
