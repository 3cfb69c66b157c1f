/** Files of volumes as they are told. */

/** What an entry is. */
export enum VolumeFileType {
  /** None of the others. */
  UNKNOWN = 'unknown',
  /** A file. */
  FILE = 'file',
  /** A directory. */
  DIRECTORY = 'directory',
  /** A symbolic link. */
  SYMLINK = 'symlink',
}

/** A file, a directory or a link of a volume. */
export interface VolumeEntryStat {
  /** The last part of its path. */
  name: string;
  /** What it is. */
  type: VolumeFileType;
  /** From the volume's root on. */
  path: string;
  /** In bytes. */
  size: number;
  /** Permission bits. */
  mode: number;
  /** The owner's number. */
  uid: number;
  /** The group's number. */
  gid: number;
  /** When it was read last. */
  atime: Date;
  /** When its content changed last. */
  mtime: Date;
  /** When anything of it changed last. */
  ctime: Date;
  /** Where a link leads to. */
  target?: string | undefined;
}

/** The same in JSON. */
export type WireStat = Omit<Partial<VolumeEntryStat>, 'atime' | 'mtime' | 'ctime' | 'type'> & {
  type?: string;
  atime?: string;
  mtime?: string;
  ctime?: string;
};

/** Reads an entry. */
export function statOf(wire: WireStat): VolumeEntryStat {
  const { name = '', path = '', mode = 0, uid = 0, gid = 0, target } = wire;
  const known = Object.values(VolumeFileType).find((each) => each === wire.type);
  const stat: VolumeEntryStat = {
    name,
    type: known ?? VolumeFileType.UNKNOWN,
    path,
    size: Number(wire.size ?? 0),
    mode,
    uid,
    gid,
    atime: new Date(wire.atime ?? 0),
    mtime: new Date(wire.mtime ?? 0),
    ctime: new Date(wire.ctime ?? 0),
  };
  if (target !== undefined) stat.target = target;
  return stat;
}
