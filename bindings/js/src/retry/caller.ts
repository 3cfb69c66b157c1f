import { type Engine, loadEngine } from '../policy/engine.ts';
import type { Policy } from '../policy/types.ts';
import { type Made, makeAttempt, type Reading } from './attempt.ts';
import { type Answer, type Call, type Means, makeCall } from './call.ts';
import { sleep } from './clock.ts';
import type { Log } from './log.ts';
import { type Operation, permitOf } from './operations.ts';
import {
  CALLER_RULES,
  type ClockOptions,
  DEFAULT_REQUEST_TIMEOUT_MS,
  isOwnClock,
  type PolicyOptions,
  policyOf,
  type TimeoutOptions,
  validate,
  validateCall,
  validateEnvironment,
} from './options.ts';
import { type Origin, Origins } from './origins.ts';
import { type Repeatable, repeatable } from './request.ts';
import { Watch } from './watch.ts';

/** The largest answer that is read whole where no other bound is given. */
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/** What all calls of a client are made with. */
export interface CallerOptions extends PolicyOptions, TimeoutOptions, ClockOptions {
  /** Default: the global `fetch` of the moment of each call. */
  fetch?: typeof fetch | undefined;
  log?: Log | undefined;
}

/** One call of an operation. */
export interface OperationCall {
  readonly operation: Operation;
  readonly url: string;
  readonly headers?: HeadersInit | undefined;
  /** A stream is sent once. */
  readonly body?: BodyInit | null | undefined;
  /** What else `fetch` is given, such as `duplex`. */
  readonly init?: Omit<RequestInit, 'method' | 'headers' | 'body' | 'signal'> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Over those of the client. Inside a sandbox or a volume `retries` is 0 unless it is given here. */
  readonly options?: (PolicyOptions & TimeoutOptions) | undefined;
  /** Gets each attempt, besides the client's. */
  readonly log?: Log | undefined;
  /** Whether the body is read within the attempt, so that a cut is seen; see `Reading`. Default `whole`. */
  readonly read?: Reading['read'] | undefined;
  /** The most that is read whole, in bytes. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
}

/** One attempt that nobody judged. Times are in seconds since `began`. */
export interface SingleAttempt extends Made {
  readonly started: number;
  readonly ended: number;
  readonly failedDials: number;
}

/** Makes the calls of an SDK: one ledger each, decided by the policy. */
export class Caller {
  private readonly options: CallerOptions;
  private readonly means: Omit<Means, 'fetch'>;

  /** @throws TypeError for an option that breaks its rule. */
  constructor(options: CallerOptions = {}) {
    const { fetch, ...others } = options;
    if (fetch !== undefined && typeof fetch !== 'function') throw new TypeError('fetch: not a function');
    validate(others, CALLER_RULES);
    validateEnvironment(options);
    this.options = { ...options };
    const now = options.now ?? (() => performance.now());
    const origins = new Origins(now);
    this.means = {
      random: options.random ?? Math.random,
      sleep: options.sleep ?? sleep,
      now,
      origin: (url, engine) => origins.of(url, engine),
      log: options.log,
      ownClock: isOwnClock(options),
    };
  }

  /** Makes a call. It throws what `fetch` or the signal threw, or a `TimeoutError`, each with its history. */
  async send(call: OperationCall): Promise<Answer> {
    validateCall(call.options ?? {});
    return makeCall(this.callOf(call), { ...this.means, fetch: this.fetch, log: both(this.means.log, call.log) });
  }

  /**
   * Makes one attempt, which nobody judges.
   * @param number which of its call's
   * @param began when the call began, on this client's clock
   * @param leftMs how long it may take; undefined: as long as it likes
   */
  async attempt(
    call: OperationCall,
    number: number,
    began: number,
    leftMs: number | undefined,
  ): Promise<SingleAttempt> {
    const { request, reading, timeouts } = this.callOf(call);
    const engine = await loadEngine();
    const origin = this.means.origin(request.url, engine);
    const watch = new Watch(request.signal, leftMs, () => `${request.method} ${call.operation.id} took ${leftMs} ms`);
    const elapsed = (): number => (this.means.now() - began) / 1000;
    const started = elapsed();
    const { round } = origin;
    let handedOn: Response | undefined;
    try {
      const made = await makeAttempt({
        fetch: this.fetch,
        engine,
        watch,
        attemptTimeoutMs: timeouts.attemptTimeoutMs,
        reading,
        request: (signal) => request.make(number, signal),
      });
      const failedDials = origin.note(made.outcome, round);
      if (reading.read === 'stream') handedOn = made.response;
      return { ...made, started, ended: elapsed(), failedDials };
    } finally {
      watch.stop(handedOn);
      origin.leave();
    }
  }

  /** The policy of calls to the control plane, with options over the client's. */
  async policy(options: PolicyOptions = {}): Promise<Policy> {
    return policyOf(await loadEngine(), { ...this.options, ...options });
  }

  /** The state of an origin, which is left again. */
  origin(url: string, engine: Engine): Origin {
    return this.means.origin(url, engine);
  }

  /** Milliseconds on this client's clock. */
  now(): number {
    return this.means.now();
  }

  /** A number in [0, 1). */
  random(): number {
    return this.means.random();
  }

  /** Waits, in milliseconds. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.means.sleep(ms, signal);
  }

  /** What sends: bound now and not before, so that what others put in the global's place is used. */
  private get fetch(): typeof fetch {
    return this.options.fetch ?? globalThis.fetch;
  }

  private callOf(call: OperationCall): Call {
    const { operation } = call;
    const given = call.options ?? {};
    const inside = operation.plane !== 'control_plane' && operation.plane !== 'other';
    return {
      request: requestOf(call),
      operation: operation.id,
      facts: { permit: permitOf(operation), mints: operation.mints },
      policy: (engine) => {
        const policy = policyOf(engine, { ...this.options, ...given });
        // A caller there holds state that this layer cannot see: answers and unknown outcomes come back at once.
        return inside && given.retries === undefined ? { ...policy, retries: 0 } : policy;
      },
      timeouts: {
        requestTimeoutMs: given.requestTimeoutMs ?? this.options.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS,
        attemptTimeoutMs: given.attemptTimeoutMs ?? this.options.attemptTimeoutMs ?? 0,
      },
      reading: {
        read: call.read ?? 'whole',
        maxBytes: call.maxBytes ?? DEFAULT_MAX_BYTES,
        edge: operation.plane === 'envd' || operation.plane === 'code_interpreter',
      },
    };
  }
}

/** Two who are told, neither of whom can keep the other from it. */
function both(one: Log | undefined, other: Log | undefined): Log | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (event) => {
    try {
      one(event);
    } finally {
      other(event);
    }
  };
}

function requestOf(call: OperationCall): Repeatable {
  const init: RequestInit = { ...call.init, method: call.operation.method };
  if (call.headers !== undefined) init.headers = call.headers;
  if (call.body !== undefined) init.body = call.body;
  if (call.signal !== undefined) init.signal = call.signal;
  return repeatable(call.url, init);
}
