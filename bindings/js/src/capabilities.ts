import { platform } from '#platform';
import type { Runtime } from './platform/types.ts';

/** What this package can do here. */
export interface Capabilities {
  /** The runtime that was recognised. */
  readonly runtime: Runtime;
}

/** Says what this package can do in the runtime it was loaded in. */
export function capabilities(): Capabilities {
  return { runtime: platform.runtime() };
}
