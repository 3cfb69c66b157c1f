/** The options of a connection: explicit, else of the environment, else the defaults. */

import type { CreateOptions } from '../create/creates.ts';
import type { Transport } from '../transport.ts';
import { baseUrl, checkDomain, DEFAULT_DOMAIN, directBase, ENVD_PORT, hostOf, sandboxBase } from './endpoints.ts';
import { env } from './env.ts';
import { AuthenticationError, InvalidArgumentError } from './errors.ts';
import { hide, isBrowser } from './runtime.ts';
import { type Sender, senderOf } from './transport/sender.ts';
import { milliseconds, texts, whole } from './validate.ts';

/** The version that is told to servers. */
export const VERSION = '0.1.0';

/** Where log lines go; `console` is one. */
export interface Logger {
  /** Gets what helps to find a mistake. */
  debug?: (...args: unknown[]) => void;
  /** Gets what is as it should be. */
  info?: (...args: unknown[]) => void;
  /** Gets what may be wrong. */
  warn?: (...args: unknown[]) => void;
  /** Gets what is wrong. */
  error?: (...args: unknown[]) => void;
}

/** How to reach the service. Every option can be given to every call, too. */
export interface ConnectionOpts {
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
   * How often a call may be sent again because nothing of it was sent, or it was refused. Default: what `retries` was
   * given as, else `E2B_CONNECTION_RETRIES`, else 3.
   */
  connectionRetries?: number | undefined;
  /** Gets a line for each thing worth telling. */
  logger?: Logger | undefined;
  /** More headers of requests to the control plane. The same as `apiHeaders`, which wins. */
  headers?: Record<string, string> | undefined;
  /** More headers of requests to the control plane. */
  apiHeaders?: Record<string, string> | undefined;
  /** A proxy's URL. Only the native transport has one: elsewhere it is refused with {@link UnsupportedError}. */
  proxy?: string | undefined;
  /** Aborts the call; its reason is thrown. */
  signal?: AbortSignal | undefined;
  /** What sends the requests, in place of the native transport and the runtime's own `fetch`. */
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

/** The official name of the same. */
export type ConnectionConfigOpts = ConnectionOpts;

/** A name of a user in a sandbox: `user`, `root`, or one that its template has. */
export type Username = string;

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
  /** What the caller gave for `retries`, where they did. */
  readonly givenRetries: number | undefined;
  /** How often a call may be sent again because nothing was sent; absent: as `retries`. */
  readonly connectionRetries: number | undefined;
  /** The API key, where there is one. */
  readonly apiKey?: string;
  /** As it was given; ignored. */
  readonly validateApiKey?: boolean;
  /** More headers of requests to the control plane. */
  readonly headers?: Record<string, string>;
  /** What `E2B_USER_AGENT_SOURCE` says. */
  readonly requestSource?: string;
  /** The proxy's URL, as it was given. */
  readonly proxy?: string;
  /** What aborts each call. */
  readonly signal: AbortSignal | undefined;
  /** How creates go about it. */
  readonly createOptions: CreateOptions;
  /** Who sends the requests of this connection. */
  readonly sender: Sender;

  constructor(opts: ConnectionOpts = {}) {
    this.debug = opts.debug ?? env('E2B_DEBUG')?.toLowerCase() === 'true';
    this.domain = checkDomain(opts.domain ?? env('E2B_DOMAIN') ?? DEFAULT_DOMAIN);
    const api = opts.apiUrl ?? env('E2B_API_URL');
    const ofDomain = this.debug ? 'http://localhost:3000' : `https://api.${this.domain}`;
    this.apiUrl = api === undefined ? ofDomain : baseUrl('apiUrl', api);
    const sandboxes = opts.sandboxUrl ?? env('E2B_SANDBOX_URL');
    if (sandboxes !== undefined) this.sandboxUrl = baseUrl('sandboxUrl', sandboxes);
    const volumes = env('E2B_VOLUME_API_URL') ?? (this.debug ? 'http://localhost:8080' : undefined);
    this.volumeApiUrl = volumes === undefined ? undefined : baseUrl('E2B_VOLUME_API_URL', volumes);
    this.requestTimeoutMs = milliseconds('requestTimeoutMs', opts.requestTimeoutMs ?? 60_000);
    this.givenRetries = opts.retries === undefined ? undefined : whole('retries', opts.retries, 0);
    this.retries = this.givenRetries ?? 3;
    this.connectionRetries = connectionRetries(opts);
    const key = opts.apiKey ?? env('E2B_API_KEY');
    if (key !== undefined) this.apiKey = headerValue('apiKey', key);
    if (opts.validateApiKey !== undefined) this.validateApiKey = opts.validateApiKey;
    if (opts.logger !== undefined) this.logger = opts.logger;
    const headers = { ...texts('headers', opts.headers ?? {}), ...texts('apiHeaders', opts.apiHeaders ?? {}) };
    for (const [name, value] of Object.entries(headers)) {
      if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
        throw new InvalidArgumentError(`headers: ${JSON.stringify(name)} is no name of a header`);
      }
      headerValue(`headers: ${name}`, value);
    }
    this.headers = headers;
    const source = env('E2B_USER_AGENT_SOURCE');
    if (source !== undefined) this.requestSource = source;
    if (opts.proxy !== undefined) this.proxy = opts.proxy;
    this.signal = opts.signal;
    this.createOptions = createOptions(opts);
    const { fetch, transport, proxy } = opts;
    this.sender = senderOf({ fetch, transport, proxy });
    hide(this, 'apiKey', 'headers', 'proxy', 'sender');
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

