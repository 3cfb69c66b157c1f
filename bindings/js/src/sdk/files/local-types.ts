/** Files of this machine, as a runtime that has them offers them. What fails is an `InvalidArgumentError` that names the path. */

/** A file that is read. */
export interface LocalFile {
  /** In bytes, when it was opened. */
  readonly size: number;
  /** Exactly so many bytes from there on. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  close(): Promise<void>;
}

/** A file that is written: it appears when all of it is there, in place of what was there. */
export interface LocalSink {
  write(piece: Uint8Array): Promise<void>;
  /** From the beginning again. */
  restart(): Promise<void>;
  commit(): Promise<void>;
  /** Leaves nothing behind, unless it was committed. */
  drop(): Promise<void>;
}

/** What is below a directory. */
export interface LocalEntry {
  /** Relative, with slashes. */
  readonly path: string;
  readonly kind: 'file' | 'dir' | 'other';
  /** Of files, in bytes. */
  readonly size: number;
}

/** The files of this machine. */
export interface LocalFiles {
  open(path: string | URL): Promise<LocalFile>;
  create(path: string | URL): Promise<LocalSink>;
  /** Everything below a directory, in the order of names, without what `into` refuses and all below it. Links are not followed. */
  walk(root: string | URL, into: (path: string) => boolean): AsyncGenerator<LocalEntry, void>;
  /** Makes a directory and those above it; one that is there is left. */
  makeDir(path: string): Promise<void>;
  /** A path below a directory, from a relative one with slashes. */
  below(root: string | URL, relative: string): string;
  /** Whether a name is that of something in its directory, and leads nowhere else. */
  isName(name: string): boolean;
}
