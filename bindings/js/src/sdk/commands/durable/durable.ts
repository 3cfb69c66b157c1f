/** Commands whose output outlives connections: started, attached to, and forgotten. */

import { watchdogOf } from '../../envd/stream.ts';
import { InvalidArgumentError, TimeoutError } from '../../errors.ts';
import { secretsIn } from '../../repeated.ts';
import { randomHex } from '../../runtime.ts';
import { through } from '../../trail.ts';
import { milliseconds, text, variables, whole } from '../../validate.ts';
import type { CommandRequestOpts, Source } from '../handle.ts';
import { bytesOf } from '../input.ts';
import { Following, type Launch, type Offsets } from './following.ts';
import { Spool, type SpoolOptions } from './spool.ts';

/** What a spool holds at most, in bytes, unless it is said. */
const SPOOL_LIMIT = 64 << 20;

/** The smallest bound of a spool, in bytes. */
const SMALLEST_SPOOL = 1 << 20;

/** Input is passed on in pieces of this size, in bytes. */
const INPUT_PIECE = 1 << 20;

/** Options of durable commands alone. */
export interface DurableOpts {
  /**
   * Keeps its outputs and its end in the sandbox until they are taken: whatever happens to the connection, every byte comes
   * once and in order, with the true exit code. Needs `sh` in the sandbox. Default: false.
   */
  durable?: boolean | undefined;
  /**
   * A durable command's id: 1 to 64 of a-z, 0-9 and hyphens. An id stands for one command: a start with an id that was used
   * already attaches to that command, and starts nothing. Default: 32 random hex digits.
   */
  id?: string | undefined;
  /**
   * What a durable command's spool holds at most, both outputs together, in **bytes**, from 1 MiB on. What all readers have
   * taken makes room when it is needed. Default: 64 MiB.
   */
  spoolLimit?: number | undefined;
  /** What becomes of a durable command whose spool is full: its writes wait, or it is killed. Default: `block`. */
  whenFull?: 'block' | 'kill' | undefined;
  /** The POSIX shell that runs a durable command's wrapper, with arguments. Default: `['sh']`. */
  shell?: readonly string[] | undefined;
}

/** How a durable command's spool is reached: checked options of a command. */
interface Reach extends Omit<SpoolOptions, 'id' | 'shell'> {
  readonly id: string | undefined;
  readonly shell: readonly string[] | undefined;
}

/** A durable command that is to be started: checked options of a command. */
export interface DurableStart extends Reach {
  readonly argv: readonly string[];
  readonly envs: Record<string, string>;
  readonly cwd: string | undefined;
  readonly stdin: boolean;
  /** In milliseconds; 0: never. */
  readonly timeoutMs: number;
}

/** Starts a durable command once; returns when its wrapper has answered. */
export async function startDurable(start: DurableStart, opts: DurableOpts, signal: AbortSignal): Promise<Source> {
  const limit = whole('spoolLimit', opts.spoolLimit ?? SPOOL_LIMIT, SMALLEST_SPOOL);
  const full = opts.whenFull ?? 'block';
  if (full !== 'block' && full !== 'kill') {
    throw new InvalidArgumentError(`whenFull: ${JSON.stringify(full)} is none of block, kill`);
  }
  const envs = variables('envs', start.envs);
  const spool = spoolOf({ ...start, id: start.id ?? randomHex(16), secrets: secretsIn(envs) });
  const seconds = start.timeoutMs === 0 ? '0' : Math.max(start.timeoutMs / 1000, 0.001).toFixed(3);
  const launch: Launch = {
    args: [String(limit), full, seconds, start.stdin ? '1' : '0', ...start.argv],
    surroundings: { envs, cwd: start.cwd },
  };
  const begin = (noting: Spool) => followed(spool, new Following(noting, { stdout: 0, stderr: 0 }, launch, signal));
  return through(spool, begin, 'it may have been started before');
}

/** Attaches to a durable command. */
export async function attachDurable(reach: Reach, from: Offsets, signal: AbortSignal): Promise<Source> {
  const offsets = { stdout: whole('offsets.stdout', from.stdout, 0), stderr: whole('offsets.stderr', from.stderr, 0) };
  const spool = spoolOf(reach);
  return followed(spool, new Following(spool, offsets, undefined, signal));
}

