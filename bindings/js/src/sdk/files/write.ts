/** Writing files: sent once, and their size asked for afterwards. */

import { parsed } from '../api/control-plane.ts';
import { query } from '../endpoints.ts';
import type { CallLimits, Envd } from '../envd/envd.ts';
import { FileNotFoundError, InvalidArgumentError, SandboxError, TemplateError } from '../errors.ts';
import type { CallBody } from '../transport/sender.ts';
import { text, texts } from '../validate.ts';
import { type FileData, gzipped, type Prepared, prepare } from './data.ts';
import { type EntryInfo, FileType, type WriteInfo } from './entry.ts';

/** The daemon takes a file as it is from this version on. */
const OCTET_STREAM_SINCE = '0.5.7';

/** And keeps what a file is marked with from this one on. */
const METADATA_SINCE = '0.6.2';

/** The most that goes into one form: files, and bytes. */
const MAX_FILES = 1000;
const MAX_BYTES = 16 << 20;

/** Options of writing. */
export interface FilesystemWriteOpts extends CallLimits {
  /** As whom: whose the file is, and what relative paths are relative to. Default: the template's user. */
  user?: string | undefined;
  /** Compresses what is sent. Default: false. */
  gzip?: boolean | undefined;
  /** Sends a file as it is (true), or in a form (false). Default: as it is, where the sandbox's daemon can take that. */
  useOctetStream?: boolean | undefined;
  /** What to mark the files with: printable ASCII. Replaces what they were marked with. */
  metadata?: Record<string, string> | undefined;
  /** Asks for the sizes afterwards: an answer says that bytes were taken, not that they were kept. Default: true. */
  verify?: boolean | undefined;
}

/** One of many files. */
export interface WriteEntry {
  /** Absolute, or relative to the user's home. */
  path: string;
  /** What it is to hold. */
  data: FileData;
}

/** How entries are looked up. */
export interface Lookup {
  getInfo(path: string, opts: CallLimits & { user?: string | undefined }): Promise<EntryInfo>;
  list(path: string, opts: CallLimits & { user?: string | undefined }): Promise<EntryInfo[]>;
}

interface Ready {
  readonly place: number;
  readonly path: string;
  readonly data: Prepared;
}

/** Writes files, in as few requests as fit. */
export async function writeAll(
  envd: Envd,
  lookup: Lookup,
  entries: readonly WriteEntry[],
  opts: FilesystemWriteOpts,
): Promise<WriteInfo[]> {
  const headers = metadataHeaders(envd, opts.metadata ?? {});
  const asItIs = opts.useOctetStream ?? (envd.atLeast(OCTET_STREAM_SINCE) || undefined);
  if (opts.useOctetStream && !envd.atLeast(OCTET_STREAM_SINCE))
    throw tooOld('to take a file as it is (useOctetStream)');
  if (opts.gzip && !asItIs)
    throw new InvalidArgumentError('gzip: a file in a form is not compressed; leave useOctetStream or gzip out');
  const seen = new Set<string>();
  const ready = entries.map(({ path, data }, place): Ready => {
    if (seen.has(text('path', path))) throw new InvalidArgumentError(`path: ${JSON.stringify(path)} is named twice`);
    seen.add(path);
    const prepared = prepare(data, `data of ${JSON.stringify(path)}`);
    if (prepared.body instanceof ReadableStream && !asItIs) throw tooOld('to take a stream');
    return { place, path, data: prepared };
  });
  const together = ready.length > 1 && !opts.gzip && opts.useOctetStream !== true;
  const isBatched = (file: Ready) => together && isPlain(file.path) && !(file.data.body instanceof ReadableStream);
  const written: WriteInfo[] = [];
  for (const batch of batches(ready.filter(isBatched))) {
    const told = await post(envd, undefined, headers, form(batch), opts);
    if (told.length !== batch.length) {
      throw new SandboxError(
        `could not write the files: ${batch.length} were sent, and the answer names ${told.length}`,
      );
    }
    for (const [at, file] of batch.entries()) written[file.place] = told[at] as WriteInfo;
    if (opts.verify !== false) await verifyAll(lookup, batch, told, opts);
  }
  for (const file of ready.filter((each) => !isBatched(each))) {
    written[file.place] = await writeOne(envd, lookup, file, headers, asItIs ?? false, opts);
  }
  return written;
}

