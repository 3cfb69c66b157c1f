/** The stream of what a process does, from its first event on. */

import type { Envd, Rpc } from '../envd/envd.ts';
import { Cut, type MessageStream, type Watchdog } from '../envd/stream.ts';
import type { WireEvent } from './events.ts';

/** A stream whose process is named. */
export class Attached {
  private constructor(
    readonly pid: number,
    private readonly stream: MessageStream,
    private readonly closed?: () => void,
  ) {}

  /** Opens a stream, and reads it until the process is named. `closed` is called by `close`. */
  static async open(envd: Envd, rpc: Rpc, remoteTimeoutMs: number, closed?: () => void): Promise<Attached> {
    const stream = await envd.stream(rpc, remoteTimeoutMs);
    try {
      for (;;) {
        const event = eventOf(await stream.next());
        if (event.start?.pid !== undefined) return new Attached(event.start.pid, stream, closed);
        if (event.keepalive === undefined) throw new Cut('the stream did not begin with a start');
      }
    } catch (error) {
      stream.close();
      throw error;
    }
  }

  /**
   * The next event.
   *
   * @throws Cut, Refusal, Closed.
   */
  async next(): Promise<WireEvent> {
    return eventOf(await this.stream.next());
  }

  /** Ends the stream; the process goes on. */
  close(reason?: unknown): void {
    this.stream.close(reason);
    this.closed?.();
  }
}

function eventOf(message: Record<string, unknown>): WireEvent {
  return (message.event ?? {}) as WireEvent;
}

/** Opens the stream of a process that runs. */
export function attach(
  envd: Envd,
  pid: number,
  options: {
    action: string;
    timeoutMs?: number;
    signal?: AbortSignal | undefined;
    requestTimeoutMs?: number | undefined;
    watchdog?: Watchdog | undefined;
  },
): Promise<Attached> {
  const { action, timeoutMs = 0, signal, requestTimeoutMs, watchdog } = options;
  const rpc: Rpc = {
    action,
    service: 'process.Process',
    method: 'Connect',
    message: { process: { pid } },
    signal,
    requestTimeoutMs,
    watchdog,
  };
  return Attached.open(envd, rpc, timeoutMs);
}
