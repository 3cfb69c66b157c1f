/** Git in a sandbox, by its own commands. */

import { Commands } from '../commands/commands.ts';
import { type CommandResult, GitUpstreamError, InvalidArgumentError, SandboxError } from '../errors.ts';
import { checkNames } from '../known.ts';
import { through } from '../trail.ts';
import { whole } from '../validate.ts';
import { Credentials, checkRemote, gitAs, type SplitUrl, split, store, storeInRepository } from './credentials.ts';
import { OF } from './names.ts';
import { at, failure, git, tryGit, word } from './run.ts';
import { parseBranches, parseStatus } from './status.ts';
import type {
  GitAddOpts,
  GitBranches,
  GitCloneOpts,
  GitCommitOpts,
  GitConfigOpts,
  GitDangerouslyAuthenticateOpts,
  GitDeleteBranchOpts,
  GitInitOpts,
  GitPullOpts,
  GitPushOpts,
  GitRemoteAddOpts,
  GitRequestOpts,
  GitResetMode,
  GitResetOpts,
  GitRestoreOpts,
  GitStatus,
} from './types.ts';

const MODES: readonly GitResetMode[] = ['soft', 'mixed', 'hard', 'merge', 'keep'];

/**
 * Runs git in a sandbox: `sandbox.git`. Paths are of repositories in the sandbox.
 *
 * @throws GitAuthError, GitUpstreamError, CommandExitError as git fails; UnsupportedError where the sandbox has no git;
 * InvalidArgumentError before anything is run.
 */
export class Git {
  constructor(private readonly commands: Commands) {}

  /** Clones a repository. Credentials in the URL are used, and not kept. */
  async clone(url: string, opts: GitCloneOpts = {}): Promise<CommandResult> {
    this.checkNames('clone', opts, OF.clone);
    const { plain, url: server, credentials: inUrl } = checkUrl(url);
    const credentials = Credentials.of(opts) ?? inUrl;
    if (credentials && !server) throw notHttp();
    const args = ['clone'];
    if (opts.branch !== undefined) args.push('--branch', word('branch', opts.branch), '--single-branch');
    if (opts.depth !== undefined) args.push('--depth', String(whole('depth', opts.depth, 1)));
    args.push('--', plain);
    if (opts.path !== undefined) args.push(opts.path);
    const folder = opts.path ?? folderOf(plain);
    if (opts.dangerouslyStoreCredentials && credentials && !folder) {
      throw new InvalidArgumentError('path: git names no folder after this URL; give one');
    }
    return through(this.commands, async (commands) => {
      const result = await gitAs(commands, 'clone the repository', credentials, server, args, opts);
      if (opts.dangerouslyStoreCredentials && credentials && server && folder) {
        await storeInRepository(commands, folder, credentials, server, opts);
      }
      return result;
    });
  }

  /** Makes a repository. */
  async init(path: string, opts: GitInitOpts = {}): Promise<CommandResult> {
    this.checkNames('init', opts, OF.init);
    const args = ['init'];
    if (opts.bare) args.push('--bare');
    if (opts.initialBranch !== undefined) args.push('--initial-branch', word('initialBranch', opts.initialBranch));
    at(path, []);
    return this.run('make the repository', [...args, '--', path], opts);
  }

  /** Adds a remote. */
  async remoteAdd(path: string, name: string, url: string, opts: GitRemoteAddOpts = {}): Promise<CommandResult> {
    this.checkNames('remoteAdd', opts, OF.remoteAdd);
    const { plain, credentials } = checkUrl(url);
    if (credentials) {
      throw new InvalidArgumentError(
        "url: it holds a password or a token, which would stay in the sandbox's configuration; give it to push and pull, " +
          'or to dangerouslyAuthenticate',
      );
    }
    word('name', name);
    const exists = opts.overwrite && (await this.remoteGet(path, name, opts)) !== undefined;
    const args = ['remote', exists ? 'set-url' : 'add', name, plain];
    return through(this.commands, async (commands) => {
      const result = await git(commands, 'add the remote', at(path, args), opts);
      return opts.fetch ? git(commands, 'fetch from the remote', at(path, ['fetch', name]), opts) : result;
    });
  }

