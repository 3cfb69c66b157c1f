/** Files of this machine, as whoever can read them offers them. */

import type { Copy } from './recipe.ts';

/** Files that one step copies, found and hashed. */
export interface FoundFiles {
  /** 64 hexadecimal digits over names, modes and contents. */
  readonly hash: string;
  /** Packs them, hands the archive to `use`, and removes it. */
  pack<T>(gzip: boolean, use: (archive: Blob) => Promise<T>): Promise<T>;
}

/** Reads a context's files. */
export interface TemplateFiles {
  /**
   * Finds and hashes what a step copies.
   *
   * @throws InvalidArgumentError where nothing matches, or something cannot be read.
   */
  find(context: string | undefined, ignored: readonly string[], copy: Copy): Promise<FoundFiles>;
}
