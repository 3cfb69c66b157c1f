/** Volumes as they are told, and options of their requests. */

import type { ConnectionOpts } from '../config.ts';

/** A volume. */
export interface VolumeInfo {
  /** Its id. */
  volumeId: string;
  /** Its name. */
  name: string;
}

/** A volume, with what is needed to read and write it. */
export interface VolumeAndToken extends VolumeInfo {
  /** What its content is reached by. */
  token: string;
  /** Where its content is, where that is not at `api.<domain>`. */
  domain?: string | undefined;
}

/** Options of requests about a volume's content. */
export interface VolumeApiOpts extends Omit<ConnectionOpts, 'apiUrl' | 'volumeApiUrl'> {
  /** Default: the volume's. */
  token?: string | undefined;
  /** Default: the volume's, else `E2B_DOMAIN`, else `e2b.app`. */
  domain?: string | undefined;
  /** Default: `volumeApiUrl`, else `E2B_VOLUME_API_URL`, else `https://api.<domain>`. */
  apiUrl?: string | undefined;
  /** In **milliseconds**; 0: no limit. Default: 60,000; of files: 3,600,000. */
  requestTimeoutMs?: number | undefined;
  /** More headers. */
  headers?: Record<string, string> | undefined;
}

/** What `updateMetadata` sets. */
export interface VolumeMetadataOpts {
  /** The owner's number. */
  uid?: number | undefined;
  /** The group's number. */
  gid?: number | undefined;
  /** Permission bits, such as 0o644. */
  mode?: number | undefined;
}

/** The official name of the same. */
export type VolumeMetadataOptions = VolumeMetadataOpts;

/** Options of writing. */
export type VolumeWriteOpts = VolumeMetadataOpts & {
  /** Makes the directories above it. */
  force?: boolean | undefined;
};

/** The official name of the same. */
export type VolumeWriteOptions = VolumeWriteOpts;

/** Options of reading. */
export type VolumeReadOpts = VolumeApiOpts & {
  /** How long nothing may come, in **milliseconds**; 0: no limit. Default: `readIdleTimeoutMs`, 60,000. */
  streamIdleTimeoutMs?: number | undefined;
};