/** Removes what is kept of one that has ended. `false`: there is nothing. */
export async function forgetDurable(reach: Reach, signal: AbortSignal): Promise<boolean> {
  return through(spoolOf(reach), (spool) => spool.forget(signal), 'it may have been forgotten before');
}

/** Aborts `control` after so many milliseconds of watching, unless the events end before. 0: never. */
export async function* watched<T>(
  events: AsyncGenerator<T, void>,
  id: string,
  timeoutMs: number,
  control: AbortController,
): AsyncGenerator<T, void> {
  const late = () => {
    const message = `durable command ${id} was watched for longer than ${timeoutMs} ms (timeoutMs): it goes on running`;
    control.abort(new TimeoutError(message));
  };
  const timer = timeoutMs > 0 ? setTimeout(late, milliseconds('timeoutMs', timeoutMs)) : undefined;
  try {
    yield* events;
  } finally {
    clearTimeout(timer);
  }
}

async function followed(spool: Spool, following: Following): Promise<Source> {
  const input = new Input(spool, await following.begin());
  const { id } = spool;
  return {
    pid: 0,
    id,
    name: `durable command ${id}`,
    events: following.events(),
    offsets: () => following.offsets,
    kill: () => through(spool, (noting) => noting.kill(signalOf(spool)), 'it may have been killed before'),
    sendStdin: async (data, opts) => input.add(bytesOf(data), false, opts ?? {}),
    closeStdin: async (opts) => input.add(new Uint8Array(), true, opts ?? {}),
  };
}

/** Input is added by one call at a time. */
class Input {
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly spool: Spool,
    /** How much there is. */
    private at: number,
  ) {}

  /** Adds bytes once, however often the connection is cut meanwhile. */
  async add(bytes: Uint8Array, last: boolean, opts: CommandRequestOpts): Promise<void> {
    const { requestTimeoutMs = this.spool.options.requestTimeoutMs, signal } = opts;
    const limit = milliseconds('requestTimeoutMs', requestTimeoutMs);
    // The caller may change its buffer while others write.
    const data = bytes.slice();
    const added = this.turn.then(() => this.feed(data, last, limit, signal));
    this.turn = added.catch(() => {});
    await added;
  }

  private async feed(
    data: Uint8Array<ArrayBuffer>,
    last: boolean,
    requestTimeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const reached = new Spool({ ...this.spool.options, requestTimeoutMs });
    let there = 0;
    const feed = async (spool: Spool) => {
      let at = 0;
      do {
        const piece = data.subarray(at, at + INPUT_PIECE);
        await spool.feed(this.at, piece, last, signalOf(spool, signal), () => {
          this.at += piece.length;
          there += piece.length;
        });
        at += piece.length;
      } while (at < data.length);
    };
    const done = () => `at least ${there} of ${data.length} bytes were written before`;
    await through(reached, feed, data.length > 0 ? done : 'its end may be there already');
  }
}

function signalOf(spool: Spool, given?: AbortSignal): AbortSignal {
  return given ?? spool.options.envd.config.signal ?? new AbortController().signal;
}

function spoolOf(reach: Reach): Spool {
  const { id, shell = ['sh'], ...options } = reach;
  watchdogOf(options.watchdog);
  return new Spool({ ...options, id: checkId(id), shell: checkShell(shell) });
}

/** An id, as it may stand in a folder's name. */
export function checkId(id: unknown): string {
  if (!/^[a-z0-9-]{1,64}$/.test(text('id', id))) {
    throw new InvalidArgumentError(`id: ${JSON.stringify(id)} must be 1 to 64 of a-z, 0-9 and hyphens`);
  }
  return id as string;
}

/** The wrapper starts itself again by these words. */
export function checkShell(shell: unknown): readonly string[] {
  const fits = (word: unknown) => typeof word === 'string' && /^[A-Za-z0-9/._+-]+$/.test(word);
  if (!Array.isArray(shell) || shell.length === 0 || !shell.every(fits)) {
    throw new InvalidArgumentError(`shell: ${JSON.stringify(shell)} must be words of letters, digits and /._+-`);
  }
  return shell;
}

/** Options that only durable commands have. */
export function refuseDurableOpts(opts: DurableOpts): void {
  for (const name of ['id', 'spoolLimit', 'whenFull', 'shell'] as const) {
    if (opts[name] !== undefined)
      throw new InvalidArgumentError(`${name}: only durable commands have it (durable: true)`);
  }
}
