/** Files of this machine, in Node, Bun and Deno. Loaded when the first is asked for. */

import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvalidArgumentError } from '../errors.ts';
import type { LocalEntry, LocalFile, LocalFiles, LocalSink } from './local-types.ts';

/** The files of this machine. */
export const localFiles: LocalFiles = {
  open: (path) => here(path, openFile),
  create: (path) => here(path, createSink),
  walk,
  makeDir: (path) => here(path, async () => void (await mkdir(path, { recursive: true }))),
  below: (root, relative) => join(pathOf(root), ...relative.split('/').filter((name) => name !== '')),
  isName: (name) => !['', '.', '..'].includes(name) && !/[/\0]/.test(name) && !(sep === '\\' && /[\\:]/.test(name)),
};

async function openFile(path: string): Promise<LocalFile> {
  const file = await open(path, 'r');
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new Error('it is no regular file');
    return {
      size: stats.size,
      read: (offset, length) => here(path, () => readExactly(file, offset, length)),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function readExactly(file: FileHandle, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, offset + at);
    if (bytesRead === 0) throw new Error(`it has become shorter while it was read, than ${offset + length} bytes`);
    at += bytesRead;
  }
  return bytes;
}

async function createSink(path: string): Promise<LocalSink> {
  const temporary = join(dirname(path), `.oncebox-download-${randomBytes(8).toString('hex')}`);
  const file = await open(temporary, 'wx');
  let at = 0;
  let isOpen = true;
  const close = async () => {
    if (isOpen) await file.close();
    isOpen = false;
  };
  return {
    write: (piece) =>
      here(path, async () => {
        for (let done = 0; done < piece.length; ) {
          const { bytesWritten } = await file.write(piece, done, piece.length - done, at);
          done += bytesWritten;
          at += bytesWritten;
        }
      }),
    restart: () =>
      here(path, async () => {
        await file.truncate(0);
        at = 0;
      }),
    commit: () =>
      here(path, async () => {
        await close();
        await rename(temporary, path);
      }),
    drop: async () => {
      await close().catch(() => {});
      await rm(temporary, { force: true });
    },
  };
}

async function* walk(root: string | URL, into: (path: string) => boolean): AsyncGenerator<LocalEntry, void> {
  const top = pathOf(root);
  const isDir = await here(top, async () => (await stat(top)).isDirectory());
  if (!isDir) throw new InvalidArgumentError(`${top}: it is no directory`);
  yield* walkBelow(top, '', into);
}

async function* walkBelow(
  folder: string,
  above: string,
  into: (path: string) => boolean,
): AsyncGenerator<LocalEntry, void> {
  const entries = await here(folder, () => readdir(folder, { withFileTypes: true }));
  entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const entry of entries) {
    const place = join(folder, entry.name);
    if (entry.name.includes('\ufffd')) throw new InvalidArgumentError(`${place}: its name is not UTF-8`);
    const path = above + entry.name;
    if (!into(path)) continue;
    if (entry.isDirectory()) {
      yield { path, kind: 'dir', size: 0 };
      yield* walkBelow(place, `${path}/`, into);
    } else if (entry.isFile()) {
      yield { path, kind: 'file', size: await here(place, async () => (await stat(place)).size) };
    } else {
      yield { path, kind: 'other', size: 0 };
    }
  }
}

function pathOf(path: string | URL): string {
  return typeof path === 'string' ? path : fileURLToPath(path);
}

/** Does something with a file of this machine; what fails names it. */
async function here<T>(path: string | URL, action: (path: string) => Promise<T>): Promise<T> {
  const place = pathOf(path);
  try {
    return await action(place);
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    throw new InvalidArgumentError(`${place}: ${words}`, { cause: error });
  }
}
