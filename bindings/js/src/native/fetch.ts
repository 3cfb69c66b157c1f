import type { PolicyRecord } from '../policy/types.ts';
import { onAbort } from './aborts.ts';
import { type Addon, Kind, type NativeClient } from './addon.ts';
import { type FailureJson, TransportError } from './error.ts';
import { policyJson, type RecordJson, recordOf } from './history.ts';
import type { Hub } from './hub.ts';
import { CALL, type CallPlan, RUNS_CALLS } from './protocol.ts';
import { type PlainRequest, plainRequest } from './request.ts';
import { response } from './response.ts';
import { type Upload, upload } from './upload.ts';

/** Options of the native transport. What is not given is the default of `oncebox-transport`; times are milliseconds, 0 is none. */
export interface NativeOptions {
  readonly requestTimeoutMs?: number | undefined;
  readonly attemptTimeoutMs?: number | undefined;
  readonly readIdleTimeoutMs?: number | undefined;
  readonly writeIdleTimeoutMs?: number | undefined;
  /** How much of a streamed request body is kept to be sent again, in bytes. Default 65,536. */
  readonly replayBufferLimit?: number | undefined;
  /** The largest response that is read whole, in bytes. Default 64 MiB. */
  readonly maxResponseSize?: number | undefined;
  /** Default `auto`: what the server chooses in the TLS handshake, and HTTP/1.1 without TLS. `2` without TLS is h2c with prior knowledge. */
  readonly httpVersion?: 'auto' | '1.1' | '2' | undefined;
  /** Connections to one origin. Default 200. */
  readonly maxConnections?: number | undefined;
  /** How long an idle connection is kept. Default 300,000, and 4,000 for HTTP/1.1. */
  readonly keepaliveExpiryMs?: number | undefined;
  readonly maxConnectionAgeMs?: number | undefined;
  /** Streams that are opened before an origin's first SETTINGS. Default 10. */
  readonly initialStreams?: number | undefined;
  readonly pingIntervalMs?: number | undefined;
  readonly pingTimeoutMs?: number | undefined;
  readonly dnsTimeoutMs?: number | undefined;
  readonly connectTimeoutMs?: number | undefined;
  readonly tlsTimeoutMs?: number | undefined;
  readonly proxyTimeoutMs?: number | undefined;
  readonly tcpKeepaliveMs?: number | undefined;
  /** Certificates that are trusted besides the platform's, in PEM form. */
  readonly rootCertificates?: string | readonly string[] | undefined;
  /** What is shown to servers that ask for a certificate, in PEM form. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string } | undefined;
  /** Accepts any certificate. For tests: whoever sits in between can read and change everything. */
  readonly dangerAcceptInvalidCertificates?: boolean | undefined;
  /** A proxy's URL, `false` for none. Default: what `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say. */
  readonly proxy?: string | { readonly url: string; readonly except: string } | false | undefined;
  /** Reaches all targets over this Unix socket. */
  readonly unixSocket?: string | undefined;
  /** Sends `traceparent` (W3C Trace Context) with each attempt. Default: false. */
  readonly traceContext?: boolean | undefined;
  /** Makes the jitter of waits repeatable. */
  readonly seed?: number | undefined;
}

/** A `fetch` over the native transport. */
export interface NativeFetch {
  (input: RequestInfo | URL, init?: RequestInit): Promise<Response>;
  readonly [RUNS_CALLS]: true;
}

/** A `fetch` of its own replays what was provably not processed, and hands on every answer. */
const ALONE: CallPlan = { retries: 0 };

/**
 * Makes a `fetch` over the addon. All of a process share their connections, whatever their options.
 *
 * @throws when an option is unknown or out of its range, before any I/O.
 */
