import { platform } from '#platform';
import type { Engine } from '../policy/engine.ts';
import { type Policy, PRESETS, type PresetName, REPEAT_UNKNOWN, type RepeatUnknown } from '../policy/types.ts';
import type { Attempt } from './history.ts';
import { type Operation, OperationTable } from './operations.ts';

/** What decides about repeats. Each option is named as in every other language, in JavaScript's spelling. */
export interface PolicyOptions {
  /** What the others are set over: `default`, or what a version of the official SDK retries. */
  preset?: PresetName;
  /** Retries after an answer or an unknown outcome, 0 to 1000. Default 3. */
  retries?: number;
  /**
   * Repeats after failed connects and refusals, 0 to 1000. Default: as many as `retries` where those are given, so that
   * `retries: 0` is one attempt; else `E2B_CONNECTION_RETRIES`; else 3.
   */
  connectionRetries?: number;
  /** 503 counts as a rejection and is retried for every operation. Default true. */
  trustServiceUnavailable?: boolean;
  /** 502 is treated like 503. Default false: retried with a permit only. */
  trustBadGateway?: boolean;
  /** 504 is retried with a permit. Default false: returned. */
  retryGatewayTimeout?: boolean;
  /** 408 is retried with a permit. Default true. */
  retryRequestTimeoutStatus?: boolean;
  /** 421 and 425 are refusals, each replayed once. Default true. */
  replayMisdirectedAndEarly?: boolean;
  /** 429 is retried also without a usable `Retry-After`. Default false. */
  retryRateLimitWithoutHint?: boolean;
  /** `Should-Retry` is obeyed. Default true. */
  honorShouldRetry?: boolean;
  /** Retries cost tokens of a budget shared by all calls to an origin. Default true. */
  retryBudget?: boolean;
  /** Which unknown outcomes may be repeated. Default `permitted`: those with a permit. */
  repeatUnknown?: RepeatUnknown;
  /** The largest fraction of a `Retry-After` that is added at random, 0 to 1. Default 0. */
  retryAfterJitter?: number;
  /** Single attempts that may be spent on finding out what an unknown outcome did. Default 16. */
  lookups?: number;
}

/** How long a call and each of its attempts may take. */
export interface TimeoutOptions {
  /**
   * The call's deadline over all attempts and waits, in milliseconds; 0: none. It ends when the response is handed on,
   * and does not bound a streamed request body. Default 60,000.
   */
  requestTimeoutMs?: number;
  /** The longest that one attempt may take, in milliseconds; 0, the default: as long as the call. */
  attemptTimeoutMs?: number;
}

/** Where calls take time and chance from. For tests. */
export interface ClockOptions {
  /** A number in [0, 1). Default `Math.random`. */
  random?: () => number;
  /** Waits between attempts, in milliseconds. An abort ends the call whether this settles or not. */
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Milliseconds on a clock that never runs back. Default `performance.now`. */
  now?: () => number;
}

/** One attempt that ended, as a log gets it. */
export interface LogEvent {
  readonly method: string;
  /** Without credentials, query and fragment. */
  readonly url: string;
  /** The operation's id, where a table lists it. */
  readonly operation: string | undefined;
  /** The attempt, with what was decided. */
  readonly attempt: Attempt;
  /** The same in words. */
  readonly text: string;
}

/** Options of `withRetry`. */
export interface RetryOptions extends PolicyOptions, TimeoutOptions, ClockOptions {
  /** Which operations the server has, and which of them may be repeated. Default: none, so that the method alone decides. */
  operations?: OperationTable;
  /** The path below which the operations' paths begin. Default: none. */
  basePath?: string;
  /**
   * Whether an `Idempotency-Key` on a request permits its repeat. `auto`: it does, unless the table says that the server
   * makes something new with each call (see `operations`), for which only `honoured` will do. Default `auto`.
   */
  idempotencyKeys?: 'auto' | 'honoured' | 'ignored';
  /** Makes the `Idempotency-Key` of a call that has none; the same for all its attempts. Default: none is made. */
  idempotencyKey?: (request: { method: string; url: string; operation: Operation | undefined }) => string | undefined;
  /** Called after each attempt. What it throws is ignored. */
  log?: (event: LogEvent) => void;
}

/** The call's deadline where none is given. */
export const DEFAULT_REQUEST_TIMEOUT_MS = 60_000;

/** The longest time that an option may name, in milliseconds: 2^31 − 1 seconds. */
const MAX_TIMEOUT_MS = (2 ** 31 - 1) * 1000;

