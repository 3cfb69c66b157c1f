/** Files and directories as they are told. */

/** What an entry is. */
export enum FileType {
  /** A file, also one that is none of the others. */
  FILE = 'file',
  /** A directory. */
  DIR = 'dir',
  /** A symbolic link. */
  SYMLINK = 'symlink',
}

/** What was written. */
export interface WriteInfo {
  /** The last part of its path. */
  name: string;
  /** What it is, where that is told. */
  type?: FileType | undefined;
  /** Its absolute path. */
  path: string;
  /** What it was marked with. */
  metadata?: Record<string, string> | undefined;
}

/** A file, a directory or a link. */
export interface EntryInfo extends WriteInfo {
  /** In bytes. */
  size: number;
  /** Permission bits. */
  mode: number;
  /** Permissions as `ls -l` shows them. */
  permissions: string;
  /** The owner's name. */
  owner: string;
  /** The group's name. */
  group: string;
  /** When its content changed last. */
  modifiedTime?: Date | undefined;
  /** Where a link leads to. */
  symlinkTarget?: string | undefined;
}

/** An entry in the daemon's JSON, where what is 0 or empty is left out. */
export interface WireEntry {
  name?: string;
  type?: string;
  path?: string;
  size?: string | number;
  mode?: number;
  permissions?: string;
  owner?: string;
  group?: string;
  modifiedTime?: string;
  symlinkTarget?: string;
  metadata?: Record<string, string>;
  isSymlink?: boolean;
}

/** Reads an entry. */
export function entryOf(wire: WireEntry): EntryInfo {
  const type = typeOf(wire);
  return {
    name: wire.name ?? '',
    ...(type ? { type } : {}),
    path: wire.path ?? '',
    size: Number(wire.size ?? 0),
    mode: wire.mode ?? 0,
    permissions: wire.permissions ?? '',
    owner: wire.owner ?? '',
    group: wire.group ?? '',
    ...(wire.modifiedTime ? { modifiedTime: new Date(wire.modifiedTime) } : {}),
    ...(wire.symlinkTarget ? { symlinkTarget: wire.symlinkTarget } : {}),
    ...(wire.metadata && Object.keys(wire.metadata).length > 0 ? { metadata: wire.metadata } : {}),
  };
}

function typeOf(wire: WireEntry): FileType | undefined {
  if (wire.isSymlink) return FileType.SYMLINK;
  switch (wire.type) {
    case 'FILE_TYPE_FILE':
      return FileType.FILE;
    case 'FILE_TYPE_DIRECTORY':
      return FileType.DIR;
    case 'FILE_TYPE_SYMLINK':
      return FileType.SYMLINK;
    default:
      return undefined;
  }
}