async function writeOne(
  envd: Envd,
  lookup: Lookup,
  file: Ready,
  metadata: Record<string, string>,
  asItIs: boolean,
  opts: FilesystemWriteOpts,
): Promise<WriteInfo> {
  const headers = { ...metadata };
  let body: CallBody;
  if (asItIs) {
    headers['Content-Type'] = 'application/octet-stream';
    body = file.data.body;
    if (opts.gzip) {
      headers['Content-Encoding'] = 'gzip';
      body = await gzipped(file.data.body);
    }
  } else {
    body = form([file]);
  }
  const [told] = await post(envd, file.path, headers, body, opts);
  if (told === undefined) throw new SandboxError('could not write the file: the answer names no written file');
  if (opts.verify !== false) compare(await lookup.getInfo(told.path || file.path, opts), file.data.size());
  return told;
}

async function post(
  envd: Envd,
  path: string | undefined,
  headers: Record<string, string>,
  body: CallBody,
  opts: FilesystemWriteOpts,
): Promise<WriteInfo[]> {
  const action = path === undefined ? 'write the files' : `write the file ${path}`;
  const { requestTimeoutMs, signal, user } = opts;
  const answer = await envd.rest({
    action,
    method: 'POST',
    path: `/files${query({ path, username: user })}`,
    headers,
    body,
    // A streamed upload has no time limit but the one that was given.
    requestTimeoutMs: requestTimeoutMs ?? (body instanceof ReadableStream ? 0 : undefined),
    signal,
    classes: { notFound: FileNotFoundError },
  });
  const told = await parsed<unknown>(action, answer, envd.secrets);
  return (Array.isArray(told) ? told : []) as WriteInfo[];
}

/** The form's boundary, and how names are written in it, are the runtime's. */
function form(files: readonly Ready[]): FormData {
  const form = new FormData();
  for (const { path, data } of files) form.append('file', new Blob([data.body as BlobPart]), path);
  return form;
}

/** Whether all servers read the name alike when it stands in a form. */
export function isPlain(name: string): boolean {
  return !/[\p{Cc}"\\%]/u.test(name);
}

function* batches(files: readonly Ready[]): Generator<Ready[]> {
  let batch: Ready[] = [];
  let bytes = 0;
  for (const file of files) {
    const size = file.data.size();
    if (batch.length > 0 && (batch.length === MAX_FILES || bytes + size > MAX_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(file);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

/** Compares sizes, by one list for each directory. */
async function verifyAll(
  lookup: Lookup,
  sent: readonly Ready[],
  told: readonly WriteInfo[],
  opts: FilesystemWriteOpts,
): Promise<void> {
  const { requestTimeoutMs, signal, user } = opts;
  const limits = { requestTimeoutMs, signal, user };
  const folders = new Map<string, [path: string, size: number][]>();
  for (const [at, { path }] of told.entries()) {
    const folder = path.slice(0, path.lastIndexOf('/')) || '/';
    folders.set(folder, [...(folders.get(folder) ?? []), [path, sent[at]?.data.size() ?? 0]]);
  }
  for (const [folder, files] of folders) {
    const single = files.length === 1;
    const listed = single ? [] : await lookup.list(folder, limits);
    const entries = new Map(listed.map((entry) => [entry.path, entry]));
    for (const [path, size] of files) {
      const entry = entries.get(path);
      const known = entry !== undefined && entry.type !== FileType.SYMLINK;
      compare(known ? entry : await lookup.getInfo(path, limits), size);
    }
  }
}

/** What is no file, such as a device, has no size to compare. */
export function compare(entry: EntryInfo, size: number): void {
  if (entry.type !== FileType.FILE || entry.symlinkTarget !== undefined || entry.size === size) return;
  throw new SandboxError(
    `could not write the file ${entry.path}: ${size} bytes were sent and accepted, and ${entry.size} are there (verify)`,
  );
}

function metadataHeaders(envd: Envd, metadata: Record<string, string>): Record<string, string> {
  const entries = Object.entries(texts('metadata', metadata));
  if (entries.length > 0 && !envd.atLeast(METADATA_SINCE)) throw tooOld('to mark files (metadata)');
  let total = 0;
  for (const [key, value] of entries) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key) || key.length > 246) {
      throw new InvalidArgumentError(
        `metadata: ${JSON.stringify(key)} is no name of at most 246 characters of a header`,
      );
    }
    if (!/^[\x20-\x7e]*$/.test(value)) {
      throw new InvalidArgumentError(`metadata: the value of ${JSON.stringify(key)} is not printable ASCII`);
    }
    total += key.length + value.length + 'user.e2b.'.length;
  }
  if (total > 4096) throw new InvalidArgumentError(`metadata: it has ${total} bytes, of which 4096 can be kept`);
  return Object.fromEntries(entries.map(([key, value]) => [`X-Metadata-${key}`, value]));
}

function tooOld(what: string): TemplateError {
  return new TemplateError(`the sandbox's daemon is too old ${what}; build its template anew`);
}
