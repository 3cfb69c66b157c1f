/**
 * Credentials on their way to git: by its standard input into a pipe that its credential helper reads.
 *
 * They are in no argument and in no environment variable, since both are told by the sandbox's process list, and in no file.
 */

import type { Commands } from '../commands/commands.ts';
import { toBase64 } from '../envd/base64.ts';
import { type CommandResult, InvalidArgumentError, UnsupportedError } from '../errors.ts';
import { masked, without } from '../masked.ts';
import { hide } from '../runtime.ts';
import { quote } from '../shell.ts';
import { at, failure, git, runProgram, word } from './run.ts';
import type { GitRequestOpts } from './types.ts';

/** Reads the credentials, and runs git with a descriptor 9 from which they can be read as often as they are asked for. */
const FEED = `IFS= read -r u && IFS= read -r p || exit 125
exec 9< <(exec 2>/dev/null; while printf 'username=%s\\npassword=%s\\n\\n' "$u" "$p"; do :; done) || exit 125
exec "$@" < /dev/null`;

/** Git's helper: reads one answer from descriptor 9. */
const HELPER = `!f() { [ "$1" = get ] || return 0; while IFS= read -r l <&9 && [ -n "$l" ]; do printf '%s\\n' "$l"; done; }; f`;

/** Stores what it reads: in the file that is named first, or where git does. */
const STORE = `IFS= read -r u && IFS= read -r p || exit 125
printf 'protocol=%s\\nhost=%s\\nusername=%s\\npassword=%s\\n' "$2" "$3" "$u" "$p" |
git credential-store \${1:+--file "$1"} store`;

/** A name and a password that git can be told. */
export class Credentials {
  constructor(
    private readonly username: string,
    readonly password: string,
  ) {
    hide(this, 'username', 'password');
    for (const [what, text] of [
      ['username', username],
      ['password', password],
    ] as const) {
      if (typeof text !== 'string' || text === '')
        throw new InvalidArgumentError(`${what}: it is empty; give both, or none`);
      // The text itself stays out of the message.
      if (/[\n\r\0]/.test(text)) {
        throw new InvalidArgumentError(`${what}: it holds a line break or NUL, which git cannot be told`);
      }
    }
  }

  /** What the options give; `undefined` where they give none. */
  static of(opts: { username?: string | undefined; password?: string | undefined }): Credentials | undefined {
    if (opts.username === undefined && opts.password === undefined) return undefined;
    return new Credentials(opts.username ?? '', opts.password ?? '');
  }

  /** What is not to be told of them: as they are, as they are sent to the sandbox, and as git sends them. */
  get secrets(): readonly string[] {
    const coded = [this.lines, `${this.username}:${this.password}`];
    // Padding is not always written.
    return [this.password, ...coded.map((each) => toBase64(new TextEncoder().encode(each)).replace(/=+$/, ''))];
  }

  /** As they are fed. */
  get lines(): string {
    return `${this.username}\n${this.password}\n`;
  }
}

/** A repository's URL without what is in it of a name and a password. */
export interface SplitUrl {
  readonly plain: string;
  /** Of http and https alone. */
  readonly url?: URL;
  readonly credentials?: Credentials;
}

/**
 * Takes credentials out of a URL, a token in the place of the user's name too. A path, an ssh URL, or what git alone understands,
 * stays as it is.
 *
 * @throws InvalidArgumentError for a password of another scheme, which git can be given in an argument alone.
 */
export function split(text: string): SplitUrl {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    // It may hold a password, which git would be given, and repeat.
    if (/^\s*https?:/i.test(text)) throw unreadable();
    return ofAnotherScheme(text);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return ofAnotherScheme(text, url);
  if (mayEndInPassword(url)) throw unreadable();
  const name = decoded(url.username);
  // Git would keep a token, as it keeps names.
  const user = url.password === '' ? userOfToken(name) : undefined;
  if (url.password === '' && user === undefined) return { plain: text, url };
  const credentials = user === undefined ? new Credentials(name, decoded(url.password)) : new Credentials(user, name);
  url.username = '';
  url.password = '';
  return { plain: url.href, url, credentials };
}

