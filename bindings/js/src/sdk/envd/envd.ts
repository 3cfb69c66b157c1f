/** The daemon in a sandbox: plain requests, RPCs, and whether it is there. */

import type { Plane } from '../../retry/operations.ts';
import { callApi } from '../api/control-plane.ts';
import { type Classes, failed } from '../api/failure.ts';
import { type ConnectionConfig, guarding } from '../config.ts';
import { ENVD_PORT, segment } from '../endpoints.ts';
import {
  ConnectionLostError,
  OnceboxError,
  OutcomeUnknownError,
  SandboxNotRunningError,
  SandboxUnreachableError,
  SupersededError,
} from '../errors.ts';
import { hide } from '../runtime.ts';
import { sendNoted, type Trail } from '../trail.ts';
import { type Answer, type Call, type CallBody, ONCE } from '../transport/sender.ts';
import { merged, milliseconds } from '../validate.ts';
import { pack } from './envelope.ts';
import { Refusal, refusalOf, restError, rpcError } from './refusal.ts';
import { MessageStream, type Watchdog, watchdogOf } from './stream.ts';

/** How long it may take to say whether a sandbox is there, in milliseconds. */
const PROBE_TIMEOUT = 5_000;

/** Limits of one call. */
export interface CallLimits {
  /** In milliseconds; 0: none. Default: the connection's. */
  requestTimeoutMs?: number | undefined;
  /** Aborts the call; its reason is thrown. */
  signal?: AbortSignal | undefined;
  /** Attempts of probes: one. */
  once?: boolean | undefined;
}

/** The limits that a caller's options give. What else is in them, as in any object that fits, is none of the request's. */
export function limitsOf({ requestTimeoutMs, signal }: Omit<CallLimits, 'once'>): CallLimits {
  return { requestTimeoutMs, signal };
}

/** An RPC. */
export interface Rpc extends CallLimits {
  /** What is being done, in words. */
  readonly action: string;
  readonly service: 'process.Process' | 'filesystem.Filesystem';
  readonly method: string;
  readonly message: unknown;
  /** As whom it is done in the sandbox. */
  readonly user?: string | undefined;
  readonly classes?: Classes;
  /** What is in the message that no error may tell. */
  readonly secrets?: readonly string[] | undefined;
  /** Of streams. */
  readonly watchdog?: Watchdog | undefined;
}

/** A plain request to a port of a sandbox. */
export interface Rest extends CallLimits {
  readonly action: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With the query. */
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: CallBody;
  readonly read?: 'whole' | 'stream';
  readonly classes?: Classes;
  /** What is in the body that no error may tell. */
  readonly secrets?: readonly string[] | undefined;
}

/** Which sandbox it is, and how it is reached. */
export interface Identity {
  readonly config: ConnectionConfig;
  readonly sandboxId: string;
  readonly sandboxDomain: string;
  readonly envdVersion: string;
  readonly envdAccessToken?: string | undefined;
  readonly trafficAccessToken?: string | undefined;
  /** Another sandbox that stays in its place. */
  readonly lostTo?: (() => string | undefined) | undefined;
}

/** A port of a sandbox. */
export class Envd {
  /** Where its requests are noted. */
  private readonly trail: Trail | undefined;
  /** What is given to commands, and is not to be told. */
  private readonly kept: readonly string[] = [];

  constructor(
    readonly identity: Identity,
    private readonly port: number = ENVD_PORT,
    private readonly plane: Plane = 'envd',
  ) {
    hide(this, 'identity', 'kept');
  }

  /** @internal The same, whose requests are noted. */
  noting(trail: Trail): Envd {
    return Object.create(this, { trail: { value: trail.within(this.trail) } });
  }

  /** @internal The same, whose errors do not tell these either. */
  keeping(secrets: readonly string[]): Envd {
    return Object.create(this, { kept: { value: secrets } });
  }

  /** @internal What no error may tell. */
  get secrets(): readonly string[] {
    const { config, envdAccessToken, trafficAccessToken } = this.identity;
    return [...config.secrets, ...guarding([envdAccessToken, trafficAccessToken]), ...this.kept];
  }

  /** The options it is reached by. */
  get config(): ConnectionConfig {
    return this.identity.config;
  }

