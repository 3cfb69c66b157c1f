/** The options of a connection: explicit, else of the environment, else the defaults. */

import type { Background } from '../create/background.ts';
import type { CreateOptions } from '../create/creates.ts';
import type { Log } from '../retry/log.ts';
import { type PolicyOptions, type TimeoutOptions, validateEnvironment } from '../retry/options.ts';
import { baseUrl, checkDomain, DEFAULT_DOMAIN, directBase, ENVD_PORT, hostOf, sandboxBase } from './endpoints.ts';
import { env } from './env.ts';
import { AuthenticationError, InvalidArgumentError } from './errors.ts';
import {
  type ConnectionOpts,
  checkOptions,
  clockOptions,
  environment,
  type Logger,
  nativeOptions,
  policyOptions,
} from './options.ts';
import { ownerOf } from './owner.ts';
import { hide, isBrowser } from './runtime.ts';
import type { Trail } from './trail.ts';
import { type Sender, senderOf } from './transport/sender.ts';
import { merged, milliseconds, texts, whole } from './validate.ts';

export { type ConnectionOpts, type ConnectionsOpts, connectionOf, type Logger } from './options.ts';

/** The version that is told to servers. */
export const VERSION = '0.1.0';

/** The official name of the same. */
export type ConnectionConfigOpts = ConnectionOpts;

/** A name of a user in a sandbox: `user`, `root`, or one that its template has. */
export type Username = string;

/** Names of headers whose values are secrets. */
const OF_SECRET = /auth|cookie|token|key|secret|password/i;

/** Shorter ones guard nothing: they are words of their own, such as `local` is the key of a server of one's own. */
const SHORTEST_SECRET = 8;

/** What of this is a secret. */
export function guarding(values: readonly (string | undefined)[]): string[] {
  return values.filter((value) => value !== undefined).filter((value) => value.length >= SHORTEST_SECRET);
}

/** Options of a connection, read and checked. */
export class ConnectionConfig {
  /** The daemon's port in a sandbox. */
  static envdPort = ENVD_PORT;
  private static integration: string | undefined;

  /** Adds a name to the `User-Agent` of all requests to come; `undefined` takes it away. */
  static setIntegration(integration: string | undefined): void {
    if (integration !== undefined && !/^[\x20-\x7e]+$/.test(integration)) {
      throw new InvalidArgumentError('integration: it holds characters that a header cannot');
    }
    ConnectionConfig.integration = integration;
  }

  /** Whether a service on this machine is used. */
  readonly debug: boolean;
  /** The service's domain. */
  readonly domain: string;
  /** The control plane's address, without a slash at its end. */
  readonly apiUrl: string;
  /** The address of volumes' content; absent: as the domain says. */
  readonly volumeApiUrl: string | undefined;
  /** The address of all sandboxes; absent: as the domain says. */
  readonly sandboxUrl?: string;
  /** What gets a line for each thing worth telling. */
  readonly logger?: Logger;
  /** How long a call may take, in milliseconds; 0: no limit. */
  readonly requestTimeoutMs: number;
  /** How often a call to the control plane may be sent again after an answer or an unknown outcome. */
  readonly retries: number;
  /** How often a call may be sent again because nothing was sent; absent: as `retries`. */
  readonly connectionRetries: number | undefined;
  /** What was given of what decides about repeats, and of the limit of an attempt. */
  readonly policy: PolicyOptions & Pick<TimeoutOptions, 'attemptTimeoutMs'>;
  /** How long nothing may come of a file that is read as a stream, in milliseconds; 0: for ever. */
  readonly readIdleTimeoutMs: number;
  /** Gets each attempt. */
  readonly log: Log | undefined;
  /** The API key, where there is one. */
  readonly apiKey?: string;
  /** As it was given; ignored. */
  readonly validateApiKey?: boolean;
  /** More headers of requests to the control plane. */
  readonly headers?: Record<string, string>;
  /** More headers of all requests. */
  readonly requestHeaders: Record<string, string>;
  /** What `E2B_USER_AGENT_SOURCE` says. */
  readonly requestSource?: string;
  /** The proxy, as it was given. */
  readonly proxy?: NonNullable<ConnectionOpts['proxy']>;
  /** What aborts each call. */
  readonly signal: AbortSignal | undefined;
  /** How creates go about it. */
  readonly createOptions: CreateOptions;
  /** @internal Where the client that its creates belong to waits for them. */
  readonly background: Background | undefined;
  /** Who sends the requests of this connection. */
  readonly sender: Sender;
  /** @internal Where its requests are noted. */
  readonly trail: Trail | undefined;

