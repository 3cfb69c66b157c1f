/** A command is started at most once, also when nobody can tell whether it was. */

import { type Envd, limitsOf } from '../envd/envd.ts';
import { edgeOf, Refusal, rpcError } from '../envd/refusal.ts';
import { Cut, type Watchdog } from '../envd/stream.ts';
import { OutcomeUnknownError, SandboxNotFoundError, SandboxNotRunningError, TimeoutError } from '../errors.ts';
import { maskedAll } from '../repeated.ts';
import { randomHex, sleep } from '../runtime.ts';
import { Attached, attach } from './attached.ts';
import type { WireProcess } from './events.ts';
import { Limited } from './limited.ts';

const ACTION = 'start the command';

/** A start whose answer was lost is looked for in the process list after each of these waits, in milliseconds. */
const LOOK_AFTER = [0, 100, 400];

/** By what one start's process is told from all others: its tag. Servers look tags up wrongly, so it is compared here. */
export class Marker {
  /** The process's tag. */
  readonly tag = `oncebox-${randomHex(8)}`;

  /** Whether it is the process that was started with this. */
  isOf(process: WireProcess): boolean {
    return process.tag === this.tag;
  }
}

/** What is to be started. */
export interface Start {
  readonly process: { cmd: string; args: string[]; envs: Record<string, string>; cwd?: string };
  readonly pty?: { size: { cols: number; rows: number } };
  readonly stdin: boolean;
  readonly user?: string | undefined;
  /** When the daemon kills it, in milliseconds; 0: never. */
  readonly timeoutMs: number;
  /** How long it may take until the process is named, in milliseconds; 0: no limit. */
  readonly requestTimeoutMs: number;
  readonly watchdog: Watchdog;
  /** Ends the stream, also later. */
  readonly signal: AbortSignal;
  /** What no error may tell. */
  readonly secrets: readonly string[];
}

/** A process that runs. */
export interface Started {
  readonly attached: Attached;
  readonly marker: Marker;
  /** Why its beginning was not seen, where it was found in the list. */
  readonly gap?: string;
}

/**
 * Starts a process. Only what provably did not arrive is sent again, by the sender; where that is not known, the process is
 * looked for, and attached to.
 */
export async function dispatch(envd: Envd, start: Start): Promise<Started> {
  const marker = new Marker();
  const limited = new Limited(start.signal, start.requestTimeoutMs);
  const { user, requestTimeoutMs, watchdog, secrets } = start;
  const rpc = {
    action: ACTION,
    service: 'process.Process',
    method: 'Start',
    message: {
      process: start.process,
      ...(start.pty ? { pty: start.pty } : {}),
      tag: marker.tag,
      stdin: start.stdin,
    },
    user,
    requestTimeoutMs,
    watchdog,
    secrets,
    signal: limited.signal,
  } as const;
  try {
    if (start.signal.aborted) throw start.signal.reason;
    try {
      return { attached: await Attached.open(envd, rpc, start.timeoutMs), marker };
    } catch (error) {
      if (start.signal.aborted) throw start.signal.reason;
      if (error instanceof Refusal) error.message = maskedAll(error.message, secrets);
      const lost = await told(envd, error, marker, limited.isLate ? requestTimeoutMs : undefined);
      if (!isUnknown(lost)) throw lost;
      const found = await find(envd, marker, lost, start);
      if (found === undefined) {
        lost.message += `; no process of the sandbox has the tag ${JSON.stringify(marker.tag)}`;
        throw lost;
      }
      return { attached: found, marker, gap: lost.message };
    }
  } finally {
    limited.done();
  }
}

/** Whether the process may run, without the call's time being over. */
function isUnknown(error: unknown): error is OutcomeUnknownError {
  return error instanceof OutcomeUnknownError;
}

/** Whether an answer leaves open what was done: one by whoever stands between, or by a daemon that failed. */
function isOpen(refusal: Refusal): boolean {
  if (edgeOf(refusal.message) !== undefined) return false;
  if (refusal.status !== undefined) return [408, 500, 502, 504].includes(refusal.status);
  return ['deadline_exceeded', 'internal', 'unknown', 'canceled', 'aborted'].includes(refusal.code);
}

/** What a start that named no process came to. */
async function told(envd: Envd, error: unknown, marker: Marker, late: number | undefined): Promise<unknown> {
  if (late !== undefined) {
    return new TimeoutError(
      `could not ${ACTION}: the process was not named within ${late} ms (requestTimeoutMs); nobody knows whether it was ` +
        `started; it would have the tag ${JSON.stringify(marker.tag)}`,
      { outcome: { kind: 'timed_out', sent: true } },
    );
  }
  if (error instanceof Cut) {
    const message = `could not ${ACTION}: ${error.message} before the process was named; nobody knows whether it was started`;
    return envd.afterLoss(new OutcomeUnknownError(message));
  }
  if (!(error instanceof Refusal)) return error;
  if (isOpen(error)) {
    const message = `could not ${ACTION}: ${error.code}: ${error.message}; nobody knows whether it was started`;
    const { status: statusCode, attempts, retryAfter } = error;
    const outcome = attempts.at(-1)?.outcome;
    return new OutcomeUnknownError(message, { statusCode, attempts, retryAfter, outcome });
  }
  const refused = rpcError(ACTION, error, { notFound: SandboxNotFoundError });
  return envd.afterLoss(refused);
}

/** Looks for the process of a start whose answer was lost. A process that has ended is not found any more. */
async function find(
  envd: Envd,
  marker: Marker,
  lost: OutcomeUnknownError,
  { signal, watchdog }: Start,
): Promise<Attached | undefined> {
  for (const wait of LOOK_AFTER) {
    if (wait > 0) await sleep(wait, signal);
    try {
      const process = (await listRaw(envd, { signal })).find((each) => marker.isOf(each));
      if (process?.pid !== undefined) return await attach(envd, process.pid, { action: ACTION, signal, watchdog });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof SandboxNotRunningError) throw error;
      lost.message += `; it was looked for: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return undefined;
}

/** The sandbox's processes, as the daemon lists them. */
export async function listRaw(
  envd: Envd,
  limits: { requestTimeoutMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<WireProcess[]> {
  const list = await envd.unary<{ processes?: WireProcess[] }>({
    action: 'list processes',
    service: 'process.Process',
    method: 'List',
    message: {},
    ...limitsOf(limits),
  });
  return list.processes ?? [];
}
