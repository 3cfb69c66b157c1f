/** A sandbox that runs code in contexts, which remember what ran before. */

import { parsed } from '../api/control-plane.ts';
import { INTERPRETER_PORT, segment } from '../endpoints.ts';
import { Envd } from '../envd/envd.ts';
import { reason } from '../envd/stream.ts';
import { InvalidArgumentError, NotFoundError, OutcomeUnknownError, SandboxError, TimeoutError } from '../errors.ts';
import { secretsIn } from '../repeated.ts';
import { Sandbox as PlainSandbox, type SandboxConstructorOpts } from '../sandbox/sandbox.ts';
import { milliseconds, text, variables } from '../validate.ts';
import { Execution, ExecutionError, OutputMessage, type RawData, Result, type WireLine } from './execution.ts';

/** How long code may run, in milliseconds, unless it is said. */
const RUN_TIMEOUT = 60_000;

/** The longest line of an answer, in characters: a picture is one. */
const MAX_LINE = 64 << 20;

/** A language; what the template has else is a name, too. */
export type RunCodeLanguage = 'python' | 'javascript' | 'typescript' | 'r' | 'java' | 'bash' | (string & {});

/** A context: code in it sees what ran in it before. */
export interface Context {
  /** Its id. */
  id: string;
  /** Its language. */
  language: string;
  /** Where its code runs. */
  cwd: string;
}

/** Options of `runCode`. */
export interface RunCodeOpts {
  /** Gets what it prints, as it comes. */
  onStdout?: ((output: OutputMessage) => unknown) | undefined;
  /** Gets what it prints to standard error, as it comes. */
  onStderr?: ((output: OutputMessage) => unknown) | undefined;
  /** Gets what it gives and displays, as it comes. */
  onResult?: ((data: Result) => unknown) | undefined;
  /** Gets what it raises. */
  onError?: ((error: ExecutionError) => unknown) | undefined;
  /** Variables of this run. */
  envs?: Record<string, string> | undefined;
  /** How long it may run, in **milliseconds**; 0: no limit. It is interrupted then. Default: 60,000. */
  timeoutMs?: number | undefined;
  /** How long it may take until it runs, in **milliseconds**; 0: no limit. Default: the sandbox's, 60,000. */
  requestTimeoutMs?: number | undefined;
  /** Aborts it; its reason is thrown. */
  signal?: AbortSignal | undefined;
}

/** Options of `createCodeContext`. */
export interface CreateCodeContextOpts {
  /** Default: /home/user. */
  cwd?: string | undefined;
  /** Default: python. */
  language?: RunCodeLanguage | undefined;
  /** In **milliseconds**; 0: no limit. Default: the sandbox's, 60,000. */
  requestTimeoutMs?: number | undefined;
}

/** A sandbox of the template `code-interpreter-v1`. */
export class Sandbox extends PlainSandbox {
  protected static override readonly defaultTemplate: string = 'code-interpreter-v1';
  private readonly interpreter: Envd;

  constructor(opts: SandboxConstructorOpts) {
    super(opts);
    this.interpreter = new Envd(this.envd.identity, INTERPRETER_PORT, 'code_interpreter');
  }