const SWITCHES = [
  'trustServiceUnavailable',
  'trustBadGateway',
  'retryGatewayTimeout',
  'retryRequestTimeoutStatus',
  'replayMisdirectedAndEarly',
  'retryRateLimitWithoutHint',
  'honorShouldRetry',
  'retryBudget',
] as const;

/** What an option has to be. */
type Rule = (value: unknown) => string | undefined;

const count: Rule = (value) =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 1000
    ? undefined
    : 'a whole number from 0 to 1000';
const timeout: Rule = (value) =>
  typeof value === 'number' && value >= 0 && value <= MAX_TIMEOUT_MS
    ? undefined
    : `a number of milliseconds from 0 (off) to ${MAX_TIMEOUT_MS}`;
const truth: Rule = (value) => (typeof value === 'boolean' ? undefined : 'true or false');
const callable: Rule = (value) => (typeof value === 'function' ? undefined : 'a function');
const text: Rule = (value) => (typeof value === 'string' ? undefined : 'a text');
const fraction: Rule = (value) =>
  typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'a fraction from 0 to 1';
const oneOf =
  (all: readonly string[]): Rule =>
  (value) =>
    all.includes(value as string) ? undefined : `one of ${all.join(', ')}`;

/** The rules of what decides about repeats, and of timeouts. */
const CALL_RULES: Record<string, Rule> = {
  preset: oneOf(PRESETS),
  retries: count,
  connectionRetries: count,
  ...Object.fromEntries(SWITCHES.map((name) => [name, truth])),
  repeatUnknown: oneOf(REPEAT_UNKNOWN),
  retryAfterJitter: fraction,
  lookups: (value) =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32
      ? undefined
      : 'a whole number from 0 on',
  requestTimeoutMs: timeout,
  attemptTimeoutMs: timeout,
};

/** The rules of every option of `withRetry`. */
export const RETRY_RULES: Record<string, Rule> = {
  ...CALL_RULES,
  random: callable,
  sleep: callable,
  now: callable,
  operations: (value) => (value instanceof OperationTable ? undefined : 'an OperationTable'),
  basePath: text,
  idempotencyKeys: oneOf(['auto', 'honoured', 'ignored']),
  idempotencyKey: callable,
  log: callable,
};

/** Checks every option against its rule, and that there is no other. An option that is undefined counts as not given. */
export function validate(options: object, rules: Record<string, Rule>): void {
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(rules, name)) {
      throw new TypeError(`${name}: there is no such option (there are ${Object.keys(rules).join(', ')})`);
    }
    const wanted = value === undefined ? undefined : rules[name]?.(value);
    if (wanted !== undefined) throw new TypeError(`${name}: ${show(value)} is not ${wanted}`);
  }
}

/** Checks the options of one call that the SDK makes. */
export function validateCall(options: PolicyOptions & TimeoutOptions): void {
  validate(options, CALL_RULES);
}

/** `connectionRetries`, or what stands for it: see there. */
function connectionRetries(options: PolicyOptions): number | undefined {
  if (options.connectionRetries !== undefined) return options.connectionRetries;
  if (options.retries !== undefined) return options.retries;
  const name = 'E2B_CONNECTION_RETRIES';
  const given = platform.env(name);
  if (given === undefined || given === '') return undefined;
  const value = /^\s*\d+\s*$/.test(given) ? Number(given) : undefined;
  if (count(value) !== undefined) throw new TypeError(`${name}: ${given} is not ${count(value)}`);
  return value;
}

/** The policy that options stand for: a preset, and what is given over it. */
export function policyOf(engine: Engine, options: PolicyOptions): Policy {
  const policy: Record<string, unknown> = { ...engine.preset(options.preset ?? 'default') };
  for (const name of Object.keys(policy)) {
    const given = options[name as keyof PolicyOptions];
    if (given !== undefined) policy[name] = given;
  }
  policy.connectionRetries = connectionRetries(options) ?? policy.connectionRetries;
  return policy as unknown as Policy;
}

/** Whether time and chance are left to this package. */
export function isOwnClock({ random, sleep, now }: ClockOptions): boolean {
  return random === undefined && sleep === undefined && now === undefined;
}

/** Reads what options take from the environment, so that a mistake there is found before anything is sent. */
export function validateEnvironment(options: PolicyOptions): void {
  connectionRetries(options);
}

function show(value: unknown): string {
  return typeof value === 'object' && value !== null ? Object.prototype.toString.call(value) : String(value);
}
