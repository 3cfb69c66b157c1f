/** What a connection may be given: the options, their rules, and which of them only the native transport has. */

import type { NativeOptions } from '../native/fetch.ts';
import { NATIVE_RULES } from '../native/rules.ts';
import type { LogEvent } from '../retry/log.ts';
import {
  CALL_RULES,
  CLOCK_RULES,
  type ClockOptions,
  complaint,
  oneOf,
  type PolicyOptions,
  RULES,
  type Rule,
  type Rules,
  type TimeoutOptions,
  whole,
} from '../retry/options.ts';
import type { Transport } from '../transport.ts';
import { env } from './env.ts';
import { InvalidArgumentError } from './errors.ts';

/** Where log lines go; `console` is one. */
export interface Logger {
  /** Gets each attempt of each call, with what was decided then, and each call's end: in words, and as a {@link LogEvent}. */
  debug?: (...args: unknown[]) => void;
  /** Gets what is as it should be. */
  info?: (...args: unknown[]) => void;
  /** Gets what may be wrong. */
  warn?: (...args: unknown[]) => void;
  /** Gets what is wrong. */
  error?: (...args: unknown[]) => void;
}

/**
 * What only the native transport has. Where another carries the requests, these are refused with {@link UnsupportedError}:
 * none is lost in silence. Times are milliseconds; 0: no limit.
 */
export interface ConnectionsOpts {
  /**
   * A proxy's URL, perhaps with exceptions as of `NO_PROXY`, or `false` for none. Default: what `HTTP_PROXY`,
   * `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
   */
  proxy?: string | { readonly url: string; readonly except: string } | false | undefined;
  /** Certificates that are trusted besides the platform's, in PEM form. */
  rootCertificates?: string | readonly string[] | undefined;
  /** What is shown to servers that ask for a certificate, in PEM form. */
  clientCertificate?: { readonly cert: string; readonly key: string } | undefined;
  /** Accepts any certificate. For tests: whoever sits in between can read and change everything, the API key included. */
  dangerAcceptInvalidCertificates?: boolean | undefined;
  /** Which version of HTTP is spoken. Default: `E2B_HTTP_VERSION`, else what the server chooses; without TLS HTTP/1.1. */
  httpVersion?: 'auto' | '1.1' | '2' | undefined;
  /** Connections to one origin, at least 1. Default: `E2B_MAX_CONNECTIONS`, else 200. */
  maxConnections?: number | undefined;
  /** How long an idle connection is kept. Default: `E2B_KEEPALIVE_EXPIRY` (in seconds), else 300,000, for HTTP/1.1 4,000. */
  keepaliveExpiryMs?: number | undefined;
  /** Streams on an origin's first HTTP/2 connection before its SETTINGS have come, at least 1. Default: 10. */
  initialStreams?: number | undefined;
  /** When an HTTP/2 connection is replaced, by its age. Default: 0, never. */
  maxConnectionAgeMs?: number | undefined;
  /** How long an HTTP/2 peer with open streams may be silent before it is asked whether it lives. Default: 20,000. */
  pingIntervalMs?: number | undefined;
  /** How long it may take to answer that. Default: 10,000. */
  pingTimeoutMs?: number | undefined;
  /** How long a peer may be silent before the kernel asks whether it lives. Default: 30,000. */
  tcpKeepaliveMs?: number | undefined;
  /** How long a server may take none of an upload. Default: 60,000. */
  writeIdleTimeoutMs?: number | undefined;
  /** The path of a Unix socket over which everything is reached. */
  unixSocket?: string | undefined;
  /** Sends `traceparent` with each attempt. Default: false. */
  traceContext?: boolean | undefined;
  /** Makes the jitter of waits repeatable: a whole number. */
  seed?: number | undefined;
  /** How much of a streamed request body is kept to be sent again, in bytes. Default: 65,536. */
  replayBufferLimit?: number | undefined;
  /** How long a name's addresses may take to come. Default: 10,000. */
  dnsTimeoutMs?: number | undefined;
  /** How long it may take until one of a host's addresses answers. Default: 30,000. */
  connectTimeoutMs?: number | undefined;
  /** How long a TLS handshake may take. Default: 10,000. */
  tlsTimeoutMs?: number | undefined;
  /** How long a proxy may take to open a tunnel. Default: 30,000. */
  proxyTimeoutMs?: number | undefined;
}