  /** A remote's URL; `undefined` where there is no such remote. */
  async remoteGet(path: string, name: string, opts: GitRequestOpts = {}): Promise<string | undefined> {
    this.checkNames('remoteGet', opts, OF.request);
    const result = await tryGit(this.commands, at(path, ['remote', 'get-url', word('name', name)]), opts);
    if (result.exitCode === 0) return result.stdout.trimEnd();
    // What git ends with when there is no such remote.
    if (result.exitCode === 2) return undefined;
    throw failure("read the remote's URL", result);
  }

  /** What a repository is like. */
  async status(path: string, opts: GitRequestOpts = {}): Promise<GitStatus> {
    this.checkNames('status', opts, OF.request);
    const args = at(path, ['status', '--porcelain=v2', '--branch', '--untracked-files=all', '-z']);
    const { stdout } = await this.run("read the repository's status", args, opts);
    const status = parseStatus(stdout);
    if (status === undefined)
      throw new SandboxError("could not read the repository's status: git's words make no sense");
    return status;
  }

  /** A repository's branches. */
  async branches(path: string, opts: GitRequestOpts = {}): Promise<GitBranches> {
    this.checkNames('branches', opts, OF.request);
    const args = at(path, ['for-each-ref', '--format=%(HEAD)%(refname:short)', 'refs/heads']);
    return parseBranches((await this.run('list branches', args, opts)).stdout);
  }

  /** Makes a branch, and checks it out. */
  async createBranch(path: string, branch: string, opts: GitRequestOpts = {}): Promise<CommandResult> {
    this.checkNames('createBranch', opts, OF.request);
    return this.run('make the branch', at(path, ['checkout', '-b', word('branch', branch)]), opts);
  }

  /** Checks a branch out. */
  async checkoutBranch(path: string, branch: string, opts: GitRequestOpts = {}): Promise<CommandResult> {
    this.checkNames('checkoutBranch', opts, OF.request);
    return this.run('check the branch out', at(path, ['checkout', word('branch', branch), '--']), opts);
  }

  /** Deletes a branch. */
  async deleteBranch(path: string, branch: string, opts: GitDeleteBranchOpts = {}): Promise<CommandResult> {
    this.checkNames('deleteBranch', opts, OF.deleteBranch);
    const args = at(path, ['branch', opts.force ? '-D' : '-d', word('branch', branch)]);
    return this.run('delete the branch', args, opts);
  }

  /** Stages changes. */
  async add(path: string, opts: GitAddOpts = {}): Promise<CommandResult> {
    this.checkNames('add', opts, OF.add);
    const { files = [], all = true } = opts;
    if (files.length === 0 && !all) throw new InvalidArgumentError('files: none is given, and all is false');
    const what = files.length > 0 ? ['--', ...files] : ['-A'];
    return this.run('stage the changes', at(path, ['add', ...what]), opts);
  }

  /** Commits what is staged. */
  async commit(path: string, message: string, opts: GitCommitOpts = {}): Promise<CommandResult> {
    this.checkNames('commit', opts, OF.commit);
    if (typeof message !== 'string' || message.trim() === '') throw new InvalidArgumentError('message: it is empty');
    const author = [
      ...(opts.authorName === undefined ? [] : ['-c', `user.name=${opts.authorName}`]),
      ...(opts.authorEmail === undefined ? [] : ['-c', `user.email=${opts.authorEmail}`]),
    ];
    const args = [...author, 'commit', '-m', message, ...(opts.allowEmpty ? ['--allow-empty'] : [])];
    return this.run('commit', at(path, args), opts);
  }

  /** Resets a branch, or takes paths off the stage. */
  async reset(path: string, opts: GitResetOpts = {}): Promise<CommandResult> {
    this.checkNames('reset', opts, OF.reset);
    const { mode, target, paths = [] } = opts;
    if (mode !== undefined && !MODES.includes(mode)) {
      throw new InvalidArgumentError(`mode: ${JSON.stringify(mode)} is none of ${MODES.join(', ')}`);
    }
    if (mode !== undefined && paths.length > 0) {
      throw new InvalidArgumentError('mode: paths are reset without one; give one of the two');
    }
    const args = ['reset'];
    if (mode !== undefined) args.push(`--${mode}`);
    if (target !== undefined) args.push(word('target', target));
    return this.run('reset', at(path, [...args, '--', ...paths]), opts);
  }

