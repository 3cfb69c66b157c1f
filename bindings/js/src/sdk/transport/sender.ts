/** What the SDK asks of whoever sends its requests. Nothing above this decides whether anything is sent again. */

/** What is known of an attempt. */
export type Outcome = 'NotSent' | 'Refused' | 'Responded' | 'SentUnknown' | 'Cancelled' | 'TimedOut';

/** One attempt of a call. */
export interface Attempt {
  /** From 1 on. */
  readonly attempt: number;
  readonly outcome: Outcome;
  /** The answer's status. */
  readonly status?: number;
  /** What it is known by, such as the runtime's words. */
  readonly evidence?: string;
  /** How long was waited after it, in milliseconds. */
  readonly wait?: number;
  /** Why it was made again, or was not. */
  readonly reason?: string;
}

/** Which of the protocol's tables a request is looked up in. */
export type Plane = 'control_plane' | 'envd' | 'volume' | 'code_interpreter' | 'foreign';

/** What a request can be made of. All but streams can be sent again. */
export type CallBody = string | Uint8Array<ArrayBuffer> | Blob | FormData | ReadableStream<Uint8Array>;

/** A call: what is to be sent, and its limits. */
export interface Call {
  /** What is being done, in words: `create a sandbox`. */
  readonly action: string;
  readonly plane: Plane;
  readonly method: string;
  /** Below which the plane's paths are; without a slash at its end. */
  readonly base: string;
  /** With a slash before it, and the query behind. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: CallBody | undefined;
  /** `whole`: the answer is read inside the attempt; `stream`: the call ends with the answer's head. */
  readonly read: 'whole' | 'stream';
  /** Of the whole call, in milliseconds; 0: none. */
  readonly requestTimeoutMs: number;
  /** Times it may be sent again after an answer or an unknown outcome. */
  readonly retries: number;
  /** Times it may be sent again because nothing was sent, or it was refused; absent: as the sender has it. */
  readonly connectionRetries?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An answer that began, whatever its status. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Of `whole` calls, all of it; of `stream` calls, what comes. */
  readonly response: Response;
  /** What it took, oldest first. */
  readonly attempts: readonly Attempt[];
}

/** A call that got no answer. The caller's abort is thrown as it is, and is none of these. */
export class CallError extends Error {
  override name = 'CallError';
  constructor(
    message: string,
    readonly outcome: Outcome,
    readonly attempts: readonly Attempt[],
    readonly retryAfter?: number,
    cause?: unknown,
  ) {
    super(message, { cause });
  }

  /** Whether nothing of the call can have had an effect. */
  get notDone(): boolean {
    const harmless = (outcome: Outcome) => outcome === 'NotSent' || outcome === 'Refused';
    return this.attempts.length > 0 ? this.attempts.every((each) => harmless(each.outcome)) : harmless(this.outcome);
  }
}

/** Sends calls. */
export interface Sender {
  /**
   * Sends a call until it is over.
   *
   * @returns the answer, whatever its status.
   * @throws CallError where there is none; the reason of the call's signal where that was aborted.
   */
  send(call: Call): Promise<Answer>;
}