/** How to reach the service. Every option can be given to every call of the control plane, too. */
export interface ConnectionOpts extends PolicyOptions, TimeoutOptions, ClockOptions, ConnectionsOpts {
  /** The API key. Default: `E2B_API_KEY`. */
  apiKey?: string | undefined;
  /** Ignored: keys have no form that could be checked. */
  validateApiKey?: boolean | undefined;
  /** The service's domain, perhaps with a port. Default: `E2B_DOMAIN`, else `e2b.app`. */
  domain?: string | undefined;
  /** The control plane's address; a path in it is kept. Default: `E2B_API_URL`, else `https://api.<domain>`. */
  apiUrl?: string | undefined;
  /**
   * The address of sandboxes, which are then told apart by headers; or one for each, by `{id}` and `{port}` in it.
   * Default: `E2B_SANDBOX_URL`, else what follows from the domain.
   */
  sandboxUrl?: string | undefined;
  /** The address of volumes' content. Default: `E2B_VOLUME_API_URL`, else `https://api.<domain>`. */
  volumeApiUrl?: string | undefined;
  /** Uses a service on this machine: `http://localhost:3000`. Default: `E2B_DEBUG`, else false. */
  debug?: boolean | undefined;
  /**
   * How long a call may take, all its attempts together, in **milliseconds**; of a stream, until it begins. 0: no limit.
   * Default: 60,000.
   */
  requestTimeoutMs?: number | undefined;
  /**
   * How often a call to the control plane may be sent again after an answer or an unknown outcome, where it may be.
   * Default: 3. Calls to sandboxes and volumes: 0 unless given.
   */
  retries?: number | undefined;
  /**
   * Ends a file that is read as a stream when nothing came for this long, in **milliseconds**; 0: never. A read's own
   * `streamIdleTimeoutMs` takes its place, and commands have a watchdog of their own. Default: 60,000.
   */
  readIdleTimeoutMs?: number | undefined;
  /** Gets a line for each thing worth telling. */
  logger?: Logger | undefined;
  /** Gets each attempt of each call, with what was decided then, and each call's end. What it throws is ignored. */
  log?: ((event: LogEvent) => void) | undefined;
  /** More headers of requests to the control plane. The same as `apiHeaders`, which wins. */
  headers?: Record<string, string> | undefined;
  /** More headers of requests to the control plane. */
  apiHeaders?: Record<string, string> | undefined;
  /** More headers of all requests, to sandboxes, too: what runs in one may see them. Those of the control plane alone win. */
  requestHeaders?: Record<string, string> | undefined;
  /** Aborts the call; its reason is thrown. */
  signal?: AbortSignal | undefined;
  /**
   * What sends the requests, in place of the native transport and the runtime's own `fetch`. That of
   * {@link openTransport} has every option of the native transport.
   */
  fetch?: typeof globalThis.fetch | undefined;
  /** Whether the server honours idempotency keys. Default: `auto`, not before it has shown that it does. */
  idempotencyKeys?: 'auto' | 'honoured' | 'ignored' | undefined;
  /**
   * How long the look-ups of a create whose answer was lost must stay empty before they are believed, in
   * **milliseconds**. Default: 10,000.
   */
  settleMs?: number | undefined;
  /** The bound of what goes on after a create has ended, in **milliseconds**. Default: 30,000. */
  cleanupTimeoutMs?: number | undefined;
  /** Default: `native` where it loads, else `fetch`, the runtime's own. */
  transport?: Transport | undefined;
}

/** The options that only the native transport has. */
const OF_NATIVE: readonly string[] = [
  'proxy',
  'rootCertificates',
  'clientCertificate',
  'dangerAcceptInvalidCertificates',
  'httpVersion',
  'maxConnections',
  'keepaliveExpiryMs',
  'maxConnectionAgeMs',
  'pingIntervalMs',
  'pingTimeoutMs',
  'tcpKeepaliveMs',
  'writeIdleTimeoutMs',
  'unixSocket',
  'traceContext',
  'seed',
  'initialStreams',
  'replayBufferLimit',
  'dnsTimeoutMs',
  'connectTimeoutMs',
  'tlsTimeoutMs',
  'proxyTimeoutMs',
] satisfies readonly (keyof ConnectionsOpts & keyof NativeOptions)[];

/** Looked at where they are used, which says more than that they are no text, and never what they hold. */
const anything: Rule = () => undefined;

const object = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

const headers: Rule = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'an object of texts';

