/** The files that a recipe copies: found, hashed, and packed. Loaded where there are files: never in browsers and Workers. */

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { createReadStream, createWriteStream, type Stats } from 'node:fs';
import { lstat, mkdtemp, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { InvalidArgumentError } from '../errors.ts';
import type { FoundFiles, TemplateFiles } from './context-types.ts';
import { globExpression, itselfAndParents, plainPath } from './glob.ts';
import type { Copy } from './recipe.ts';
import { type TarEntry, tarEnd, tarHead, tarPadding } from './tar.ts';

/** What says which files are left out. */
const IGNORE_FILE = '.dockerignore';

interface Found extends TarEntry {
  readonly path: string;
  /** With the bits of its type, as hashes have it. */
  readonly fullMode: number;
}

/** Reads files of this machine. */
export const templateFiles: TemplateFiles = { find };

async function find(context: string | undefined, ignored: readonly string[], copy: Copy): Promise<FoundFiles> {
  const root = resolve(context ?? '.');
  try {
    const ignore = await readIgnore(root, ignored);
    const from = plainPath(copy.src);
    const wanted = globExpression(from);
    const found: Found[] = [];
    for await (const file of walk(root, fixedPart(from), copy.resolveSymlinks, ignore, new Set())) {
      const inside = from === '' || [...itselfAndParents(file.name)].some((path) => wanted.test(path));
      if (inside && file.name !== '' && !ignore.excludes(file.name)) found.push(file);
    }
    if (found.length === 0) {
      throw new InvalidArgumentError(
        `copy: nothing in ${root} matches ${JSON.stringify(copy.src)}, or all of it is ignored`,
      );
    }
    found.sort((one, other) => (one.name < other.name ? -1 : 1));
    const states: string[] = [];
    const hashing = new Hashing(copy);
    for (const file of found) {
      hashing.begin(file);
      for await (const piece of content(file)) hashing.update(piece);
      states.push(hashing.state());
    }
    const seen = { copy, found, states };
    return { hash: hashing.state(), pack: (gzip, use) => pack(seen, gzip, use) };
  } catch (error) {
    throw unreadable(error);
  }
}

function unreadable(error: unknown): InvalidArgumentError {
  if (error instanceof InvalidArgumentError) return error;
  const words = error instanceof Error ? error.message : String(error);
  return new InvalidArgumentError(`copy: ${words}`, { cause: error });
}

/** The directories that a pattern names as they are, so that a context's others are not walked through for one file. */
function fixedPart(from: string): string {
  const parts = from.split('/');
  const pattern = parts.findIndex((part) => /[*?[{\\]/.test(part));
  return (pattern < 0 ? parts : parts.slice(0, pattern)).join('/');
}

async function* walk(
  root: string,
  name: string,
  follow: boolean,
  ignore: Ignore,
  above: ReadonlySet<string>,
): AsyncGenerator<Found> {
  const path = join(root, name);
  let stats: Stats;
  try {
    stats = follow ? await stat(path) : await lstat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' && above.size === 0) return;
    throw error;
  }
  const windows = process.platform === 'win32';
  const fullMode = windows ? (stats.mode & ~0o7777) | (stats.isDirectory() ? 0o755 : 0o644) : stats.mode;
  const mode = fullMode & 0o7777;
  if (stats.isSymbolicLink()) {
    yield { name, path, type: 'link', mode, fullMode, size: 0, target: await readlink(path) };
  } else if (stats.isFile()) {
    yield { name, path, type: 'file', mode, fullMode, size: stats.size };
  } else if (stats.isDirectory()) {
    const id = `${stats.dev}:${stats.ino}`;
    if (above.has(id)) throw new InvalidArgumentError(`copy: links below ${path} lead in a circle`);
    yield { name, path, type: 'directory', mode, fullMode, size: 0 };
    for (const entry of (await readdir(path)).sort()) {
      const below = name === '' ? entry : `${name}/${entry}`;
      if (!ignore.prunes(below)) yield* walk(root, below, follow, ignore, new Set([...above, id]));
    }
  } else {
    throw new InvalidArgumentError(`copy: ${path} is neither a file nor a directory nor a link`);
  }
}

/** Over the step, then each file's name, mode, size (but of directories), and content or target (protocol fact). */
class Hashing {
  private readonly hash = createHash('sha256');

  constructor(copy: Copy) {
    this.hash.update(`COPY ${copy.src} ${copy.dest}`);
  }

  /** Takes what there is of a file beside its content. */
  begin(file: Found): void {
    this.hash.update(file.name);
    this.hash.update(String(file.fullMode));
    if (file.type === 'link') {
      const target = file.target ?? '';
      this.hash.update(String(Buffer.byteLength(target)));
      this.hash.update(target);
    } else if (file.type === 'file') {
      this.hash.update(String(file.size));
    }
  }

  update(piece: Buffer): void {
    this.hash.update(piece);
  }

  /** The hash of all so far. */
  state(): string {
    return this.hash.copy().digest('hex');
  }
}

/** What was found and hashed. */
interface Seen {
  readonly copy: Copy;
  readonly found: readonly Found[];
  /** The hash up to each file and with it, so that one that has changed can be named. */
  readonly states: readonly string[];
}

/** Not more than was seen, and an error if it is less. */
async function* content(file: Found): AsyncGenerator<Buffer> {
  if (file.type !== 'file' || file.size === 0) return;
  let left = file.size;
  for await (const piece of createReadStream(file.path, { end: file.size - 1 })) {
    left -= (piece as Buffer).length;
    yield piece as Buffer;
  }
  if (left > 0) throw new InvalidArgumentError(`copy: ${file.path} became shorter while it was read`);
}

/** Hashed once more as it is packed: under a hash nothing may be stored but what was hashed. */
async function* archive({ copy, found, states }: Seen): AsyncGenerator<Uint8Array> {
  const hashing = new Hashing(copy);
  for (const [at, file] of found.entries()) {
    yield tarHead(file);
    hashing.begin(file);
    try {
      for await (const piece of content(file)) {
        hashing.update(piece);
        yield piece;
      }
    } catch (error) {
      throw unreadable(error);
    }
    if (hashing.state() !== states[at]) {
      throw new InvalidArgumentError(
        `copy: ${file.path} changed while it was packed; build again when it stays as it is`,
      );
    }
    if (file.type === 'file') yield tarPadding(file.size);
  }
  yield tarEnd();
}

async function pack<T>(seen: Seen, gzip: boolean, use: (archive: Blob) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'oncebox-template-'));
  try {
    const path = join(folder, 'files.tar');
    const stages = gzip ? [createGzip()] : [];
    await pipeline([Readable.from(archive(seen)), ...stages, createWriteStream(path)]);
    return await use(await blobOf(path));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Read from the disk each time it is sent, where the runtime can. */
async function blobOf(path: string): Promise<Blob> {
  if (typeof fs.openAsBlob === 'function') return (await fs.openAsBlob(path)) as unknown as Blob;
  return new Blob([await readFile(path)]);
}

/** What is left out, by Docker's rules: what lies below a match is left out with it, and of several the last decides. */
interface Ignore {
  excludes(name: string): boolean;
  /** Whether nothing below can be wanted. */
  prunes(name: string): boolean;
}

async function readIgnore(root: string, more: readonly string[]): Promise<Ignore> {
  let file = '';
  try {
    file = await readFile(join(root, IGNORE_FILE), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const rules = [...file.split(/\r?\n/), ...more]
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ keeps: line.startsWith('!'), pattern: globExpression(plainPath(line.replace(/^!\s*/, ''))) }));
  const excludes = (name: string) => {
    const last = rules.findLast(({ pattern }) => [...itselfAndParents(name)].some((path) => pattern.test(path)));
    return last !== undefined && !last.keeps;
  };
  const keepsAny = rules.some((rule) => rule.keeps);
  return { excludes, prunes: (name) => !keepsAny && excludes(name) };
}
