/** What git says for programs (`--porcelain=v2 -z`), read. */

import type { GitBranches, GitFileStatus, GitStatus, GitStatusLabel } from './types.ts';

const LABELS: Record<string, GitStatusLabel> = {
  R: 'renamed',
  C: 'copied',
  D: 'deleted',
  A: 'added',
  M: 'modified',
  T: 'typechange',
  '?': 'untracked',
};

/** Letters in the order in which they name a file's state. */
const ORDER = ['R', 'C', 'D', 'A', 'M', 'T', '?'];

/** Reads a status; `undefined` where it is none. */
export function parseStatus(text: string): GitStatus | undefined {
  const head = { ahead: 0, behind: 0, detached: false } as Pick<
    GitStatus,
    'ahead' | 'behind' | 'detached' | 'currentBranch' | 'upstream'
  >;
  const files: GitFileStatus[] = [];
  const records = text.split('\0');
  for (let at = 0; at < records.length; at++) {
    const record = records[at] ?? '';
    const rest = record.slice(2);
    let file: GitFileStatus | undefined;
    switch (record.slice(0, 2)) {
      case '':
        continue;
      case '# ':
        if (!header(head, rest)) return undefined;
        continue;
      case '1 ':
        // XY sub mH mI mW hH hI path
        file = fileOf(rest, 7);
        break;
      case '2 ':
        // XY sub mH mI mW hH hI score path, and the old path in a record of its own.
        file = fileOf(rest, 8);
        if (file) file.renamedFrom = records[++at] ?? '';
        break;
      case 'u ':
        // XY sub m1 m2 m3 mW h1 h2 h3 path
        file = fileOf(rest, 9);
        if (file) Object.assign(file, { status: 'conflict', staged: false });
        break;
      case '? ':
        file = named('??', rest);
        break;
      default:
        continue;
    }
    if (file === undefined) return undefined;
    files.push(file);
  }
  const count = (is: (file: GitFileStatus) => boolean) => files.filter(is).length;
  const untrackedCount = count((file) => file.status === 'untracked');
  const conflictCount = count((file) => file.status === 'conflict');
  const stagedCount = count((file) => file.staged);
  return {
    ...head,
    fileStatus: files,
    isClean: files.length === 0,
    hasChanges: files.length > 0,
    hasStaged: stagedCount > 0,
    hasUntracked: untrackedCount > 0,
    hasConflicts: conflictCount > 0,
    totalCount: files.length,
    stagedCount,
    unstagedCount: count((file) => file.workingTreeStatus !== ' ' && file.status !== 'untracked'),
    untrackedCount,
    conflictCount,
  };
}

/** Reads branches, one a line, with `*` before the one that is checked out. */
export function parseBranches(text: string): GitBranches {
  const lines = text.split('\n').filter((line) => line !== '');
  const current = lines.find((line) => line.startsWith('*'))?.slice(1);
  const branches = lines.map((line) => line.slice(1));
  return current === undefined ? { branches } : { branches, currentBranch: current };
}

function header(head: Partial<GitStatus>, text: string): boolean {
  const space = text.indexOf(' ');
  const [name, value] = [text.slice(0, space), text.slice(space + 1)];
  if (name === 'branch.head') {
    if (value === '(detached)') head.detached = true;
    else head.currentBranch = value;
  } else if (name === 'branch.upstream') {
    head.upstream = value;
  } else if (name === 'branch.ab') {
    const counts = /^\+(\d+) -(\d+)$/.exec(value);
    if (counts === null) return false;
    head.ahead = Number(counts[1]);
    head.behind = Number(counts[2]);
  }
  return true;
}

function fileOf(text: string, fieldsBefore: number): GitFileStatus | undefined {
  let from = 0;
  for (let field = 0; field < fieldsBefore; field++) {
    from = text.indexOf(' ', from) + 1;
    if (from === 0) return undefined;
  }
  return named(text.slice(0, 2), text.slice(from));
}

function named(letters: string, name: string): GitFileStatus {
  const [index = '.', tree = '.'] = letters;
  const letter = ORDER.find((each) => index === each || tree === each);
  return {
    name,
    status: LABELS[letter ?? ''] ?? 'unknown',
    indexStatus: index === '.' ? ' ' : index,
    workingTreeStatus: tree === '.' ? ' ' : tree,
    staged: index !== '.' && index !== '?',
  };
}
