/** The requests of a create, one attempt each, and what their answers say. */

import {
  connectSandbox,
  connectSandboxV1,
  createSandbox,
  createSandboxV1,
  killSandbox,
  listSandboxes,
  listSandboxesV1,
} from '../generated/operations.ts';
import type { ApiVersion, CreateAnswer, Failure, ListedSandbox } from '../policy/create-types.ts';
import type { Engine } from '../policy/engine.ts';
import type { OperationCall, SingleAttempt } from '../retry/caller.ts';
import type { Operation } from '../retry/operations.ts';

/** The metadata key under which a sandbox carries its intent. */
export const INTENT_METADATA = 'oncebox.intent';

/** The most pages that one look-up follows. */
export const MAX_PAGES = 20;

/** What a request is made of, besides its operation. */
export interface RequestParts {
  /** The path's parameters, in the order of the template. */
  readonly parameters?: readonly string[];
  readonly query?: Record<string, string>;
  readonly headers?: Record<string, string>;
  /** Sent as JSON. */
  readonly json?: unknown;
}

/** Makes the request of a control plane's operation: its URL, and the headers that authorise it. */
export type MakeRequest = (operation: Operation, parts: RequestParts) => OperationCall;

/** What an SDK asks for when it creates a sandbox: the body of the operation. */
export type NewSandbox = { readonly metadata?: Record<string, string>; readonly timeout?: number } & Record<
  string,
  unknown
>;

/** The lifetime in seconds where none is given: v1's default differs, so it is always sent (protocol fact: v2's default). */
const DEFAULT_LIFETIME = 300;

/** The requests of one create. */
export class Wire {
  private readonly make: MakeRequest;
  private readonly intent: string;
  private readonly body: NewSandbox;

  constructor(make: MakeRequest, intent: string, body: NewSandbox) {
    this.make = make;
    this.intent = intent;
    const metadata = { ...body.metadata, [INTENT_METADATA]: intent };
    this.body = { ...body, timeout: body.timeout ?? DEFAULT_LIFETIME, metadata };
  }

  send(version: ApiVersion, key: string): OperationCall {
    // v1 takes the same body.
    const operation = version === 'v1' ? createSandboxV1 : createSandbox;
    return this.make(operation, { json: this.body, headers: { 'Idempotency-Key': key } });
  }

  probe(): OperationCall {
    return this.make(listSandboxes, { query: { limit: '1' } });
  }

  /** One page. v1 has one only. */
  page(version: ApiVersion, token: string): OperationCall {
    // Neither name nor value has a character that would have to be encoded.
    const metadata = `${INTENT_METADATA}=${this.intent}`;
    if (version === 'v1') return this.make(listSandboxesV1, { query: { metadata } });
    const query: Record<string, string> = { metadata, state: 'running,paused', limit: '100' };
    if (token !== '') query.nextToken = token;
    return this.make(listSandboxes, { query });
  }

  /** Fetches a sandbox with its tokens; a paused one is resumed by it. */
  adopt(version: ApiVersion, id: string): OperationCall {
    const operation = version === 'v1' ? connectSandboxV1 : connectSandbox;
    return this.make(operation, { parameters: [id], json: { timeout: this.body.timeout } });
  }

  kill(id: string): OperationCall {
    return this.make(killSandbox, { parameters: [id] });
  }
}

/** A sandbox as it is answered: at least its id. */
export type SandboxJson = { readonly sandboxID: string } & Record<string, unknown>;

/** The sandbox in an answer; undefined where there is none. */
export function sandboxIn(made: SingleAttempt): SandboxJson | undefined {
  const json = jsonOf(made.body) as Partial<SandboxJson> | undefined;
  return isSuccess(made) && typeof json?.sandboxID === 'string' ? (json as SandboxJson) : undefined;
}

export function isSuccess(made: SingleAttempt): boolean {
  const { outcome } = made;
  return outcome.kind === 'responded' && !outcome.broken && outcome.status >= 200 && outcome.status < 300;
}

/** What the end of a send says. */
export function answerOf(made: SingleAttempt, engine: Engine): CreateAnswer {
  return {
    outcome: made.outcome,
    failedDials: made.failedDials,
    error: serverError(made),
    sandbox: sandboxIn(made)?.sandboxID,
    date: dateOf(made, engine),
  };
}

/** A request that brought nothing to go by. */
export function failureOf(made: SingleAttempt, engine: Engine): Failure {
  const { outcome } = made;
  const answered = outcome.kind === 'responded' ? outcome : undefined;
  return { status: answered?.status, retryAfter: answered?.retryAfter, date: dateOf(made, engine) };
}

/** A page's sandboxes; undefined when it makes no sense. */
export function listedIn(made: SingleAttempt): ListedSandbox[] | undefined {
  const items = jsonOf(made.body);
  if (!isSuccess(made) || !Array.isArray(items)) return undefined;
  const listed = items.map(listedOne);
  return listed.every((one) => one !== undefined) ? listed : undefined;
}

function listedOne(item: unknown): ListedSandbox | undefined {
  const { sandboxID: id, startedAt, state, metadata } = (item ?? {}) as Record<string, unknown>;
  const started = typeof startedAt === 'string' ? Date.parse(startedAt) : Number.NaN;
  if (typeof id !== 'string' || Number.isNaN(started)) return undefined;
  return { id, startedAt: started / 1000, paused: state === 'paused', intent: intentIn(metadata) };
}

/** Null where there is no metadata at all: the sandbox may be anyone's. */
function intentIn(metadata: unknown): ListedSandbox['intent'] {
  if (typeof metadata !== 'object' || metadata === null) return null;
  const intent = (metadata as Record<string, unknown>)[INTENT_METADATA];
  return typeof intent === 'string' ? intent : undefined;
}

/** An error of E2B's shape: a JSON object with an integer for a code and a text for a message. */
function serverError(made: SingleAttempt): CreateAnswer['error'] {
  if (isSuccess(made)) return undefined;
  const json = jsonOf(made.body) as Record<string, unknown> | undefined;
  if (typeof json !== 'object' || json === null) return undefined;
  const { code, message, error_code: errorCode } = json;
  if (!Number.isInteger(code) || typeof message !== 'string') return undefined;
  return { errorCode: typeof errorCode === 'string' ? errorCode : undefined, message };
}

function dateOf(made: SingleAttempt, engine: Engine): number | undefined {
  return engine.httpDate(made.response?.headers.get('date') ?? null, Math.floor(Date.now() / 1000));
}

function jsonOf(body: Uint8Array | undefined): unknown {
  if (body === undefined) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}
