import { platform } from '#platform';
import type { Engine } from '../policy/engine.ts';
import { type Policy, PRESETS, type PresetName, REPEAT_UNKNOWN, type RepeatUnknown } from '../policy/types.ts';
import type { LogEvent } from './log.ts';
import { type Operation, OperationTable } from './operations.ts';

/** What decides about repeats. Each option is named as in every other language, in JavaScript's spelling. */
export interface PolicyOptions {
  /** What the others are set over: `default`, or what a version of the official SDK retries. */
  preset?: PresetName | undefined;
  /** Retries after an answer or an unknown outcome, 0 to 1000. Default 3. */
  retries?: number | undefined;
  /**
   * Repeats after failed connects and refusals, 0 to 1000. Default: as many as `retries` where those are given, so that
   * `retries: 0` is one attempt; else what the `preset` says; else
   * `E2B_CONNECTION_RETRIES`; else 3.
   */
  connectionRetries?: number | undefined;
  /** 503 counts as a rejection and is retried for every operation. Default true. */
  trustServiceUnavailable?: boolean | undefined;
  /** 502 is treated like 503. Default false: retried with a permit only. */
  trustBadGateway?: boolean | undefined;
  /** 504 is retried with a permit. Default false: returned. */
  retryGatewayTimeout?: boolean | undefined;
  /** 408 is retried with a permit. Default true. */
  retryRequestTimeoutStatus?: boolean | undefined;
  /** 421 and 425 are refusals, each replayed once. Default true. */
  replayMisdirectedAndEarly?: boolean | undefined;
  /** 429 is retried also without a usable `Retry-After`. Default false. */
  retryRateLimitWithoutHint?: boolean | undefined;
  /** `Should-Retry` is obeyed. Default true. */
  honorShouldRetry?: boolean | undefined;
  /** Retries cost tokens of a budget shared by all calls to an origin. Default true. */
  retryBudget?: boolean | undefined;
  /** Which unknown outcomes may be repeated. Default `permitted`: those with a permit. */
  repeatUnknown?: RepeatUnknown | undefined;
  /** The largest fraction of a `Retry-After` that is added at random, 0 to 1. Default 0. */
  retryAfterJitter?: number | undefined;
  /** Single attempts that may be spent on finding out what an unknown outcome did. Default 16. */
  lookups?: number | undefined;
}

/** How long a call and each of its attempts may take. */
export interface TimeoutOptions {
  /**
   * The call's deadline over all attempts and waits, in milliseconds; 0: none. It ends when the response is handed on,
   * and does not bound a streamed request body. Default 60,000.
   */
  requestTimeoutMs?: number | undefined;
  /** The longest that one attempt may take, in milliseconds; 0, the default: as long as the call. */
  attemptTimeoutMs?: number | undefined;
}

/** Where calls take time and chance from. For tests. */
export interface ClockOptions {
  /** A number in [0, 1). Default `Math.random`. */
  random?: (() => number) | undefined;
  /** Waits between attempts, in milliseconds. An abort ends the call whether this settles or not. */
  sleep?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined;
  /** Milliseconds on a clock that never runs back. Default `performance.now`. */
  now?: (() => number) | undefined;
}

/** All of some options, each given. */
export type Filled<T> = { [Name in keyof T]-?: Exclude<T[Name], undefined> };

/** Options of `withRetry`. */
export interface RetryOptions extends PolicyOptions, TimeoutOptions, ClockOptions {
  /** Which operations the server has, and which of them may be repeated. Default: none, so that the method alone decides. */
  operations?: OperationTable | undefined;
  /** The path below which the operations' paths begin. Default: none. */
  basePath?: string | undefined;
  /**
   * Whether an `Idempotency-Key` on a request permits its repeat. `auto`: it does, unless the table says that the server
   * makes something new with each call (see `operations`), for which only `honoured` will do. Default `auto`.
   */
  idempotencyKeys?: 'auto' | 'honoured' | 'ignored' | undefined;
  /** Makes the `Idempotency-Key` of a call that has none; the same for all its attempts. Default: none is made. */
  idempotencyKey?:
    | ((request: { method: string; url: string; operation: Operation | undefined }) => string | undefined)
    | undefined;
  /** Called after each attempt, and at the end of each call. What it throws is ignored. */
  log?: ((event: LogEvent) => void) | undefined;
}

/** The call's deadline where none is given. */
export const DEFAULT_REQUEST_TIMEOUT_MS = 60_000;

/** The longest time that an option may name, in milliseconds: 2^31 − 1 seconds. */
const MAX_TIMEOUT_MS = (2 ** 31 - 1) * 1000;

/** What an option has to be: `undefined` where it is, else the rule in words. */
export type Rule = (value: unknown) => string | undefined;

/** The rules of options, each by its name. */
export type Rules = Readonly<Record<string, Rule>>;

/** Rules that options share. */
export const RULES = {
  count: (value) => (isWhole(value, 0, 1000) ? undefined : 'a whole number from 0 to 1000'),
  timeout: (value) =>
    typeof value === 'number' && value >= 0 && value <= MAX_TIMEOUT_MS
      ? undefined
      : `a number of milliseconds from 0 (off) to ${MAX_TIMEOUT_MS}`,
  truth: (value) => (typeof value === 'boolean' ? undefined : 'true or false'),
  callable: (value) => (typeof value === 'function' ? undefined : 'a function'),
  text: (value) => (typeof value === 'string' ? undefined : 'a text'),
  fraction: (value) => (typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'a fraction from 0 to 1'),
} satisfies Rules;

/** The rule that a value is one of some texts. */
export const oneOf =
  (all: readonly string[]): Rule =>
  (value) =>
    all.includes(value as string) ? undefined : `one of ${all.join(', ')}`;

