/** Options of git, and what it tells. */

import type { CommandStartOpts } from '../commands/options.ts';

/** Options of every call. */
export type GitRequestOpts = Partial<
  Pick<CommandStartOpts, 'envs' | 'user' | 'cwd' | 'timeoutMs' | 'requestTimeoutMs' | 'signal'>
>;

/** Who is spoken for at a server. They are in no argument, no variable and no file, unless it says so. */
export interface GitCredentialOpts extends GitRequestOpts {
  /** Only with a password, and for http and https. */
  username?: string | undefined;
  /** Only with a username. */
  password?: string | undefined;
}

/** Options of `clone`. */
export interface GitCloneOpts extends GitCredentialOpts {
  /** Where to. Default: as git names it. */
  path?: string | undefined;
  /** This branch alone. */
  branch?: string | undefined;
  /** How many commits of its history. */
  depth?: number | undefined;
  /** Keeps the credentials in the repository, readable to all that runs in the sandbox. Default: false. */
  dangerouslyStoreCredentials?: boolean | undefined;
}

/** Options of `init`. */
export interface GitInitOpts extends GitRequestOpts {
  /** Without files beside it. Default: false. */
  bare?: boolean | undefined;
  /** Its first branch. Default: as git is configured. */
  initialBranch?: string | undefined;
}

/** Options of `remoteAdd`. */
export interface GitRemoteAddOpts extends GitRequestOpts {
  /** Fetches from it at once. Default: false. */
  fetch?: boolean | undefined;
  /** Gives one that is there another URL. Default: false. */
  overwrite?: boolean | undefined;
}

/** Options of `deleteBranch`. */
export interface GitDeleteBranchOpts extends GitRequestOpts {
  /** Also where its commits are nowhere else. Default: false. */
  force?: boolean | undefined;
}

/** Options of `add`. */
export interface GitAddOpts extends GitRequestOpts {
  /** These. */
  files?: string[] | undefined;
  /** All that changed, where no files are named. Default: true. */
  all?: boolean | undefined;
}

/** Options of `commit`. */
export interface GitCommitOpts extends GitRequestOpts {
  /** With `authorEmail`. Default: as git is configured. */
  authorName?: string | undefined;
  /** With `authorName`. Default: as git is configured. */
  authorEmail?: string | undefined;
  /** Also without changes. Default: false. */
  allowEmpty?: boolean | undefined;
}

/** What a reset changes beside the branch. */
export type GitResetMode = 'soft' | 'mixed' | 'hard' | 'merge' | 'keep';

/** Options of `reset`. */
export interface GitResetOpts extends GitRequestOpts {
  /** Not together with `paths`. */
  mode?: GitResetMode | undefined;
  /** To which commit. Default: HEAD. */
  target?: string | undefined;
  /** Takes these off the stage. */
  paths?: string[] | undefined;
}

/** Options of `restore`. */
export interface GitRestoreOpts extends GitRequestOpts {
  /** These; `.` is all. */
  paths: string[];
  /** On the stage. Default: false. */
  staged?: boolean | undefined;
  /** Among the files. Default: true unless `staged`. */
  worktree?: boolean | undefined;
  /** From which commit. Default: the stage, or HEAD. */
  source?: string | undefined;
}

/** Options of `push`. */
export interface GitPushOpts extends GitCredentialOpts {
  /** Default: the branch's, or the only one. */
  remote?: string | undefined;
  /** Default: the one that is checked out. */
  branch?: string | undefined;
  /** Follows it from now on. Default: true. */
  setUpstream?: boolean | undefined;
}

/** Options of `pull`. */
export interface GitPullOpts extends GitCredentialOpts {
  /** Default: the branch's, or the only one. */
  remote?: string | undefined;
  /** Default: the upstream of the one that is checked out. */
  branch?: string | undefined;
}

/** Whose configuration. */
export type GitConfigScope = 'global' | 'local' | 'system';

/** Options of `setConfig`, `getConfig` and `configureUser`. */
export interface GitConfigOpts extends GitRequestOpts {
  /** Default: global, the user's. */
  scope?: GitConfigScope | undefined;
  /** The repository of scope `local`. */
  path?: string | undefined;
}

/** Options of `dangerouslyAuthenticate`. */
export interface GitDangerouslyAuthenticateOpts extends GitRequestOpts {
  /** Who is spoken for. */
  username: string;
  /** The password, or a token. */
  password: string;
  /** Default: github.com. */
  host?: string | undefined;
  /** Default: https. */
  protocol?: string | undefined;
}

/** What happened to a file. */
export type GitStatusLabel =
  | 'conflict'
  | 'renamed'
  | 'copied'
  | 'deleted'
  | 'added'
  | 'modified'
  | 'typechange'
  | 'untracked'
  | 'unknown';

/** A file that is not as it was committed. */
export interface GitFileStatus {
  /** Its path in the repository. */
  name: string;
  /** What happened to it. */
  status: GitStatusLabel;
  /** Git's letter for the stage; a space: nothing. */
  indexStatus: string;
  /** Git's letter for the file; a space: nothing. */
  workingTreeStatus: string;
  /** Whether something of it is on the stage. */
  staged: boolean;
  /** What it was called. */
  renamedFrom?: string | undefined;
}

/** What a repository is like. */
export interface GitStatus {
  /** The branch that is checked out. */
  currentBranch?: string | undefined;
  /** The branch that it follows. */
  upstream?: string | undefined;
  /** Commits that the upstream does not have. */
  ahead: number;
  /** Commits that only the upstream has. */
  behind: number;
  /** No branch is checked out. */
  detached: boolean;
  /** The files that are not as they were committed. */
  fileStatus: GitFileStatus[];
  /** Whether there is no such file. */
  isClean: boolean;
  /** Whether there is such a file. */
  hasChanges: boolean;
  /** Whether something is on the stage. */
  hasStaged: boolean;
  /** Whether there are files that git does not know. */
  hasUntracked: boolean;
  /** Whether there are conflicts. */
  hasConflicts: boolean;
  /** How many files there are that are not as they were committed. */
  totalCount: number;
  /** How many of them are on the stage. */
  stagedCount: number;
  /** How many of them have changes that are not. */
  unstagedCount: number;
  /** How many of them git does not know. */
  untrackedCount: number;
  /** How many of them have conflicts. */
  conflictCount: number;
}

/** Branches of a repository. */
export interface GitBranches {
  /** Their names. */
  branches: string[];
  /** The one that is checked out. */
  currentBranch?: string | undefined;
}