  /** Whether the daemon is of this version or a later one. */
  atLeast(version: string): boolean {
    if (this.config.debug) return true;
    const parts = (text: string) => text.split(/[.+-]/, 3).map((part) => Number.parseInt(part, 10) || 0);
    const [own, wanted] = [parts(this.identity.envdVersion), parts(version)];
    for (let at = 0; at < 3; at++) {
      const difference = (own[at] ?? 0) - (wanted[at] ?? 0);
      if (difference !== 0) return difference > 0;
    }
    return true;
  }

  /** Calls an RPC that has one answer. */
  async unary<T>(rpc: Rpc): Promise<T> {
    try {
      return await this.tryUnary<T>(rpc);
    } catch (error) {
      throw error instanceof Refusal ? await this.afterLoss(rpcError(rpc.action, error, rpc.classes)) : error;
    }
  }

  /** The same, where a refusal is thrown as it is. */
  async tryUnary<T>(rpc: Rpc): Promise<T> {
    const headers = merged(this.rpcHeaders(rpc), { 'Content-Type': 'application/json' });
    const call = this.call(rpc, `/${rpc.service}/${rpc.method}`, headers, JSON.stringify(rpc.message), 'whole');
    const answer = await this.send(rpc.action, call);
    if (answer.status !== 200) throw await refusalOf(answer, [...this.secrets, ...(rpc.secrets ?? [])]);
    return (await answer.response.json()) as T;
  }

  /**
   * Opens a stream.
   *
   * @param remoteTimeoutMs by when the daemon ends it, in milliseconds; of a start: kills the process. 0: never.
   * @throws Refusal where the daemon answers by an error that is no stream.
   */
  async stream(rpc: Rpc, remoteTimeoutMs = 0): Promise<MessageStream> {
    const control = new AbortController();
    const abort = () => control.abort(rpc.signal?.reason);
    if (rpc.signal?.aborted) throw rpc.signal.reason;
    this.trail?.follow(rpc.signal);
    rpc.signal?.addEventListener('abort', abort, { once: true });
    const { keepalive, silence } = watchdogOf(rpc.watchdog ?? {});
    const timeout = remoteTimeoutMs > 0 ? { 'Connect-Timeout-Ms': String(Math.ceil(remoteTimeoutMs)) } : {};
    const ping = { 'Keepalive-Ping-Interval': String(keepalive) };
    const type = { 'Content-Type': 'application/connect+json' };
    const headers = merged(this.rpcHeaders(rpc), type, ping, timeout);
    const path = `/${rpc.service}/${rpc.method}`;
    const call = { ...this.call(rpc, path, headers, pack(rpc.message), 'stream'), signal: control.signal };
    try {
      const answer = await this.send(rpc.action, call);
      if (answer.status !== 200) throw await refusalOf(answer, [...this.secrets, ...(rpc.secrets ?? [])]);
      const end = (reason?: unknown) => {
        rpc.signal?.removeEventListener('abort', abort);
        control.abort(reason);
      };
      return new MessageStream(answer.response.body, end, answer.attempts, silence, [
        ...this.secrets,
        ...(rpc.secrets ?? []),
      ]);
    } catch (error) {
      rpc.signal?.removeEventListener('abort', abort);
      throw error;
    }
  }

  /** Sends a plain request that must succeed. */
  async rest(request: Rest): Promise<Answer> {
    const call = this.call(request, request.path, this.headers(request.headers), request.body, request.read ?? 'whole');
    const answer = await this.send(request.action, { ...call, method: request.method });
    if (answer.status >= 200 && answer.status <= 299) return answer;
    throw await this.afterLoss(
      await restError(request.action, answer, request.classes ?? {}, [...this.secrets, ...(request.secrets ?? [])]),
    );
  }

  /** Whether the sandbox runs: `false` where what stands before it says that it does not. */
  async isRunning(limits: CallLimits = {}): Promise<boolean> {
    const action = 'ask whether the sandbox runs';
    const call = this.call(limits, '/health', this.headers(), undefined, 'whole');
    const answer = await this.sendRaw(action, { ...call, method: 'GET' });
    if (answer.status === 502) return false;
    if (answer.status >= 200 && answer.status <= 299) return true;
    throw await restError(action, answer, {}, this.secrets);
  }