  /**
   * @param own names of options that a call has besides, and checks itself
   * @throws InvalidArgumentError where an option, or what the environment says in its place, breaks its rule;
   * UnsupportedError where it needs the native transport, and another carries the requests.
   */
  constructor(opts: ConnectionOpts = {}, own: readonly string[] = []) {
    checkOptions(opts, own);
    this.debug = opts.debug ?? env('E2B_DEBUG')?.toLowerCase() === 'true';
    this.domain = checkDomain(opts.domain ?? env('E2B_DOMAIN') ?? DEFAULT_DOMAIN);
    const api = opts.apiUrl ?? env('E2B_API_URL');
    const ofDomain = this.debug ? 'http://localhost:3000' : `https://api.${this.domain}`;
    this.apiUrl = api === undefined ? ofDomain : baseUrl('apiUrl', api);
    const sandboxes = opts.sandboxUrl ?? env('E2B_SANDBOX_URL');
    if (sandboxes !== undefined) this.sandboxUrl = baseUrl('sandboxUrl', sandboxes);
    const volumes =
      opts.volumeApiUrl ?? env('E2B_VOLUME_API_URL') ?? (this.debug ? 'http://localhost:8080' : undefined);
    this.volumeApiUrl = volumes === undefined ? undefined : baseUrl('volumeApiUrl', volumes);
    this.requestTimeoutMs = milliseconds('requestTimeoutMs', opts.requestTimeoutMs ?? 60_000);
    this.policy = policyOptions({ ...opts, requestTimeoutMs: undefined });
    this.retries = opts.retries ?? 3;
    this.connectionRetries = connectionRetries(opts);
    this.readIdleTimeoutMs = opts.readIdleTimeoutMs ?? 60_000;
    this.log = logOf(opts);
    const key = opts.apiKey ?? env('E2B_API_KEY');
    if (key !== undefined) this.apiKey = headerValue('apiKey', key);
    if (opts.validateApiKey !== undefined) this.validateApiKey = opts.validateApiKey;
    if (opts.logger !== undefined) this.logger = opts.logger;
    this.headers = merged(
      checkHeaders('headers', texts('headers', opts.headers ?? {})),
      checkHeaders('apiHeaders', texts('apiHeaders', opts.apiHeaders ?? {})),
    );
    this.requestHeaders = checkHeaders('requestHeaders', texts('requestHeaders', opts.requestHeaders ?? {}));
    const source = env('E2B_USER_AGENT_SOURCE');
    if (source !== undefined) this.requestSource = source;
    if (opts.proxy !== undefined) this.proxy = opts.proxy;
    this.signal = opts.signal;
    this.createOptions = createOptions(opts);
    this.background = ownerOf(opts);
    environment();
    const { fetch, transport } = opts;
    this.sender = senderOf({ fetch, transport, native: nativeOptions(opts), clock: clockOptions(opts) });
    hide(this, 'apiKey', 'headers', 'requestHeaders', 'proxy', 'background', 'sender');
  }

  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): ConnectionConfig {
    return Object.create(this, { trail: { value: trail.within(this.trail) } });
  }

  /** Options of a call over those of its object; what a call leaves out, or gives as `undefined`, is the object's. */
  static mergeOpts<T extends ConnectionOpts>(boundOpts: ConnectionOpts | undefined, opts?: T): T | undefined {
    if (boundOpts === undefined) return opts;
    const given = Object.entries(opts ?? {}).filter(([, value]) => value !== undefined);
    return { ...boundOpts, ...Object.fromEntries(given) } as T;
  }

  /**
   * The key of the control plane.
   *
   * @throws AuthenticationError where there is none.
   */
  get requiredApiKey(): string {
    if (this.apiKey !== undefined) return this.apiKey;
    if (this.debug) return 'debug';
    throw new AuthenticationError(
      'there is no API key: give `apiKey`, or set the environment variable E2B_API_KEY; nothing was sent',
    );
  }

  /** @internal What no error may tell of what its requests carry. */
  get secrets(): readonly string[] {
    const headers = Object.entries(merged(this.requestHeaders, this.headers));
    const told = headers
      .filter(([name]) => OF_SECRET.test(name))
      .flatMap(([, value]) => [value, ...value.split(/[\s;,]+/)]);
    return guarding([this.apiKey, ...told]);
  }

  /** What says who sends a request. Browsers set their own. */
  get userAgent(): Record<string, string> {
    if (isBrowser()) return {};
    const integration = ConnectionConfig.integration;
    const source = this.requestSource === undefined ? '' : ` source/${this.requestSource}`;
    return { 'User-Agent': `oncebox-js/${VERSION}${integration ? ` ${integration}` : ''}${source}` };
  }

  /** One signal of a time limit, in milliseconds, and of another signal; absent where there is neither. */
  getSignal(requestTimeoutMs: number = this.requestTimeoutMs, signal?: AbortSignal): AbortSignal | undefined {
    // A part of a millisecond is none to Node's signals.
    const ms = Math.ceil(milliseconds('requestTimeoutMs', requestTimeoutMs));
    const limit = ms > 0 ? AbortSignal.timeout(ms) : undefined;
    if (limit === undefined || signal === undefined) return limit ?? signal;
    return AbortSignal.any([limit, signal]);
  }

  /** The address of a port of a sandbox, for requests that carry the routing headers. */
  getSandboxUrl(sandboxId: string, opts: { sandboxDomain: string; envdPort: number }): string {
    return sandboxBase(this, sandboxId, opts.envdPort, opts.sandboxDomain, isBrowser());
  }

  /** The address of a port of a sandbox, for requests that carry none: signed URLs. */
  getSandboxDirectUrl(sandboxId: string, opts: { sandboxDomain: string; envdPort: number }): string {
    return directBase(this, sandboxId, opts.envdPort, opts.sandboxDomain);
  }

  /** The host of a port of a sandbox. */
  getHost(sandboxId: string, port: number, sandboxDomain: string): string {
    return hostOf(this, sandboxId, whole('port', port, 1, 65_535), sandboxDomain);
  }
}

