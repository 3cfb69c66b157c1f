import { type ProgramOptions, start } from './program.ts';

/** Options of a local server. */
export interface ServerOptions extends ProgramOptions {
  /** Its port on 127.0.0.1. Default: a free one. */
  readonly port?: number | undefined;
  /** Whether sandboxes are isolated from this machine. Default `true`; where that is impossible, nothing starts. */
  readonly isolation?: boolean | undefined;
  /** What it does wrong from the start; see {@link LocalServer.misbehave}. */
  readonly faults?: FaultDocument | undefined;
  /** Pages of these origins may use the server. Default none. */
  readonly allowOrigin?: readonly string[] | undefined;
  /** Further arguments of `oncebox serve`. */
  readonly args?: readonly string[] | undefined;
}

/** What a local server does wrong: `docs/design/0011-control-plane-sdk.md`. */
export interface FaultDocument {
  readonly seed?: number;
  readonly rules?: readonly FaultRule[];
  /** Whether idempotency keys are honoured. */
  readonly keys?: 'honoured' | 'ignored';
  /** A script of `oncebox faults`, for what happens to connections and frames. */
  readonly frames?: unknown;
  readonly [other: string]: unknown;
}

/** One rule. The first that fires decides. */
export interface FaultRule {
  /** Operations by id, or by group: `create`, `list`, `connect`, `kill`, `start`, `write`. Default all. */
  readonly on?: readonly string[];
  readonly test_id?: string;
  readonly attempt?: number;
  readonly skip?: number;
  readonly times?: number;
  readonly probability?: number;
  readonly fault: Readonly<Record<string, unknown>>;
}

/** What really happened. */
export interface Effects {
  readonly effects: readonly Effect[];
  /** How often each operation had an effect. */
  readonly counts: Readonly<Record<string, number>>;
  /** What one intent or key made more than once. */
  readonly doubled: Readonly<Record<string, number>>;
  readonly not_told_apart: number;
}

/** One effect. */
export interface Effect {
  readonly operation: string;
  readonly count: number;
  readonly [other: string]: unknown;
}

/** A local server, which speaks the sandbox protocol. It stops with this process, at the latest. */
export class LocalServer {
  readonly #stop: () => Promise<void>;

  private constructor(
    /** Its address. */
    readonly url: string,
    stop: () => Promise<void>,
  ) {
    this.#stop = stop;
  }

  /** Starts one. */
  static async start(options: ServerOptions = {}): Promise<LocalServer> {
    const args = ['serve', '--json', '--port', String(options.port ?? 0)];
    if (options.isolation === false) args.push('--no-isolation');
    for (const origin of options.allowOrigin ?? []) args.push('--allow-origin', origin);
    const { said, stop } = await start([...args, ...(options.args ?? [])], options);
    const server = new LocalServer(String(said.url), stop);
    if (options.faults) {
      try {
        await server.misbehave(options.faults);
      } catch (error) {
        await stop();
        throw error;
      }
    }
    return server;
  }

  /** The environment in which this package and the official SDKs use it. */
  get env(): Readonly<Record<'E2B_API_URL' | 'E2B_SANDBOX_URL' | 'E2B_API_KEY', string>> {
    return { E2B_API_URL: this.url, E2B_SANDBOX_URL: this.url, E2B_API_KEY: 'local' };
  }

  /** Lets it do wrong by a document, in place of the one before. A mistake in it is refused whole. */
  async misbehave(faults: FaultDocument): Promise<void> {
    await this.#ask('PUT', 'faults', faults);
  }

  /** Lets it behave again. */
  async behave(): Promise<void> {
    await this.#ask('DELETE', 'faults');
  }

  /** What really happened, by the server's own count; of one test alone where its id was sent (`Oncebox-Test-Id`). */
  async effects(options: { testId?: string } = {}): Promise<Effects> {
    return (await this.#ask('GET', `effects${ofTest(options.testId)}`)) as Effects;
  }

  /** Begins to count anew. */
  async forget(options: { testId?: string } = {}): Promise<void> {
    await this.#ask('DELETE', `effects${ofTest(options.testId)}`);
  }

  /** Behaves, and counts anew: for between two tests. */
  async reset(): Promise<void> {
    await this.behave();
    await this.forget();
  }

  /** Stops it, with all its sandboxes. */
  async stop(): Promise<void> {
    await this.#stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #ask(method: string, what: string, document?: unknown): Promise<unknown> {
    const init: RequestInit = { method, ...(document === undefined ? {} : { body: JSON.stringify(document) }) };
    const answer = await fetch(`${this.url}/oncebox/${what}`, {
      ...init,
      headers: { 'content-type': 'application/json' },
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} /oncebox/${what}: ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }
}

function ofTest(testId: string | undefined): string {
  return testId === undefined ? '' : `?test_id=${encodeURIComponent(testId)}`;
}