export function nativeFetch(addon: Addon, hub: Hub, options: NativeOptions = {}): NativeFetch {
  const clients = new Clients(addon, hub, options);
  const fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = await plainRequest(input, init);
    request.signal?.throwIfAborted();
    const plan = (init as { [CALL]?: CallPlan } | undefined)?.[CALL] ?? ALONE;
    const answer = await send(addon, hub, clients.of(plan), request, plan);
    if (request.redirect === 'error' && answer.status >= 300 && answer.status < 400 && answer.headers.has('location')) {
      void answer.body?.cancel();
      throw new TypeError(`${request.method} ${request.url}: redirected by ${answer.status}, and redirect is "error"`);
    }
    return answer;
  };
  return Object.assign(fetch, { [RUNS_CALLS]: true } as const);
}

/** Policies that a `fetch` was used with: few, as a rule one. */
const POLICIES = 64;

/** The addon's clients by policy, which is a client's there. */
class Clients {
  readonly #plain: NativeClient;
  readonly #by = new Map<string, NativeClient>();

  constructor(
    readonly addon: Addon,
    readonly hub: Hub,
    readonly options: NativeOptions,
  ) {
    this.#plain = this.#open();
  }

  of(plan: CallPlan): NativeClient {
    if (!plan.policy) return this.#plain;
    const policy = JSON.stringify(plan.policy);
    let client = this.#by.get(policy);
    if (!client) {
      client = this.#open(plan.policy);
      if (this.#by.size >= POLICIES) this.#by.clear();
      this.#by.set(policy, client);
    }
    return client;
  }

  #open(policy?: CallPlan['policy']): NativeClient {
    const { rootCertificates, ...others } = this.options;
    // The addon's names are those of a call's plan, which say nothing of milliseconds.
    const named = Object.fromEntries(Object.entries(others).map(([name, value]) => [name.replace(/Ms$/, ''), value]));
    const trusted = rootCertificates === undefined ? undefined : [rootCertificates].flat();
    const given = { ...named, policy: policy && policyJson(policy), rootCertificates: trusted };
    try {
      return new this.addon.NativeClient(this.hub.port, JSON.stringify(given));
    } catch (error) {
      throw new TypeError(error instanceof Error ? error.message : String(error), { cause: error });
    }
  }
}

function send(addon: Addon, hub: Hub, client: NativeClient, request: PlainRequest, plan: CallPlan): Promise<Response> {
  const { method, url, signal, body } = request;
  const bytes = body instanceof Uint8Array ? body : undefined;
  return new Promise((resolve, reject) => {
    let sending: Upload | undefined;
    let attempts = 0;
    let forget: (() => void) | undefined;
    const over = () => {
      hub.stop(number);
      forget?.();
    };
    const aborted = () => {
      over();
      call?.abort();
      sending?.abandon(signal?.reason);
      reject(signal?.reason);
    };
    const number = hub.listen((news) => {
      if (news.kind === Kind.Attempt) {
        attempts += 1;
        return tell(plan, recordOf(JSON.parse(news.text) as RecordJson), attempts);
      }
      over();
      try {
        if (news.kind === Kind.Failed) throw new TransportError(JSON.parse(news.text) as FailureJson);
        resolve(response(hub, url, method, news, signal));
      } catch (error) {
        reject(error);
      }
    });
    let call: ReturnType<NativeClient['send']> | undefined;
    try {
      if (body !== undefined && !(body instanceof Uint8Array)) sending = upload(addon, hub, body);
      call = client.send(number, head(request), bytes, sending?.native, settings(plan));
      if (signal) forget = onAbort(signal, aborted);
    } catch (error) {
      over();
      sending?.abandon(error);
      reject(
        error instanceof TypeError ? error : new TypeError(error instanceof Error ? error.message : String(error)),
      );
    }
  });
}

function tell(plan: CallPlan, attempt: PolicyRecord, number: number): void {
  try {
    plan.onAttempt?.(attempt, number);
  } catch (error) {
    // A fault of the hook's own, which is nobody else's: it must not lose the call.
    queueMicrotask(() => {
      throw error;
    });
  }
}

function head({ method, url, headers }: PlainRequest): string {
  let lines = `${method}\n${url}`;
  headers.forEach((value, name) => {
    lines += `\n${name}\n${value}`;
  });
  return lines;
}

function settings({ policy: _, onAttempt, ...plan }: CallPlan): string {
  return JSON.stringify(onAttempt ? { ...plan, watch: true } : plan);
}
