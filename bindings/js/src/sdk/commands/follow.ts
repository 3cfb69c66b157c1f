/** A process's events, also over a stream that is cut: it is attached to again, by process id, and the hole is told. */

import { fromBase64 } from '../envd/base64.ts';
import { type Code, Refusal, rpcError } from '../envd/refusal.ts';
import { Closed, Cut } from '../envd/stream.ts';
import {
  AuthenticationError,
  CommandLostError,
  ConnectionLostError,
  InvalidArgumentError,
  NotFoundError,
  SandboxNotRunningError,
  TimeoutError,
} from '../errors.ts';
import { sleep } from '../runtime.ts';
import { type Attached, attach } from './attached.ts';
import { listRaw } from './dispatch.ts';
import type { CommandEvent, Known, WireEvent } from './events.ts';

const ACTION = 'follow the command';

/** Reattachments in a row without output, unless the options say otherwise. */
export const REATTACHMENTS = 5;

/** The first wait between two reattachments, doubled each time; the first one is made at once. In milliseconds. */
const FIRST_WAIT = 100;

/** The longest wait, in milliseconds. */
const LONGEST_WAIT = 5_000;

/** Errors that come from whoever stood between, not from the process. */
const PASSING: readonly Code[] = ['unavailable', 'canceled', 'internal', 'unknown', 'aborted', 'resource_exhausted'];

/**
 * Gives a process's events until it ends.
 *
 * @throws what ended the following where that was no exit: there is no exit code without an end event.
 */
export async function* follow(known: Known, first: Attached, firstGap?: string): AsyncGenerator<CommandEvent, void> {
  let attached = first;
  const close = () => attached.close(known.signal.reason);
  known.signal.addEventListener('abort', close, { once: true });
  let inVain = 0;
  try {
    if (firstGap !== undefined) yield { type: 'gap', reason: firstGap };
    for (;;) {
      let how: string;
      try {
        const event = await attached.next();
        if (event.end) {
          yield exit(known, event.end);
          return;
        }
        const data = output(event);
        if (data) {
          inVain = 0;
          yield data;
        }
        continue;
      } catch (error) {
        if (known.signal.aborted) throw known.signal.reason;
        how = passing(known, error);
      }
      attached.close();
      const again = await reattach(known, how, inVain);
      attached = again.attached;
      inVain = again.inVain;
      if (known.signal.aborted) throw known.signal.reason;
      yield { type: 'gap', reason: how };
    }
  } finally {
    known.signal.removeEventListener('abort', close);
    attached.close();
  }
}

function output(event: WireEvent): CommandEvent | undefined {
  const { stdout, stderr, pty } = event.data ?? {};
  if (stdout !== undefined) return { type: 'stdout', data: fromBase64(stdout) };
  if (stderr !== undefined) return { type: 'stderr', data: fromBase64(stderr) };
  if (pty !== undefined) return { type: 'pty', data: fromBase64(pty) };
  return undefined;
}

function exit(known: Known, end: NonNullable<WireEvent['end']>): CommandEvent {
  const killed = end.exited !== true && /killed/.test(end.status ?? '');
  const over = known.timeoutMs > 0 && !known.watching && performance.now() - known.startedAt >= known.timeoutMs;
  if (killed && over) throw late(known, 'the sandbox killed it');
  return { type: 'exit', exitCode: end.exitCode ?? 0, error: end.error };
}

/** How the stream was cut, where that passes; else it is thrown. */
function passing(known: Known, error: unknown): string {
  if (error instanceof Cut || error instanceof Closed) return error.message || 'the stream was closed';
  if (!(error instanceof Refusal)) throw error;
  if (error.code === 'deadline_exceeded' && known.timeoutMs > 0) {
    throw late(known, known.watching ? 'it goes on running' : 'the sandbox kills it; how it ended was not told');
  }
  if (PASSING.includes(error.code)) return `${error.code}${error.message ? `: ${error.message}` : ''}`;
  throw rpcError(ACTION, error);
}

function late(known: Known, what: string): TimeoutError {
  const ran = known.watching ? 'was watched' : 'ran';
  return new TimeoutError(
    `process ${known.pid} ${ran} for longer than ${known.timeoutMs} ms (timeoutMs; 0 is no limit): ${what}`,
  );
}

/** How long to wait before reattachment number `count`, from 0, in milliseconds. */
export function waitBefore(count: number): number {
  return count === 0 ? 0 : Math.min(FIRST_WAIT * 2 ** (count - 1), LONGEST_WAIT);
}

/** Attaches to the process again, at most as often as the options say. */
async function reattach(known: Known, how: string, before: number): Promise<{ attached: Attached; inVain: number }> {
  let inVain = before;
  let last: unknown;
  while (inVain < known.reattachments) {
    await sleep(waitBefore(inVain), known.signal);
    inVain += 1;
    try {
      return { attached: await again(known), inVain };
    } catch (error) {
      if (known.signal.aborted) throw known.signal.reason;
      const told = error instanceof Refusal ? rpcError(ACTION, error) : error;
      if (told instanceof NotFoundError) {
        throw new CommandLostError(
          `${how}; process ${known.pid} has ended since, and how was told while nobody was attached`,
          { attempts: told.attempts },
        );
      }
      const final = [SandboxNotRunningError, AuthenticationError, InvalidArgumentError];
      if (told instanceof Error && final.some((each) => told instanceof each)) {
        told.message = `${how}; ${told.message}; how process ${known.pid} did was not told`;
        throw await known.envd.afterLoss(told);
      }
      last = told;
    }
  }
  const words = last instanceof Error ? `the last of ${inVain} reattachments in a row: ${last.message}` : undefined;
  const vain = words ?? `nothing came of ${inVain} reattachments in a row (reattachments)`;
  const message = `${how}; how process ${known.pid} did was not told; it may go on running; ${vain}`;
  throw await known.envd.afterLoss(new ConnectionLostError(message, { cause: last }));
}

async function again(known: Known): Promise<Attached> {
  const left = known.watching && known.timeoutMs > 0 ? known.timeoutMs - (performance.now() - known.startedAt) : 0;
  if (left < 0) throw late(known, 'it goes on running');
  const attached = await attach(known.envd, known.pid, {
    action: ACTION,
    timeoutMs: left,
    signal: known.signal,
    watchdog: known.watchdog,
  });
  const { marker } = known;
  if (marker === undefined) return attached;
  // A process id can be another process's by now. One that is not listed has ended, and the stream tells how.
  try {
    const listed = (await listRaw(known.envd, { signal: known.signal })).find((each) => each.pid === known.pid);
    if (listed === undefined || marker.isOf(listed)) return attached;
  } catch (error) {
    attached.close();
    throw error;
  }
  attached.close();
  throw new NotFoundError(`process ${known.pid} is another one now`);
}
