/** Names of the options of git's methods. */

import { namesOf } from '../known.ts';
import type {
  GitAddOpts,
  GitCloneOpts,
  GitCommitOpts,
  GitConfigOpts,
  GitCredentialOpts,
  GitDangerouslyAuthenticateOpts,
  GitDeleteBranchOpts,
  GitInitOpts,
  GitPullOpts,
  GitPushOpts,
  GitRemoteAddOpts,
  GitRequestOpts,
  GitResetOpts,
  GitRestoreOpts,
} from './types.ts';

const request: Record<keyof GitRequestOpts, true> = {
  envs: true,
  user: true,
  cwd: true,
  timeoutMs: true,
  requestTimeoutMs: true,
  signal: true,
};
const credentials: Record<keyof GitCredentialOpts, true> = { ...request, username: true, password: true };

/** By method; `request`: of those that have no more. */
export const OF = {
  request: namesOf<GitRequestOpts>(request),
  clone: namesOf<GitCloneOpts>({
    ...credentials,
    path: true,
    branch: true,
    depth: true,
    dangerouslyStoreCredentials: true,
  }),
  init: namesOf<GitInitOpts>({ ...request, bare: true, initialBranch: true }),
  remoteAdd: namesOf<GitRemoteAddOpts>({ ...request, fetch: true, overwrite: true }),
  deleteBranch: namesOf<GitDeleteBranchOpts>({ ...request, force: true }),
  add: namesOf<GitAddOpts>({ ...request, files: true, all: true }),
  commit: namesOf<GitCommitOpts>({ ...request, authorName: true, authorEmail: true, allowEmpty: true }),
  reset: namesOf<GitResetOpts>({ ...request, mode: true, target: true, paths: true }),
  restore: namesOf<GitRestoreOpts>({ ...request, paths: true, staged: true, worktree: true, source: true }),
  push: namesOf<GitPushOpts>({ ...credentials, remote: true, branch: true, setUpstream: true }),
  pull: namesOf<GitPullOpts>({ ...credentials, remote: true, branch: true }),
  config: namesOf<GitConfigOpts>({ ...request, scope: true, path: true }),
  authenticate: namesOf<GitDangerouslyAuthenticateOpts>({ ...credentials, host: true, protocol: true }),
};