  /**
   * After a connection was lost: one question whether the sandbox is there. What is known then is what is thrown.
   */
  async afterLoss(error: unknown): Promise<unknown> {
    if (error instanceof SandboxNotRunningError) {
      error.message += `; ${await this.known()}`;
      return error;
    }
    const unreachable = error instanceof SandboxUnreachableError && error.statusCode === undefined;
    const unknown = error instanceof OutcomeUnknownError && error.statusCode === undefined;
    if (!unreachable && !unknown && !(error instanceof ConnectionLostError)) return error;
    const { message, attempts, outcome, retryAfter, cause } = error as OnceboxError;
    const evidence = { attempts, outcome, retryAfter, cause };
    try {
      if (await this.isRunning({ requestTimeoutMs: PROBE_TIMEOUT, once: true })) {
        const healthy = `${message}; the sandbox is healthy`;
        if (unreachable) return new ConnectionLostError(healthy, evidence);
        error.message = healthy;
        return error;
      }
      return new SandboxNotRunningError(`${message}; the sandbox does not run: ${await this.known()}`, evidence);
    } catch (probe) {
      const words = probe instanceof Error ? probe.message : String(probe);
      const silent = `${message}; asked whether it runs, the sandbox did not answer: ${words}`;
      if (!unknown) return new SandboxUnreachableError(silent, evidence);
      error.message = silent;
      return error;
    }
  }

  /** Headers that say which sandbox, and which port of it. */
  headers(more: Record<string, string> = {}): Record<string, string> {
    const { sandboxId, envdAccessToken, trafficAccessToken } = this.identity;
    const { userAgent, requestHeaders } = this.config;
    const headers: Record<string, string> = {
      ...more,
      'E2b-Sandbox-Id': sandboxId,
      'E2b-Sandbox-Port': String(this.port),
    };
    if (envdAccessToken) headers['X-Access-Token'] = envdAccessToken;
    if (trafficAccessToken && this.port !== ENVD_PORT) headers['E2B-Traffic-Access-Token'] = trafficAccessToken;
    return merged(userAgent, requestHeaders, headers);
  }

  private rpcHeaders(rpc: Rpc): Record<string, string> {
    const headers = this.headers({ 'Connect-Protocol-Version': '1' });
    const user = rpc.user ?? (this.atLeast('0.4.0') ? undefined : 'user');
    if (user !== undefined) headers.Authorization = `Basic ${basic(`${user}:`)}`;
    return headers;
  }

  private call(
    what: CallLimits,
    path: string,
    headers: Record<string, string>,
    body: CallBody | undefined,
    read: 'whole' | 'stream',
  ): Call {
    const { config, identity } = this;
    const lostTo = identity.lostTo?.();
    if (lostTo !== undefined) throw superseded(identity.sandboxId, lostTo);
    const limit = what.requestTimeoutMs;
    const at = { sandboxDomain: identity.sandboxDomain, envdPort: this.port };
    return {
      plane: this.plane,
      method: 'POST',
      base: config.getSandboxUrl(identity.sandboxId, at),
      path,
      headers,
      body,
      read,
      requestTimeoutMs: limit === undefined ? config.requestTimeoutMs : milliseconds('requestTimeoutMs', limit),
      policy: what.once ? { ...config.policy, ...ONCE } : config.policy,
      log: config.log,
      signal: what.signal ?? config.signal,
    };
  }

  private async send(action: string, call: Call): Promise<Answer> {
    try {
      return await this.sendRaw(action, call);
    } catch (error) {
      // The caller's reason may be an error of another call.
      throw call.signal?.aborted ? error : await this.afterLoss(error);
    }
  }

  private async sendRaw(action: string, call: Call): Promise<Answer> {
    try {
      return await sendNoted(this.config.sender, call, this.trail);
    } catch (error) {
      throw failed(action, error, call.signal);
    }
  }

  /** What the control plane says of a sandbox that does not run. */
  private async known(): Promise<string> {
    const { config, identity } = this;
    try {
      const info = await callApi<{ state?: string; endAt?: string }>(
        Object.assign(Object.create(config), {
          requestTimeoutMs: PROBE_TIMEOUT,
          policy: { ...config.policy, ...ONCE },
        }),
        { action: 'ask about the sandbox', method: 'GET', path: `/sandboxes/${segment(identity.sandboxId)}` },
      );
      return `the control plane says that it is ${info.state}, until ${info.endAt}`;
    } catch (error) {
      if (error instanceof OnceboxError && error.statusCode === 404) {
        return 'the control plane knows no such sandbox any more';
      }
      return `the control plane was asked, too: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
}

/** What using a sandbox that lost comes to. */
export function superseded(sandboxId: string, by: string): SupersededError {
  return new SupersededError(
    `sandbox ${sandboxId} was made twice, and ${by} is the one that stays: connect to it, or resolve the intent`,
  );
}

/** Base64 of a text's UTF-8. */
function basic(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
