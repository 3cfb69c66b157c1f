import { spawn } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { isProgram, PROGRAM, packagedProgram } from '../program.ts';

/** Options of every program that this kit starts. */
export interface ProgramOptions {
  /** The `oncebox` program. Default: what `ONCEBOX_BIN` names, else the one of this package, else the one in `PATH`. */
  readonly program?: string | undefined;
  /** How long it may take until it serves, in milliseconds. Default 30,000. */
  readonly startTimeout?: number | undefined;
}

/** A program under way. */
export interface Program {
  /** What it said first: one line of JSON. */
  readonly said: Readonly<Record<string, unknown>>;
  /** Asks it to end, and waits until it has. */
  stop(): Promise<void>;
}

/**
 * Runs a program that watches the end of this process: also where that is killed, its standard input ends, and the program
 * is interrupted. `exec` makes the shell the program itself, so that its end is seen.
 */
const WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -INT $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null';

const START_TIMEOUT = 30_000;

/** How much of what it complains about is shown. */
const COMPLAINTS = 4096;

/** Where the program is; `undefined`: nowhere. */
export function findProgram(given?: string): string | undefined {
  const named = given ?? process.env.ONCEBOX_BIN;
  if (named) return isProgram(named) ? named : undefined;
  return packagedProgram() ?? inPath();
}

function inPath(): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, PROGRAM))
    .find(isProgram);
}

/** Starts `oncebox` and waits for its first line. It ends with this process, whose end it does not hold up. */
export function start(args: readonly string[], options: ProgramOptions = {}): Promise<Program> {
  const program = findProgram(options.program);
  if (program === undefined) {
    const named = options.program ?? process.env.ONCEBOX_BIN;
    const where = named ? `${named} is no program` : 'neither the package of this platform nor PATH has it';
    throw new Error(`the testing kit needs the oncebox program, and ${where}; name it by "program" or ONCEBOX_BIN`);
  }
  const child = spawn('sh', ['-c', WATCHED, 'sh', program, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-COMPLAINTS);
  });
  // What it reads no more may be gone already.
  child.stdin.on('error', () => {});
  const stop = async () => {
    // Whoever waits for its end does not end before.
    child.ref();
    child.stdin.end();
    await ended;
  };
  return new Promise((resolve, reject) => {
    let output = '';
    const fail = (why: string) => {
      clearTimeout(timer);
      child.stdin.end();
      reject(new Error(`oncebox ${args.join(' ')}: ${why}${complaints ? `\n${complaints}` : ''}`));
    };
    // What no timer can have would be over at once.
    const limit = Math.min(options.startTimeout ?? START_TIMEOUT, 2 ** 31 - 1);
    const timer = setTimeout(() => fail(`nothing was served within ${limit} ms (startTimeout)`), limit);
    child.once('error', (error) => fail(error.message));
    child.once('close', (code, signal) => fail(`it ended with ${signal ?? `code ${code}`}`));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (output.includes('\n')) return;
      output += text;
      const end = output.indexOf('\n');
      if (end < 0) return;
      let said: Record<string, unknown>;
      try {
        said = JSON.parse(output.slice(0, end)) as Record<string, unknown>;
      } catch {
        return fail(`its first line is no JSON: ${output.slice(0, Math.min(end, 200))}`);
      }
      clearTimeout(timer);
      child.removeAllListeners('error');
      child.on('error', () => {});
      for (const handle of [child, child.stdin, child.stdout, child.stderr]) {
        (handle as { unref?: () => void }).unref?.();
      }
      resolve({ said, stop });
    });
  });
}
