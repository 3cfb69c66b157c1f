import { platform } from '#platform';
import type { Runtime } from './platform/types.ts';
import { type Transport, whyNotNative } from './transport.ts';

/** What this package can do here. */
export interface Capabilities {
  /** The runtime that was recognised. */
  readonly runtime: Runtime;
  /** What carries requests unless an option says otherwise. */
  readonly transport: Transport;
  /** Why that is not the native transport. */
  readonly whyNotNative: string | undefined;
  /** What a failed request proves: see {@link Evidence}. */
  readonly evidence: Evidence;
  /** Whether a streamed request body that was provably not processed is sent again, as far as it is mirrored. */
  readonly replaysStreams: boolean;
  /** Whether many HTTP/2 connections to one origin are used as one, and replaced before they are retired. */
  readonly poolsConnections: boolean;
  /** Whether proxies, certificates and timeouts of each phase are options. */
  readonly configuresConnections: boolean;
  /** Whether files of this machine go up and down by their paths: `files.upload`, `download`, `uploadDir`, `downloadDir`. */
  readonly localFiles: boolean;
}

/**
 * What a failed request proves.
 *
 * - `exact`: the transport counts what it wrote, and reads GOAWAY and REFUSED_STREAM itself.
 * - `by_error`: what the runtime's error proves (`spec/runtime-errors.json`): a failed connect or a refused stream, but a
 *   GOAWAY looks like a lost connection, and is repeated only where that is permitted.
 * - `none`: all failures look alike. Nothing is repeated without a permit.
 */
export type Evidence = 'exact' | 'by_error' | 'none';

/** Says what this package can do in the runtime it was loaded in. */
export function capabilities(): Capabilities {
  const runtime = platform.runtime();
  const missing = whyNotNative();
  const native = missing === undefined;
  const tells = runtime === 'node' || runtime === 'bun' || runtime === 'deno';
  return {
    runtime,
    transport: native ? 'native' : 'fetch',
    whyNotNative: missing,
    evidence: native ? 'exact' : tells ? 'by_error' : 'none',
    replaysStreams: native,
    poolsConnections: native,
    configuresConnections: native,
    localFiles: platform.localFiles !== undefined,
  };
}
