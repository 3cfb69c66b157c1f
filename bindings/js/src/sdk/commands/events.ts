/** What is told of a process: the daemon's words, and ours. */

import type { Envd } from '../envd/envd.ts';
import type { Watchdog } from '../envd/stream.ts';
import type { Marker } from './dispatch.ts';

/**
 * What happens in a command, in the order in which it was told. `offset`, of durable commands: how many bytes of this output there
 * are up to the end of this piece.
 */
export type CommandEvent =
  /** Bytes of its standard output. */
  | { readonly type: 'stdout'; readonly data: Uint8Array; readonly offset?: number }
  /** Bytes of its standard error. */
  | { readonly type: 'stderr'; readonly data: Uint8Array; readonly offset?: number }
  /** Bytes of its terminal. */
  | { readonly type: 'pty'; readonly data: Uint8Array }
  /** Its stream was cut and attached to again; what it wrote in between is lost. */
  | { readonly type: 'gap'; readonly reason: string }
  /** It ended. `leftBehind`: processes that a durable command started hold its outputs, and what they write is not told. */
  | {
      readonly type: 'exit';
      readonly exitCode: number;
      readonly error?: string | undefined;
      readonly leftBehind?: boolean;
    };

/** An event as the daemon tells it; bytes are base64. */
export interface WireEvent {
  start?: { pid?: number };
  data?: { stdout?: string; stderr?: string; pty?: string };
  end?: { exitCode?: number; exited?: boolean; status?: string; error?: string };
  keepalive?: Record<string, never>;
}

/** A process as the daemon lists it. */
export interface WireProcess {
  pid?: number;
  tag?: string;
  config?: { cmd?: string; args?: string[]; envs?: Record<string, string>; cwd?: string };
}

/** What is known of a process whose stream is followed. */
export interface Known {
  readonly envd: Envd;
  readonly pid: number;
  /** By what it is told from another process of the same number; absent where somebody else started it. */
  readonly marker?: Marker | undefined;
  /** When the daemon kills it, in milliseconds after `startedAt`; 0: never. */
  readonly timeoutMs: number;
  /** Whether `timeoutMs` bounds the watching alone. */
  readonly watching: boolean;
  /** By `performance.now()`. */
  readonly startedAt: number;
  /** Reattachments in a row without output. */
  readonly reattachments: number;
  readonly watchdog?: Watchdog | undefined;
  /** Ends the following; the process goes on. */
  readonly signal: AbortSignal;
}