  /** What says who sends a request. Browsers set their own. */
  get userAgent(): Record<string, string> {
    if (isBrowser()) return {};
    const integration = ConnectionConfig.integration;
    const source = this.requestSource === undefined ? '' : ` source/${this.requestSource}`;
    return { 'User-Agent': `oncebox-js/${VERSION}${integration ? ` ${integration}` : ''}${source}` };
  }

  /** One signal of a time limit, in milliseconds, and of another signal; absent where there is neither. */
  getSignal(requestTimeoutMs: number = this.requestTimeoutMs, signal?: AbortSignal): AbortSignal | undefined {
    const limit =
      requestTimeoutMs > 0 ? AbortSignal.timeout(milliseconds('requestTimeoutMs', requestTimeoutMs)) : undefined;
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

/** Options that say how a connection is made, apart from those of one call. */
const OF_CONNECTIONS = [
  'apiKey',
  'domain',
  'apiUrl',
  'sandboxUrl',
  'debug',
  'requestTimeoutMs',
  'retries',
  'connectionRetries',
  'logger',
  'headers',
  'apiHeaders',
  'proxy',
  'fetch',
  'transport',
  'idempotencyKeys',
  'settleMs',
  'cleanupTimeoutMs',
] as const satisfies readonly (keyof ConnectionOpts)[];

/** What of a call's options its connection has. */
export function connectionOf(opts: ConnectionOpts): ConnectionOpts {
  return Object.fromEntries(OF_CONNECTIONS.map((name) => [name, opts[name]]));
}

function createOptions({ idempotencyKeys, settleMs, cleanupTimeoutMs }: ConnectionOpts): CreateOptions {
  if (idempotencyKeys !== undefined && !['auto', 'honoured', 'ignored'].includes(idempotencyKeys)) {
    const given = JSON.stringify(idempotencyKeys);
    throw new InvalidArgumentError(`idempotencyKeys: ${given} is none of auto, honoured, ignored`);
  }
  return {
    ...(idempotencyKeys === undefined ? {} : { idempotencyKeys }),
    ...(settleMs === undefined ? {} : { settleMs: milliseconds('settleMs', settleMs) }),
    ...(cleanupTimeoutMs === undefined ? {} : { cleanupTimeoutMs: milliseconds('cleanupTimeoutMs', cleanupTimeoutMs) }),
  };
}

function connectionRetries(opts: ConnectionOpts): number | undefined {
  if (opts.connectionRetries !== undefined) return whole('connectionRetries', opts.connectionRetries, 0);
  if (opts.retries !== undefined) return undefined;
  const variable = env('E2B_CONNECTION_RETRIES');
  return variable === undefined ? undefined : whole('E2B_CONNECTION_RETRIES', Number(variable), 0);
}

/** A header's value: what fetch would refuse is refused before, without telling the value, which may be a secret. */
function headerValue(option: string, value: unknown): string {
  if (typeof value !== 'string' || value === '' || /[^\t\x20-\x7e\x80-\xff]/.test(value)) {
    throw new InvalidArgumentError(`${option}: it is empty, or holds characters that a header cannot`);
  }
  return value;
}
