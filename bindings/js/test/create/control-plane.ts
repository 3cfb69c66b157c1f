/** A control plane in memory. */

import { type CreateOptions, Creates } from '../../src/create/creates.ts';
import type { MakeRequest } from '../../src/create/wire.ts';
import { ALL } from '../../src/generated/operations.ts';
import { Caller, type CallerOptions } from '../../src/retry/caller.ts';
import { type Operation, OperationTable } from '../../src/retry.ts';

export const BASE = 'http://control.test';

/** What happens to a request: before the server sees it, or to its answer. */
type Fault = (request: {
  operation: string;
  count: number;
  signal: AbortSignal;
}) => 'lost' | 'refused' | Response | undefined;

interface Sandbox {
  sandboxID: string;
  envdVersion: string;
  startedAt: string;
  metadata: Record<string, string>;
  key: string | null;
}

/** A control plane in memory. Time passes only in waits. */
export class ControlPlane {
  readonly sandboxes: Sandbox[] = [];
  readonly requests: string[] = [];
  fault: Fault = () => undefined;
  honoursKeys = false;
  made = 0;
  now = 0;
  /** When the next create has its effect; `undefined`: at once. */
  effectAt: number | undefined;
  private late: { readonly at: number; readonly sandbox: Sandbox } | undefined;
  private readonly table = new OperationTable(ALL.filter(({ plane }) => plane === 'control_plane'));

  readonly fetch = async (input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input));
    const operation = this.table.find(init.method ?? 'GET', url.pathname) as Operation;
    this.requests.push(operation.id);
    const count = this.requests.filter((id) => id === operation.id).length;
    const signal = init.signal as AbortSignal;
    if (this.late !== undefined && this.late.at <= this.now) {
      this.sandboxes.push(this.late.sandbox);
      this.late = undefined;
    }
    const fault = this.fault({ operation: operation.id, count, signal });
    if (fault === 'refused') throw failure('ECONNREFUSED');
    const answer = this.handle(operation.id, url, init);
    if (fault === 'lost') throw failure('ECONNRESET');
    if (signal?.aborted) throw signal.reason;
    return fault ?? answer;
  };

  private handle(operation: string, url: URL, init: RequestInit): Response {
    const headers = { date: new Date(Date.now() + this.now).toUTCString() };
    const id = url.pathname.split('/')[operation === 'connectSandbox' ? 3 : 2];
    switch (operation) {
      case 'createSandbox': {
        const key = new Headers(init.headers).get('idempotency-key');
        const known = this.honoursKeys ? this.sandboxes.find((sandbox) => sandbox.key === key) : undefined;
        return Response.json(known ?? this.add(JSON.parse(String(init.body)).metadata, key), { status: 201, headers });
      }
      case 'listSandboxes':
        return Response.json(this.sandboxes, { headers });
      case 'connectSandbox': {
        const found = this.sandboxes.find(({ sandboxID }) => sandboxID === id);
        return found ? Response.json(found, { headers }) : new Response(null, { status: 404, headers });
      }
      case 'killSandbox': {
        const at = this.sandboxes.findIndex(({ sandboxID }) => sandboxID === id);
        if (at >= 0) this.sandboxes.splice(at, 1);
        return new Response(null, { status: at < 0 ? 404 : 204, headers });
      }
      default:
        return new Response(null, { status: 404, headers });
    }
  }

  private add(metadata: Record<string, string>, key: string | null): Sandbox {
    this.made += 1;
    const at = this.effectAt ?? this.now;
    const startedAt = new Date(Date.now() + at).toISOString();
    const sandbox = { sandboxID: `i${this.made}`, envdVersion: '0.6.13', startedAt, metadata, key };
    if (this.effectAt === undefined) this.sandboxes.push(sandbox);
    else this.late = { at, sandbox };
    this.effectAt = undefined;
    return sandbox;
  }

  /** How it is reached, and a clock on which time passes only in waits. */
  readonly means = {
    fetch: this.fetch as typeof fetch,
    random: () => 0.5,
    now: () => this.now,
    // In a turn of its own, as a real wait is.
    sleep: (ms: number) => {
      const until = this.now + ms;
      return new Promise<void>((resolve) => {
        setTimeout(() => {
          // Others may have waited longer meanwhile.
          this.now = Math.max(this.now, until);
          resolve();
        }, 0);
      });
    },
  };

  creates(options: CreateOptions = {}, caller: CallerOptions = {}): Creates {
    return new Creates(new Caller({ ...this.means, ...caller }), request, options);
  }
}

const request: MakeRequest = (operation, { parameters = [], query, headers, json }) => {
  let at = 0;
  const path = operation.path.replace(/\{[^}]+\}/g, () => encodeURIComponent(parameters[at++] ?? ''));
  const search = query === undefined ? '' : `?${new URLSearchParams(query)}`;
  const body = json === undefined ? {} : { body: JSON.stringify(json) };
  return { operation, url: `${BASE}${path}${search}`, headers: { ...headers }, ...body };
};

function failure(code: string): TypeError {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });
}
