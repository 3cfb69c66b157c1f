/** Directories, up and down. */

import { InvalidArgumentError, SandboxError } from '../errors.ts';
import { globExpression } from '../template/glob.ts';
import { type EntryInfo, FileType, type WriteInfo } from './entry.ts';
import type { LocalFiles } from './local-types.ts';
import { type FilesystemTransferOpts, localFiles, type Uploads } from './upload.ts';
import type { FilesystemWriteOpts, WriteEntry } from './write.ts';

/** Files up to this size go together, in bytes. */
const SMALL = 1 << 20;

/** Bytes of small files that are held at a time. */
const HELD = 8 << 20;

/** Small files that are held at a time. */
const MAX_HELD = 1000;

/** Downloads at a time. */
const AT_ONCE = 8;

/** How far the transfer of a directory is. */
export interface TransferProgress {
  /** Files that are there. */
  readonly files: number;
  /** Bytes that are there, those of files under way included. */
  readonly bytes: number;
  /** Files in all. */
  readonly totalFiles: number;
  /** Bytes in all. */
  readonly totalBytes: number;
}

/** What came of the transfer of a directory. */
export interface Transferred {
  /** Files that were carried over. */
  files: number;
  /** Their bytes. */
  bytes: number;
  /** What was left out because it is neither file nor directory: symbolic links, devices, pipes. Relative paths. */
  skipped: string[];
}

/** Options of the transfer of a directory. Patterns are of paths relative to it: `*` within a name, `**` across names. */
export interface DirectoryTransferOpts extends Omit<FilesystemTransferOpts, 'onProgress'> {
  /** Carries only files over whose path matches one of these. Default: all. */
  include?: readonly string[] | undefined;
  /** Leaves out what matches one of these, and all that is below it. */
  exclude?: readonly string[] | undefined;
  /** Is told how far it is. */
  onProgress?: ((progress: TransferProgress) => void) | undefined;
}

type Limits = Pick<FilesystemTransferOpts, 'user' | 'requestTimeoutMs' | 'signal'>;

/** What is done to a sandbox's files. */
export interface Tree {
  readonly uploads: Uploads;
  writeFiles(files: WriteEntry[], opts: FilesystemWriteOpts): Promise<WriteInfo[]>;
  makeDir(path: string, opts: Limits): Promise<boolean>;
  list(path: string, opts: Limits): Promise<EntryInfo[]>;
  download(path: string, to: string, opts: FilesystemTransferOpts): Promise<number>;
}

/** Carries a directory of this machine into a sandbox. */
export async function uploadDir(
  tree: Tree,
  from: string | URL,
  to: string,
  opts: DirectoryTransferOpts,
): Promise<Transferred> {
  const selection = new Selection(opts);
  const local = await localFiles('uploadDir: use writeFiles');
  const limits = limitsOf(opts);
  const [files, empty, skipped]: [[string, number][], Set<string>, string[]] = [[], new Set(), []];
  for await (const { path, kind, size } of local.walk(from, (each) => !selection.leavesOut(each))) {
    empty.delete(path.slice(0, Math.max(path.lastIndexOf('/'), 0)));
    if (kind === 'dir') empty.add(path);
    else if (kind === 'other') skipped.push(path);
    else if (selection.takesFile(path)) files.push([path, size]);
  }
  const count = new Counter(files, opts.onProgress);
  if (selection.takesEmpty) for (const folder of empty) await tree.makeDir(below(to, folder), limits);
  let held: string[] = [];
  let bytes = 0;
  const send = async () => {
    const small = held;
    [held, bytes] = [[], 0];
    await sendSmall(tree, local, from, to, small, limits, count);
  };
  for (const [path, size] of files) {
    if (size <= SMALL) {
      held.push(path);
      bytes += size;
      if (bytes >= HELD || held.length === MAX_HELD) await send();
      continue;
    }
    let before = 0;
    const onProgress = (done: number) => {
      count.add(0, done - before);
      before = done;
    };
    await tree.uploads.upload(local.below(from, path), below(to, path), { ...limits, onProgress });
    count.add(1, 0);
  }
  if (held.length > 0) await send();
  return { files: count.files, bytes: count.bytes, skipped };
}

async function sendSmall(
  tree: Tree,
  local: LocalFiles,
  from: string | URL,
  to: string,
  paths: readonly string[],
  limits: Limits,
  count: Counter,
): Promise<void> {
  const entries: WriteEntry[] = [];
  let bytes = 0;
  for (const path of paths) {
    const file = await local.open(local.below(from, path));
    try {
      entries.push({ path: below(to, path), data: await file.read(0, file.size) });
      bytes += file.size;
    } finally {
      await file.close();
    }
  }
  await tree.uploads.insistently(() => tree.writeFiles(entries, limits), limits.signal);
  count.add(entries.length, bytes);
}