  /**
   * Runs code, in a context or in its language's own one.
   *
   * What it raises is in the execution's `error`, and is not thrown. It is never run again by itself.
   *
   * @throws TimeoutError after `timeoutMs`; OutcomeUnknownError where its answer was cut, or
   * makes no sense: what came is in its `execution`.
   */
  runCode(code: string, opts?: RunCodeOpts & { language?: RunCodeLanguage | undefined }): Promise<Execution>;
  runCode(code: string, opts?: RunCodeOpts & { context?: Context | undefined }): Promise<Execution>;
  async runCode(
    code: string,
    opts: RunCodeOpts & { language?: RunCodeLanguage | undefined; context?: Context | undefined } = {},
  ): Promise<Execution> {
    const { context, language, envs, requestTimeoutMs, signal } = opts;
    if (context !== undefined && language !== undefined) {
      throw new InvalidArgumentError('language: a context has its own; give one of the two');
    }
    if (typeof code !== 'string') throw new InvalidArgumentError('code: it is no text');
    const timeoutMs = milliseconds('timeoutMs', opts.timeoutMs ?? RUN_TIMEOUT);
    const body = {
      code,
      ...(context === undefined ? {} : { context_id: context.id }),
      ...(language === undefined ? {} : { language: text('language', language) }),
      ...(envs === undefined ? {} : { env_vars: variables('envs', envs) }),
    };
    const limit = new AbortController();
    const over = () =>
      new TimeoutError(`could not run code: it ran for longer than ${timeoutMs} ms (timeoutMs; 0 is no limit)`);
    const timer = timeoutMs > 0 ? setTimeout(() => limit.abort(over()), timeoutMs) : undefined;
    const within = signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]);
    try {
      const answer = await this.interpreter.rest({
        action: 'run code',
        method: 'POST',
        path: '/execute',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        read: 'stream',
        requestTimeoutMs,
        signal: within,
        classes: { notFound: NotFoundError },
        secrets: secretsIn(envs),
      });
      return await this.follow(answer.response, opts, within);
    } catch (error) {
      if (within.aborted) throw within.reason;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Starts a context. */
  async createCodeContext(opts: CreateCodeContextOpts = {}): Promise<Context> {
    const { cwd, language, requestTimeoutMs } = opts;
    const json = {
      ...(cwd === undefined ? {} : { cwd: text('cwd', cwd) }),
      ...(language === undefined ? {} : { language: text('language', language) }),
    };
    return this.ask<Context>('start a context', 'POST', '/contexts', { json, requestTimeoutMs });
  }

  /** Ends a context. */
  async removeCodeContext(context: Context | string): Promise<void> {
    await this.ask('end the context', 'DELETE', `/contexts/${idOf(context)}`);
  }

  /** The contexts. */
  async listCodeContexts(): Promise<Context[]> {
    return (await this.ask<Context[] | undefined>('list contexts', 'GET', '/contexts')) ?? [];
  }

  /** Starts a context afresh: what ran before is forgotten. */
  async restartCodeContext(context: Context | string): Promise<void> {
    await this.ask('restart the context', 'POST', `/contexts/${idOf(context)}/restart`);
  }

  private async ask<T>(
    action: string,
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    { json, requestTimeoutMs }: { json?: unknown; requestTimeoutMs?: number | undefined } = {},
  ): Promise<T> {
    const body = json === undefined ? {} : { body: JSON.stringify(json) };
    const headers: Record<string, string> = json === undefined ? {} : { 'Content-Type': 'application/json' };
    const request = { action, method, path, headers, requestTimeoutMs, classes: { notFound: NotFoundError }, ...body };
    return parsed<T>(action, await this.interpreter.rest(request), this.interpreter.secrets);
  }

  private async follow(response: Response, opts: RunCodeOpts, signal: AbortSignal): Promise<Execution> {
    const execution = new Execution();
    const reader = response.body?.getReader();
    const aborted = () => void reader?.cancel(signal.reason).catch(() => {});
    signal.addEventListener('abort', aborted, { once: true });
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let rest = '';
    let told = 0;
    try {
      for (;;) {
        const { done, value } = await read(reader, execution);
        if (signal.aborted) throw signal.reason;
        rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
        const lines = rest.split('\n');
        rest = lines.pop() ?? '';
        if (rest.length > MAX_LINE) throw new SandboxError(`could not run code: a line is longer than ${MAX_LINE}`);
        for (const line of lines) {
          if (!/[^\t\f\r ]/.test(line)) continue;
          told += 1;
          await take(lineOf(line, execution), execution, opts);
        }
        if (!done) continue;
        if (rest !== '') throw cut(execution, 'it ended in the middle of a line');
        // Code that prints nothing has its number told at least: this is no result but the lack of one.
        if (told === 0) throw cut(execution, 'it ended before anything was told');
        return execution;
      }
    } finally {
      signal.removeEventListener('abort', aborted);
      reader?.cancel().catch(() => {});
    }
  }
}

async function read(
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  execution: Execution,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  try {
    return (await reader?.read()) ?? { done: true, value: undefined };
  } catch (cause) {
    throw cut(execution, reason(cause), cause);
  }
}

function cut(execution: Execution, how: string, cause?: unknown): OutcomeUnknownError {
  const lost = `its answer was cut (${how}): the connection was lost, and the result is unknown`;
  return unknown(execution, lost, cause);
}

function unknown(execution: Execution, why: string, cause?: unknown): OutcomeUnknownError {
  const message = `could not run code: ${why}; the code may go on running; what came is in \`execution\``;
  return Object.assign(new OutcomeUnknownError(message, { cause }), { execution });
}

function lineOf(text: string, execution: Execution): WireLine {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    // What JSON.parse says quotes the line, which may hold what the code printed.
    throw unknown(execution, "the server's answer makes no sense: a line is no JSON");
  }
  const line = read as WireLine;
  if (typeof read !== 'object' || read === null || typeof line.type !== 'string') {
    throw unknown(execution, "the server's answer makes no sense: a line has no type");
  }
  if (!isWhole(line)) {
    throw unknown(execution, `the server's answer makes no sense: a line of type ${line.type} lacks what it tells`);
  }
  return line;
}

/** Whether a line has what lines of its type have. */
function isWhole({ type, text, name = '', value = '', traceback = '', execution_count: count }: WireLine): boolean {
  switch (type) {
    case 'stdout':
    case 'stderr':
      return typeof text === 'string';
    case 'error':
      return [name, value, traceback].every((each) => typeof each === 'string');
    case 'number_of_executions':
      return Number.isInteger(count) && Number(count) >= 0;
    default:
      return true;
  }
}

async function take(line: WireLine, execution: Execution, opts: RunCodeOpts): Promise<void> {
  const { text: printed = '', timestamp = 0 } = line;
  switch (line.type) {
    case 'stdout':
      execution.logs.stdout.push(printed);
      await opts.onStdout?.(new OutputMessage(printed, timestamp, false));
      return;
    case 'stderr':
      execution.logs.stderr.push(printed);
      await opts.onStderr?.(new OutputMessage(printed, timestamp, true));
      return;
    case 'result': {
      const result = new Result(line as unknown as RawData, line.is_main_result ?? false);
      execution.results.push(result);
      await opts.onResult?.(result);
      return;
    }
    case 'error': {
      const { name = '', value = '', traceback = '' } = line;
      execution.error = new ExecutionError(name, value, traceback);
      await opts.onError?.(execution.error);
      return;
    }
    case 'number_of_executions':
      execution.executionCount = line.execution_count;
      return;
    default:
    // Kinds that are new are no harm.
  }
}

function idOf(context: Context | string): string {
  return segment(text('context', typeof context === 'string' ? context : context?.id));
}