/** The rule that a value is a whole number within bounds. */
export const whole =
  (least: number, most = 2 ** 32 - 1): Rule =>
  (value) =>
    isWhole(value, least, most) ? undefined : `a whole number from ${least} to ${most}`;

/** The rules of what decides about repeats, and of timeouts. */
export const CALL_RULES = {
  preset: oneOf(PRESETS),
  retries: RULES.count,
  connectionRetries: RULES.count,
  trustServiceUnavailable: RULES.truth,
  trustBadGateway: RULES.truth,
  retryGatewayTimeout: RULES.truth,
  retryRequestTimeoutStatus: RULES.truth,
  replayMisdirectedAndEarly: RULES.truth,
  retryRateLimitWithoutHint: RULES.truth,
  honorShouldRetry: RULES.truth,
  retryBudget: RULES.truth,
  repeatUnknown: oneOf(REPEAT_UNKNOWN),
  retryAfterJitter: RULES.fraction,
  lookups: whole(0),
  requestTimeoutMs: RULES.timeout,
  attemptTimeoutMs: RULES.timeout,
} satisfies Record<keyof (PolicyOptions & TimeoutOptions), Rule>;

/** The rules of where time and chance come from. */
export const CLOCK_RULES = {
  random: RULES.callable,
  sleep: RULES.callable,
  now: RULES.callable,
} satisfies Record<keyof ClockOptions, Rule>;

/** The rules of every option of `withRetry`. */
export const RETRY_RULES = {
  ...CALL_RULES,
  ...CLOCK_RULES,
  operations: (value) => (value instanceof OperationTable ? undefined : 'an OperationTable'),
  basePath: RULES.text,
  idempotencyKeys: oneOf(['auto', 'honoured', 'ignored']),
  idempotencyKey: RULES.callable,
  log: RULES.callable,
} satisfies Record<keyof RetryOptions, Rule>;

/** The rules of the options that a `Caller` has beside its `fetch`. */
export const CALLER_RULES = { ...CALL_RULES, ...CLOCK_RULES, log: RULES.callable } satisfies Rules;

/**
 * What is wrong with options, each against its rule: there is no other, and one that is undefined counts as not given.
 * Names the option, the value and the rule.
 */
export function complaint(options: unknown, rules: Rules): string | undefined {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    return `options: ${show(options)} is no object`;
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) return `${name}: there is no such option${hint(name, Object.keys(rules))}`;
    const wanted = rule(value);
    if (wanted !== undefined) return `${name}: ${show(value)} is not ${wanted}`;
  }
  return undefined;
}

/** @throws TypeError for options with a {@link complaint}. */
export function validate(options: object, rules: Rules): void {
  const wrong = complaint(options, rules);
  if (wrong !== undefined) throw new TypeError(wrong);
}

/** Checks the options of one call that the SDK makes. */
export function validateCall(options: PolicyOptions & TimeoutOptions): void {
  validate(options, CALL_RULES);
}

/** `connectionRetries`, or what stands for it: see there. */
function connectionRetries(options: PolicyOptions): number | undefined {
  if (options.connectionRetries !== undefined) return options.connectionRetries;
  if (options.retries !== undefined) return options.retries;
  // It says how many.
  if (options.preset !== undefined) return undefined;
  const name = 'E2B_CONNECTION_RETRIES';
  const given = platform.env(name);
  if (given === undefined || given === '') return undefined;
  const value = /^\s*\d+\s*$/.test(given) ? Number(given) : undefined;
  const wanted = RULES.count(value);
  if (wanted !== undefined) throw new TypeError(`${name}: ${show(given)} is not ${wanted}`);
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

/** A value in a message: as it is written, and not at length. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === 'function') return 'a function';
  return typeof value === 'object' && value !== null ? Object.prototype.toString.call(value) : String(value);
}

function isWhole(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

/** A name without what spellings differ in. */
const plain = (name: string): string => name.toLowerCase().replace(/[_-]/g, '');

/**
 * The name of which another one is a spelling for certain: with other letters of the case, with underscores, in the singular or
 * the plural, or mistyped in few of many letters.
 */
export function nearly(given: string, names: readonly string[]): string | undefined {
  const wanted = plain(given);
  return names.find((name) => {
    const own = plain(name);
    if (own === wanted) return true;
    const most = Math.max(own.length, wanted.length);
    if (most >= 4 && (own === `${wanted}s` || `${own}s` === wanted)) return true;
    return steps(wanted, own) <= (most >= 8 ? 2 : most >= 5 ? 1 : 0);
  });
}

/** Which option may have been meant, or which there are. */
function hint(given: string, names: readonly string[]): string {
  const wanted = plain(given);
  let nearest: string | undefined;
  let least = Math.max(2, Math.floor(wanted.length / 4)) + 1;
  for (const name of names) {
    const distance = steps(wanted, plain(name));
    if (distance < least) [nearest, least] = [name, distance];
  }
  return nearest === undefined ? ` (there are ${names.join(', ')})` : `; did you mean ${nearest}?`;
}

/** How many letters have to be put in, taken out, replaced or swapped with the next to make one word the other. */
function steps(one: string, other: string): number {
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= Math.min(one.length, LONGEST_NAME); i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      const swapped = one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const [up = 0, left = 0, across = 0] = [row[j], next[j - 1], row[j - 1]];
      next[j] = Math.min(
        up + 1,
        left + 1,
        across + same,
        swapped ? (before[j - 2] ?? i) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, row] = [row, next];
  }
  return row[other.length] ?? 0;
}

/** No option's name is as long. */
const LONGEST_NAME = 64;