function createOptions({ idempotencyKeys, settleMs, cleanupTimeoutMs }: ConnectionOpts): CreateOptions {
  return {
    ...(idempotencyKeys === undefined ? {} : { idempotencyKeys }),
    ...(settleMs === undefined ? {} : { settleMs }),
    ...(cleanupTimeoutMs === undefined ? {} : { cleanupTimeoutMs }),
  };
}

/** What it is where it is not as `retries`, or the preset says. */
function connectionRetries(opts: ConnectionOpts): number | undefined {
  try {
    validateEnvironment(opts);
  } catch (cause) {
    throw new InvalidArgumentError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
  const isGiven = opts.retries !== undefined || opts.preset !== undefined;
  if (opts.connectionRetries !== undefined || isGiven) return opts.connectionRetries;
  const variable = env('E2B_CONNECTION_RETRIES');
  return variable === undefined ? undefined : Number(variable);
}

/** Who is told of attempts. */
function logOf({ log, logger }: ConnectionOpts): Log | undefined {
  if (logger?.debug === undefined) return log;
  return (event) => {
    try {
      log?.(event);
    } finally {
      logger.debug?.(event.text, event);
    }
  };
}

/** Names and values that can be sent. */
function checkHeaders(option: string, headers: Record<string, string>): Record<string, string> {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      throw new InvalidArgumentError(`${option}: ${JSON.stringify(name)} is no name of a header`);
    }
    headerValue(`${option}: ${name}`, value);
  }
  return headers;
}

/** A header's value: what fetch would refuse is refused before, without telling the value, which may be a secret. */
function headerValue(option: string, value: unknown): string {
  if (typeof value !== 'string' || value === '' || /[^\t\x20-\x7e\x80-\xff]/.test(value)) {
    throw new InvalidArgumentError(`${option}: it is empty, or holds characters that a header cannot`);
  }
  return value;
}
