/** What is told of a build. */

import { masked, type Secrets } from '../masked.ts';

/** How important a line is. */
export type LogEntryLevel = 'debug' | 'info' | 'warn' | 'error';

/** A line of a build's log. */
export class LogEntry {
  constructor(
    /** When it was written. */
    readonly timestamp: Date,
    /** How important it is. */
    readonly level: LogEntryLevel,
    /** What it says, without colours. */
    readonly message: string,
  ) {}

  /** The line as a text. */
  toString(): string {
    return `[${this.timestamp.toISOString()}] [${this.level}] ${this.message}`;
  }
}

/** The build begins. */
export class LogEntryStart extends LogEntry {
  constructor(timestamp: Date, message: string) {
    super(timestamp, 'debug', message);
  }
}

/** The build is over, well or not. */
export class LogEntryEnd extends LogEntry {
  constructor(timestamp: Date, message: string) {
    super(timestamp, 'debug', message);
  }
}

/** How far a build is. */
export type TemplateBuildStatus = 'building' | 'waiting' | 'ready' | 'error';

/** Why a build failed. */
export interface BuildStatusReason {
  /** What went wrong. */
  message: string;
  /** Which step it was. */
  step?: string | undefined;
  /** The lines of the log that tell of it. */
  logEntries: LogEntry[];
}

/** How far a build is, with its log from an offset on. */
export interface TemplateBuildStatusResponse {
  /** The build's id. */
  buildID: string;
  /** The template's id. */
  templateID: string;
  /** How far it is. */
  status: TemplateBuildStatus;
  /** The log from the offset on. */
  logEntries: LogEntry[];
  /** The same as lines. */
  logs: string[];
  /** Why it failed. */
  reason?: BuildStatusReason | undefined;
}

/** A status as it is told. */
export interface WireStatus {
  templateID?: string;
  buildID?: string;
  status?: TemplateBuildStatus;
  logs?: string[];
  logEntries?: WireLog[];
  reason?: { message?: string; step?: string; logEntries?: WireLog[] } | null;
}

interface WireLog {
  timestamp?: string;
  message?: string;
  level?: LogEntryLevel;
}

const LEVELS: readonly LogEntryLevel[] = ['debug', 'info', 'warn', 'error'];

/** What a terminal would take for colours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what is looked for
const ESCAPES = /\x1b\[[0-9;?]*[A-Za-z]/g;

/** Reads a status, which must not tell secrets. */
export function statusOf(wire: WireStatus, secrets: Secrets = []): TemplateBuildStatusResponse {
  const entryOf = (log: WireLog): LogEntry => entryWithout(log, secrets);
  const status: TemplateBuildStatusResponse = {
    buildID: wire.buildID ?? '',
    templateID: wire.templateID ?? '',
    status: wire.status ?? 'building',
    logEntries: (wire.logEntries ?? []).map(entryOf),
    logs: (wire.logs ?? []).map((line) => masked(line, secrets)),
  };
  if (wire.reason) {
    const { step, logEntries = [] } = wire.reason;
    const message = masked(wire.reason.message ?? '', secrets);
    status.reason = { message, logEntries: logEntries.map(entryOf), ...(step === undefined ? {} : { step }) };
  }
  return status;
}

function entryWithout({ timestamp = '', level, message = '' }: WireLog, secrets: Secrets): LogEntry {
  const at = new Date(timestamp);
  const known = LEVELS.find((each) => each === level) ?? 'info';
  return new LogEntry(
    Number.isNaN(at.getTime()) ? new Date() : at,
    known,
    masked(message.replaceAll(ESCAPES, ''), secrets),
  );
}

/** Writes a build's log to the console, with the time since its beginning. */
export function defaultBuildLogger(
  options: { minLevel?: LogEntryLevel | undefined } = {},
): (logEntry: LogEntry) => void {
  const least = LEVELS.indexOf(options.minLevel ?? 'info');
  let begun: number | undefined;
  return (entry) => {
    begun ??= entry.timestamp.getTime();
    const always = entry instanceof LogEntryStart || entry instanceof LogEntryEnd;
    if (!always && LEVELS.indexOf(entry.level) < least) return;
    const since = ((entry.timestamp.getTime() - begun) / 1000).toFixed(1).padStart(6);
    console.log(`${since}s ${entry.level.toUpperCase().padEnd(5)} ${entry.message}`);
  };
}