/** Carries a directory of a sandbox to this machine. */
export async function downloadDir(
  tree: Tree,
  from: string,
  to: string | URL,
  opts: DirectoryTransferOpts,
): Promise<Transferred> {
  const selection = new Selection(opts);
  const local = await localFiles('downloadDir: read the files');
  const limits = limitsOf(opts);
  const [found, skipped]: [[from: string, path: string, size: number][], string[]] = [[], []];
  // Directories first: what is to be fetched is then known.
  const folders: [place: string, path: string][] = [[from, '']];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    const [place, folder] = next;
    if (folder === '' || selection.takesEmpty) await local.makeDir(local.below(to, folder));
    for (const { name, path: inside, type, size } of await tree.list(place, limits)) {
      if (!local.isName(name)) {
        const message = `the sandbox names an entry ${JSON.stringify(name)}, which would lie outside its directory`;
        throw new SandboxError(`could not read the directory ${place}: ${message}`);
      }
      const path = below(folder, name);
      if (selection.leavesOut(path)) continue;
      // A link may lead anywhere, also back here.
      if (type === FileType.DIR) folders.push([inside, path]);
      else if (type !== FileType.FILE) skipped.push(path);
      else if (selection.takesFile(path)) found.push([inside, path, size]);
    }
  }
  const count = new Counter(
    found.map(([, path, size]) => [path, size]),
    opts.onProgress,
  );
  const worker = async () => {
    for (let next = found.shift(); next !== undefined; next = found.shift()) {
      const [place, path] = next;
      const folder = path.slice(0, Math.max(path.lastIndexOf('/'), 0));
      await local.makeDir(local.below(to, folder));
      let before = 0;
      const onProgress = (done: number) => {
        count.add(0, done - before);
        before = done;
      };
      await tree.download(place, local.below(to, path), { ...limits, onProgress });
      count.add(1, 0);
    }
  };
  const workers = Array.from({ length: AT_ONCE }, worker);
  try {
    await Promise.all(workers);
  } finally {
    // One that failed ends the others after what they are at.
    found.length = 0;
    await Promise.allSettled(workers);
  }
  return { files: count.files, bytes: count.bytes, skipped };
}

function limitsOf({ user, requestTimeoutMs, signal }: DirectoryTransferOpts): Limits {
  return { user, requestTimeoutMs, signal };
}

/** A path of the sandbox below another. */
export function below(folder: string, relative: string): string {
  if (relative === '') return folder;
  return folder === '' ? relative : `${folder.replace(/\/+$/, '')}/${relative}`;
}

/** Which paths are carried over, relative to the directory. */
export class Selection {
  private readonly include: readonly RegExp[] | undefined;
  private readonly exclude: readonly RegExp[];

  constructor({ include, exclude }: Pick<DirectoryTransferOpts, 'include' | 'exclude'>) {
    this.include = include === undefined || include.length === 0 ? undefined : patterns('include', include);
    this.exclude = patterns('exclude', exclude ?? []);
  }

  /** Whether a file is carried over. */
  takesFile(path: string): boolean {
    return this.include?.some((each) => each.test(path)) !== false && !this.leavesOut(path);
  }

  /** Whether a path, and with it all that is below, is left out. */
  leavesOut(path: string): boolean {
    return this.exclude.some((each) => each.test(path));
  }

  /** Whether directories without files are carried over. */
  get takesEmpty(): boolean {
    return this.include === undefined;
  }
}

function patterns(option: string, globs: readonly string[]): RegExp[] {
  if (!Array.isArray(globs) || globs.some((each) => typeof each !== 'string')) {
    throw new InvalidArgumentError(`${option}: it is no list of patterns`);
  }
  return globs.map((glob) => globExpression(glob));
}

/** The count, and who is told of it. */
class Counter {
  files = 0;
  bytes = 0;
  private readonly totalFiles: number;
  private readonly totalBytes: number;

  constructor(
    all: readonly (readonly [path: string, size: number])[],
    private readonly told: DirectoryTransferOpts['onProgress'],
  ) {
    this.totalFiles = all.length;
    this.totalBytes = all.reduce((sum, [, size]) => sum + size, 0);
    this.add(0, 0);
  }

  add(files: number, bytes: number): void {
    this.files += files;
    this.bytes += bytes;
    const { totalFiles, totalBytes } = this;
    this.told?.({ files: this.files, bytes: this.bytes, totalFiles, totalBytes });
  }
}
