/** What code printed, gave and raised. */

import type { ChartTypes } from './charts.ts';

/** A kind of data, such as `text/html`. */
export type MIMEType = string;

/** A result as it was told. */
export type RawData = {
  [key: MIMEType]: unknown;
} & { data?: Record<string, unknown>; chart?: ChartTypes };

/** A line of output. */
export class OutputMessage {
  constructor(
    /** What was printed. */
    readonly line: string,
    /** In nanoseconds since 1970. */
    readonly timestamp: number,
    /** Whether it is of standard error. */
    readonly error: boolean,
  ) {}

  /** What was printed. */
  toString(): string {
    return this.line;
  }
}

/** What code raised. */
export class ExecutionError {
  constructor(
    /** Its class. */
    readonly name: string,
    /** Its message. */
    readonly value: string,
    /** Where it was raised. */
    readonly traceback: string,
  ) {}
}

/** Kinds of data that have a field of their own. */
const KINDS = ['text', 'html', 'markdown', 'svg', 'png', 'jpeg', 'pdf', 'latex', 'json', 'javascript'] as const;

/** A value of the last line of code, or what it displayed, in each form that it has. Pictures are base64. */
export class Result {
  /** Plain text. */
  readonly text?: string;
  /** HTML. */
  readonly html?: string;
  /** Markdown. */
  readonly markdown?: string;
  /** A drawing as SVG. */
  readonly svg?: string;
  /** A picture as PNG, base64. */
  readonly png?: string;
  /** A picture as JPEG, base64. */
  readonly jpeg?: string;
  /** A page as PDF, base64. */
  readonly pdf?: string;
  /** LaTeX. */
  readonly latex?: string;
  /** JSON. */
  readonly json?: string;
  /** JavaScript. */
  readonly javascript?: string;
  /** A table's columns. */
  readonly data?: Record<string, unknown>;
  /** A chart, taken apart. */
  readonly chart?: ChartTypes;
  /** Forms that have no field of their own. */
  // biome-ignore lint/suspicious/noExplicitAny: as the official type has it
  readonly extra?: any;
  /** All as it was told. */
  readonly raw: RawData;

  constructor(
    rawData: RawData,
    /** Whether it is the value of the last line. */
    readonly isMainResult: boolean,
  ) {
    const { type: _type, is_main_result: _main, ...data } = rawData as Record<string, unknown>;
    this.raw = data as RawData;
    const extra: Record<string, unknown> = {};
    for (const [kind, value] of Object.entries(data)) {
      if (value === undefined || value === null) continue;
      const known = kind === 'data' || kind === 'chart' || (KINDS as readonly string[]).includes(kind);
      if (known) Object.assign(this, { [kind]: value });
      else if (kind === 'extra') Object.assign(extra, value);
      else extra[kind] = value;
    }
    this.extra = extra;
  }

  /** The forms that it has. */
  formats(): string[] {
    const known = [...KINDS, 'data', 'chart'] as const;
    return [...known.filter((kind) => this[kind] !== undefined), ...Object.keys(this.extra ?? {})];
  }

  /** Its forms, without the raw data. */
  toJSON(): Record<(typeof KINDS)[number], string | undefined> & { extra?: unknown } {
    const { text, html, markdown, svg, png, jpeg, pdf, latex, json, javascript, extra } = this;
    const forms = { text, html, markdown, svg, png, jpeg, pdf, latex, json, javascript };
    return Object.keys(extra ?? {}).length > 0 ? { ...forms, extra } : forms;
  }
}

/** What was printed. */
export interface Logs {
  /** To standard output, piece by piece. */
  stdout: string[];
  /** To standard error, piece by piece. */
  stderr: string[];
}

/** What became of code. */
export class Execution {
  constructor(
    /** What it gave and displayed, in order. */
    public results: Result[] = [],
    /** What it printed. */
    public logs: Logs = { stdout: [], stderr: [] },
    /** What it raised. */
    public error?: ExecutionError | undefined,
    /** Which of its context's it was. */
    public executionCount?: number | undefined,
  ) {}

  /** The value of its last line as text. */
  get text(): string | undefined {
    return this.results.find((result) => result.isMainResult)?.text;
  }

  /** What it is as JSON. */
  toJSON(): { results: Result[]; logs: Logs; error: ExecutionError | undefined } {
    const { results, logs, error } = this;
    return { results, logs, error };
  }
}

/** A line of the interpreter's answer. */
export interface WireLine {
  type?: string;
  text?: string;
  timestamp?: number;
  name?: string;
  value?: string;
  traceback?: string;
  execution_count?: number;
  is_main_result?: boolean;
}