  /** Brings files back to what they were. */
  async restore(path: string, opts: GitRestoreOpts): Promise<CommandResult> {
    this.checkNames('restore', opts, OF.restore);
    const { paths, staged = false, worktree = !staged, source } = opts;
    if (!Array.isArray(paths) || paths.length === 0) throw new InvalidArgumentError('paths: none is given; "." is all');
    if (!staged && !worktree) {
      throw new InvalidArgumentError('worktree: with neither staged nor worktree there is nothing to restore');
    }
    const args = ['restore'];
    if (staged) args.push('--staged');
    if (worktree) args.push('--worktree');
    if (source !== undefined) args.push('--source', word('source', source));
    return this.run('restore the files', at(path, [...args, '--', ...paths]), opts);
  }

  /**
   * Pushes a branch.
   *
   * @throws GitUpstreamError where nobody can tell where to.
   */
  async push(path: string, opts: GitPushOpts = {}): Promise<CommandResult> {
    this.checkNames('push', opts, OF.push);
    const credentials = Credentials.of(opts);
    const given = opts.remote === undefined ? undefined : checkRemote(opts.remote);
    const branch = opts.branch === undefined ? await this.currentBranch(path, opts) : word('branch', opts.branch);
    const found = branch === undefined ? undefined : () => this.remoteOf(path, branch, opts);
    const remote = given ?? (await found?.());
    if (remote === undefined || branch === undefined) {
      throw new GitUpstreamError('could not push: nobody can tell where to: give remote and branch');
    }
    const server = await this.serverOf(path, remote, credentials, opts);
    const args = ['push', ...(opts.setUpstream === false ? [] : ['--set-upstream']), remote, branch];
    return gitAs(this.commands, 'push', credentials, server, at(path, args), opts);
  }

  /**
   * Pulls a branch.
   *
   * @throws GitUpstreamError where nobody can tell where from.
   */
  async pull(path: string, opts: GitPullOpts = {}): Promise<CommandResult> {
    this.checkNames('pull', opts, OF.pull);
    const credentials = Credentials.of(opts);
    let remote = opts.remote === undefined ? undefined : checkRemote(opts.remote);
    const branch = opts.branch === undefined ? undefined : word('branch', opts.branch);
    if (remote === undefined && (branch !== undefined || credentials !== undefined)) {
      remote = await this.remoteOf(path, (await this.currentBranch(path, opts)) ?? '', opts);
      if (remote === undefined) throw new GitUpstreamError('could not pull: nobody can tell where from: give remote');
    }
    const server = remote === undefined ? undefined : await this.serverOf(path, remote, credentials, opts);
    // A remote alone has git look for the upstream all the same.
    const args = ['pull', ...(remote === undefined ? [] : [remote]), ...(branch === undefined ? [] : [branch])];
    return gitAs(this.commands, 'pull', credentials, server, at(path, args), opts);
  }

  /** Sets a value of git's configuration. */
  async setConfig(key: string, value: string, opts: GitConfigOpts = {}): Promise<CommandResult> {
    this.checkNames('setConfig', opts, OF.config);
    return this.run("set git's configuration", scoped(opts, ['--replace-all', word('key', key), value]), opts);
  }

  /** A value of git's configuration; `undefined` where it is not set. */
  async getConfig(key: string, opts: GitConfigOpts = {}): Promise<string | undefined> {
    this.checkNames('getConfig', opts, OF.config);
    const result = await tryGit(this.commands, scoped(opts, ['--get', word('key', key)]), opts);
    if (result.exitCode === 0) return result.stdout.replace(/\n$/, '');
    // What git ends with for a key that is not set. It says more about one that cannot be.
    if (result.exitCode === 1 && result.stderr === '') return undefined;
    throw failure("read git's configuration", result);
  }