/** What is no URL of http or https stays as it is; a password in it would be seen by all that runs in the sandbox. */
function ofAnotherScheme(text: string, url?: URL): SplitUrl {
  // Behind the name of a helper of git's there is another URL, and what cannot be read may hold a password all the same.
  const isRead = url !== undefined && url.host !== '';
  const holdsPassword = isRead ? url.password !== '' || mayEndInPassword(url) : /:\/\/[^/?#@]*:[^@]+@/.test(text);
  if (!holdsPassword) return { plain: text };
  throw new InvalidArgumentError(
    "url: a password can be used with http and https alone; it would be in the sandbox's list of processes and in its configuration",
  );
}

/** Whether what seems a port may be the beginning of a password, which a `?` or a `#` in it ends. */
function mayEndInPassword(url: URL): boolean {
  return [url.search, url.hash].some((rest) => rest.includes('@'));
}

/** What git pushes to or pulls from: a remote's name, or a URL without a password. */
export function checkRemote(remote: string): string {
  let isPlain: boolean;
  try {
    isPlain = split(remote).credentials === undefined;
  } catch {
    isPlain = false;
  }
  // Before any other check, which would repeat it.
  if (isPlain) return word('remote', remote);
  throw new InvalidArgumentError(
    "remote: it holds a password or a token, which would be in the sandbox's list of processes; give credentials",
  );
}

function unreadable(): InvalidArgumentError {
  return new InvalidArgumentError(
    'url: it cannot be read as a URL; in a name or a password "#" is %23, "/" is %2F, "?" is %3F, "@" is %40',
  );
}

/** A part of a URL without its escapes; what is none stays. */
function decoded(part: string): string {
  return part.replaceAll(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    const bytes = escapes.slice(1).split('%');
    return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 16)));
  });
}

/** What tokens begin with, and the user that a server takes them from, where they are passwords. */
const TOKENS: readonly [RegExp, string][] = [
  [/^(?:gh[opus]_|github_pat_)[\w.=-]{16,}$/, 'x-access-token'],
  [/^gl(?:pat|oas|dt|cbt)-[\w.=-]{16,}$/, 'oauth2'],
  [/^AT(?:BB|CTT3)[\w.=-]{16,}$/, 'x-token-auth'],
  // Gitea's, and GitHub's before 2021.
  [/^[0-9a-f]{40}$/, 'x-access-token'],
];

/** Whether a user's name is a token, in one of the forms that servers give theirs: the user to name in its place. */
function userOfToken(name: string): string | undefined {
  return TOKENS.find(([form]) => form.test(name))?.[1];
}

/** Runs git, as somebody where credentials are given. */
export async function gitAs(
  commands: Commands,
  action: string,
  credentials: Credentials | undefined,
  url: URL | undefined,
  args: readonly string[],
  opts: GitRequestOpts,
): Promise<CommandResult> {
  if (credentials === undefined || url === undefined) return git(commands, action, args, opts);
  // The first one takes away those that are configured: they would be told the password, and keep it.
  const helper = ['-c', 'credential.helper=', '-c', `credential.${url.origin}.helper=${HELPER}`];
  try {
    const program = ['/bin/bash', '-c', FEED, 'git', 'git', ...helper, ...args];
    return fed(action, await runProgram(commands, program, opts, credentials), credentials);
  } catch (error) {
    throw without(error, credentials.secrets);
  }
}

/** Stores credentials where git looks for them in every repository of the user. */
export async function store(
  commands: Commands,
  credentials: Credentials,
  host: string,
  protocol: string,
  opts: GitRequestOpts,
): Promise<CommandResult> {
  await git(commands, 'configure git', ['config', '--global', '--replace-all', 'credential.helper', 'store'], opts);
  return storeIn(commands, '', credentials, host, protocol, opts);
}

/** Stores credentials in a repository. */
export async function storeInRepository(
  commands: Commands,
  path: string,
  credentials: Credentials,
  url: URL,
  opts: GitRequestOpts,
): Promise<void> {
  const folder = await git(
    commands,
    "find the repository's folder",
    at(path, ['rev-parse', '--absolute-git-dir']),
    opts,
  );
  const file = `${folder.stdout.trimEnd()}/credentials`;
  await storeIn(commands, file, credentials, url.host, url.protocol.slice(0, -1), opts);
  const key = `credential.${url.origin}.helper`;
  const args = ['config', '--local', '--replace-all', key, `store --file=${quote(file)}`];
  await git(commands, 'configure git', at(path, args), opts);
}

async function storeIn(
  commands: Commands,
  file: string,
  credentials: Credentials,
  host: string,
  protocol: string,
  opts: GitRequestOpts,
): Promise<CommandResult> {
  const action = 'store the credentials';
  try {
    const program = ['/bin/bash', '-c', STORE, 'git', file, protocol, host];
    return fed(action, await runProgram(commands, program, opts, credentials), credentials);
  } catch (error) {
    throw without(error, credentials.secrets);
  }
}

/** What came of a program that was fed credentials. */
export function fed(action: string, given: CommandResult, { secrets }: Credentials): CommandResult {
  if (given.exitCode === 0) return given;
  // What git printed is part of the error, too.
  const result = {
    ...given,
    stdout: masked(given.stdout, secrets),
    stderr: masked(given.stderr, secrets),
    error: given.error && masked(given.error, secrets),
  };
  if (result.exitCode !== 125 && result.exitCode !== 127) throw failure(action, result);
  throw new UnsupportedError(`could not ${action}: git could not be given the credentials: ${result.stderr.trim()}`);
}