const RULES_OF_CONNECTIONS = {
  ...CALL_RULES,
  ...CLOCK_RULES,
  apiKey: anything,
  validateApiKey: RULES.truth,
  domain: RULES.text,
  apiUrl: RULES.text,
  sandboxUrl: RULES.text,
  volumeApiUrl: RULES.text,
  debug: RULES.truth,
  // Any number from 0 on, as in the official SDK: one that no timer can have is the longest.
  requestTimeoutMs: (value) =>
    typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY
      ? undefined
      : 'a number of milliseconds, from 0 (off) on',
  readIdleTimeoutMs: RULES.timeout,
  logger: (value) => (typeof value === 'object' || typeof value === 'function' ? undefined : 'a logger, as console is'),
  log: RULES.callable,
  headers,
  apiHeaders: headers,
  requestHeaders: headers,
  signal: (value) => (typeof object(value).aborted === 'boolean' ? undefined : 'an AbortSignal'),
  fetch: RULES.callable,
  idempotencyKeys: oneOf(['auto', 'honoured', 'ignored']),
  settleMs: RULES.timeout,
  cleanupTimeoutMs: RULES.timeout,
  transport: oneOf(['native', 'fetch']),
  proxy: NATIVE_RULES.proxy,
  rootCertificates: NATIVE_RULES.rootCertificates,
  clientCertificate: NATIVE_RULES.clientCertificate,
  dangerAcceptInvalidCertificates: NATIVE_RULES.dangerAcceptInvalidCertificates,
  httpVersion: NATIVE_RULES.httpVersion,
  maxConnections: NATIVE_RULES.maxConnections,
  keepaliveExpiryMs: NATIVE_RULES.keepaliveExpiryMs,
  maxConnectionAgeMs: NATIVE_RULES.maxConnectionAgeMs,
  pingIntervalMs: NATIVE_RULES.pingIntervalMs,
  pingTimeoutMs: NATIVE_RULES.pingTimeoutMs,
  tcpKeepaliveMs: NATIVE_RULES.tcpKeepaliveMs,
  writeIdleTimeoutMs: NATIVE_RULES.writeIdleTimeoutMs,
  unixSocket: NATIVE_RULES.unixSocket,
  traceContext: NATIVE_RULES.traceContext,
  seed: NATIVE_RULES.seed,
  initialStreams: NATIVE_RULES.initialStreams,
  replayBufferLimit: NATIVE_RULES.replayBufferLimit,
  dnsTimeoutMs: NATIVE_RULES.dnsTimeoutMs,
  connectTimeoutMs: NATIVE_RULES.connectTimeoutMs,
  tlsTimeoutMs: NATIVE_RULES.tlsTimeoutMs,
  proxyTimeoutMs: NATIVE_RULES.proxyTimeoutMs,
} satisfies Record<keyof ConnectionOpts, Rule>;

/** The names of all options of a connection. */
export const connectionNames: readonly string[] = Object.keys(RULES_OF_CONNECTIONS);

/**
 * Checks options, before anything is sent.
 *
 * @param own names of those that a call has besides, which it checks itself
 * @throws InvalidArgumentError that names the option, the value and the rule.
 */
export function checkOptions(options: unknown, own: readonly string[] = []): void {
  const rules: Rules = { ...RULES_OF_CONNECTIONS, ...Object.fromEntries(own.map((name) => [name, anything])) };
  const wrong = complaint(options, rules);
  if (wrong !== undefined) throw new InvalidArgumentError(wrong);
}

/** Options that are those of one call, and not of its connection. */
const OF_CALLS = ['signal', 'validateApiKey'];

/** What of a call's options its connection has. */
export function connectionOf(options: ConnectionOpts): ConnectionOpts {
  return picked(
    options,
    connectionNames.filter((name) => !OF_CALLS.includes(name)),
  );
}

/** What of options decides about repeats, and how long an attempt may take. */
export function policyOptions(options: ConnectionOpts): PolicyOptions & TimeoutOptions {
  return picked(options, Object.keys(CALL_RULES));
}

/** What of options says where time and chance come from. */
export function clockOptions(options: ConnectionOpts): ClockOptions {
  return picked(options, Object.keys(CLOCK_RULES));
}

/** What is given of options that only the native transport has. */
export function nativeOptions(options: ConnectionOpts): ConnectionsOpts {
  return picked(options, OF_NATIVE);
}

/** The options of the native transport: what was given, else what the environment says. */
export function nativeOptionsOf(given: ConnectionsOpts): NativeOptions {
  return { ...environment(), ...given };
}

/**
 * What the environment says of the native transport.
 *
 * @throws InvalidArgumentError where that makes no sense.
 */
export function environment(): ConnectionsOpts {
  const version = env('E2B_HTTP_VERSION')?.trim();
  const wrong = version === undefined ? undefined : oneOf(['1.1', '2'])(version);
  if (wrong !== undefined)
    throw new InvalidArgumentError(`E2B_HTTP_VERSION: ${JSON.stringify(version)} is not ${wrong}`);
  const seconds = number('E2B_KEEPALIVE_EXPIRY', 0);
  return picked(
    {
      httpVersion: version as ConnectionsOpts['httpVersion'],
      maxConnections: number('E2B_MAX_CONNECTIONS', 1),
      keepaliveExpiryMs: seconds === undefined ? undefined : seconds * 1000,
    },
    ['httpVersion', 'maxConnections', 'keepaliveExpiryMs'],
  );
}

function number(name: string, least: number): number | undefined {
  const text = env(name);
  if (text === undefined) return undefined;
  const value = /^\s*\d+\s*$/.test(text) ? Number(text) : undefined;
  const wanted = whole(least)(value);
  if (wanted !== undefined) throw new InvalidArgumentError(`${name}: ${JSON.stringify(text)} is not ${wanted}`);
  return value;
}

/** Those of options that are given, of some names. */
function picked<T extends object>(options: T, names: readonly string[]): T {
  const given = Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name));
  return Object.fromEntries(given) as T;
}