  /**
   * Stores credentials for all of the user's repositories, in a file that all that runs in the sandbox can read. Prefer to
   * give them to `clone`, `push` and `pull`.
   */
  async dangerouslyAuthenticate(opts: GitDangerouslyAuthenticateOpts): Promise<CommandResult> {
    this.checkNames('dangerouslyAuthenticate', opts, OF.authenticate);
    const credentials = new Credentials(opts.username, opts.password);
    const [host, protocol] = [word('host', opts.host ?? 'github.com'), word('protocol', opts.protocol ?? 'https')];
    return through(this.commands, (commands) => store(commands, credentials, host, protocol, opts));
  }

  /** Sets who commits. */
  async configureUser(name: string, email: string, opts: GitConfigOpts = {}): Promise<CommandResult> {
    this.checkNames('configureUser', opts, OF.config);
    for (const [what, value] of Object.entries({ name, email })) {
      if (typeof value !== 'string' || value.trim() === '') throw new InvalidArgumentError(`${what}: it is empty`);
    }
    return through(this.commands, async (commands) => {
      const git = new Git(commands);
      await git.setConfig('user.name', name, opts);
      return git.setConfig('user.email', email, opts);
    });
  }

  private checkNames(method: string, opts: unknown, names: readonly string[]): void {
    checkNames(`git.${method}`, opts, names, Commands.envdOf(this.commands).config.logger);
  }

  private run(action: string, args: readonly string[], opts: GitRequestOpts): Promise<CommandResult> {
    return git(this.commands, action, args, opts);
  }

  private async serverOf(
    path: string,
    remote: string,
    credentials: Credentials | undefined,
    opts: GitRequestOpts,
  ): Promise<URL | undefined> {
    if (credentials === undefined) return undefined;
    const own = split(remote).url;
    if (own !== undefined) return own;
    const url = await this.remoteGet(path, remote, opts);
    if (url === undefined) {
      throw new InvalidArgumentError(`remote: the repository has no remote ${JSON.stringify(remote)}`);
    }
    const server = split(url).url;
    if (server === undefined) throw notHttp();
    return server;
  }

  private async remoteOf(path: string, branch: string, opts: GitRequestOpts): Promise<string | undefined> {
    const request: GitConfigOpts = { ...opts, scope: 'local', path };
    const own = branch === '' ? undefined : await this.getConfig(`branch.${branch}.remote`, request);
    if (own !== undefined) return own;
    const { stdout } = await this.run('list remotes', at(path, ['remote']), opts);
    const remotes = stdout.split('\n').filter((line) => line !== '');
    return remotes.length === 1 ? remotes[0] : undefined;
  }

  private async currentBranch(path: string, opts: GitRequestOpts): Promise<string | undefined> {
    const result = await tryGit(this.commands, at(path, ['symbolic-ref', '--quiet', '--short', 'HEAD']), opts);
    if (result.exitCode === 0) return result.stdout.trimEnd();
    // No branch is checked out.
    if (result.exitCode === 1) return undefined;
    throw failure('read which branch is checked out', result);
  }
}

function scoped(opts: GitConfigOpts, args: readonly string[]): string[] {
  const { scope = 'global', path } = opts;
  if (scope === 'global' || scope === 'system') return ['config', `--${scope}`, ...args];
  if (scope !== 'local')
    throw new InvalidArgumentError(`scope: ${JSON.stringify(scope)} is none of global, local, system`);
  if (path === undefined) throw new InvalidArgumentError('path: scope local needs the path of a repository');
  return at(path, ['config', '--local', ...args]);
}

/** A URL is not shown: it may hold a password. */
function checkUrl(url: string): SplitUrl {
  if (typeof url !== 'string' || url.trim() === '' || url.startsWith('-') || /[\0\n]/.test(url)) {
    throw new InvalidArgumentError('url: it is empty, begins with a hyphen, or holds a line break');
  }
  return split(url);
}

/** What git calls the folder of a clone. */
function folderOf(url: string): string | undefined {
  const name = url.replace(/\/+$/, '').split(/[/:]/).at(-1) ?? '';
  return name.replace(/\.git$/, '') || undefined;
}

function notHttp(): InvalidArgumentError {
  return new InvalidArgumentError('url: credentials can be used with http and https alone');
}
