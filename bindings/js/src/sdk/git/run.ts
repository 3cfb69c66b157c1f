/** Running git, and what its failures mean. */

import { Commands, startProgram } from '../commands/commands.ts';
import {
  CommandExitError,
  type CommandResult,
  GitAuthError,
  GitUpstreamError,
  InvalidArgumentError,
  type SandboxError,
  UnsupportedError,
} from '../errors.ts';
import { through } from '../trail.ts';
import type { Credentials } from './credentials.ts';
import type { GitRequestOpts } from './types.ts';

/** Nobody would answer. Messages are read, in English. */
const ENVS = { GIT_TERMINAL_PROMPT: '0', LC_MESSAGES: 'C', LANGUAGE: '' };

const AUTHENTICATION =
  /authentication failed|terminal prompts disabled|could not read (username|password)|invalid username or password|invalid credentials|access denied|permission denied \(publickey|the requested url returned error: 403/i;

const UPSTREAM =
  /has no upstream branch|no upstream (branch|configured)|no tracking information|no configured push destination/i;

/** The most that is shown of git's words. */
const MAX_WORDS = 2000;

/** Runs a program as git is run; whatever its exit code. */
export function runProgram(
  commands: Commands,
  program: readonly string[],
  opts: GitRequestOpts,
  credentials?: Credentials,
): Promise<CommandResult> {
  const run = (noting: Commands) => runNoted(noting, program, opts, credentials);
  // Before words are cut: a part of a password would not be known for one.
  const by =
    credentials === undefined ? commands : new Commands(Commands.envdOf(commands).keeping(credentials.secrets));
  return through(by, run, 'it was, or may have been, started before');
}

async function runNoted(
  commands: Commands,
  [cmd = '', ...args]: readonly string[],
  opts: GitRequestOpts,
  credentials?: Credentials,
): Promise<CommandResult> {
  const { envs, user, cwd, timeoutMs, requestTimeoutMs, signal } = opts;
  const limits = { user, cwd, timeoutMs, requestTimeoutMs, signal };
  let handle: Awaited<ReturnType<typeof startProgram>>;
  try {
    const program = { cmd, args, stdin: credentials !== undefined, envs: { ...ENVS, ...envs } };
    handle = await startProgram(commands, { ...limits, ...program });
  } catch (error) {
    const missing = error instanceof InvalidArgumentError && /not found|no such file/i.test(error.message);
    if (!missing || /cwd/.test((error as Error).message)) throw error;
    throw new UnsupportedError('there is no git in the sandbox; its template must have it', { cause: error });
  }
  if (credentials !== undefined) {
    try {
      await handle.sendStdin(credentials.lines, { requestTimeoutMs, signal });
    } catch (error) {
      // Without them it waits for ever.
      await handle.kill().catch(() => {});
      throw error;
    }
  }
  try {
    return await handle.wait();
  } catch (error) {
    if (!(error instanceof CommandExitError)) throw error;
    const { exitCode, stdout, stderr } = error;
    return { exitCode, stdout, stderr, error: error.error };
  }
}

/** Runs git, whatever its exit code. */
export function tryGit(commands: Commands, args: readonly string[], opts: GitRequestOpts): Promise<CommandResult> {
  return runProgram(commands, ['git', ...args], opts);
}

/** Runs git, which must succeed. */
export async function git(
  commands: Commands,
  action: string,
  args: readonly string[],
  opts: GitRequestOpts,
): Promise<CommandResult> {
  const result = await tryGit(commands, args, opts);
  if (result.exitCode === 0) return result;
  throw failure(action, result);
}

/** What git's failure is. */
export function failure(action: string, result: CommandResult): SandboxError | GitAuthError {
  const said = (result.stderr.trim() || result.stdout.trim()).replaceAll(/[^\P{Cc}\n]/gu, '').slice(0, MAX_WORDS);
  const message = `could not ${action}: git ended with exit code ${result.exitCode}${said ? `: ${said}` : ''}`;
  const all = `${result.stderr}\n${result.stdout}`;
  if (AUTHENTICATION.test(all)) return new GitAuthError(message);
  if (UPSTREAM.test(all)) return new GitUpstreamError(message);
  return Object.assign(new CommandExitError(result), { message });
}

/** A word that git will not take for an option. */
export function word(option: string, value: string): string {
  const rule =
    typeof value !== 'string' || value.trim() === ''
      ? 'is empty'
      : value.startsWith('-')
        ? 'begins with a hyphen, which git would take for an option'
        : /[\0\n]/.test(value)
          ? 'holds a character that it cannot'
          : undefined;
  if (rule === undefined) return value;
  throw new InvalidArgumentError(`${option}: ${JSON.stringify(value)} ${rule}`);
}

/** Arguments for a repository. */
export function at(path: string, args: readonly string[]): string[] {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) {
    throw new InvalidArgumentError(`path: ${JSON.stringify(path)} is no path`);
  }
  return ['-C', path, ...args];
}
