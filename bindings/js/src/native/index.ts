import { type NativeFetch, type NativeOptions, nativeFetch } from './fetch.ts';
import { load } from './load.ts';

/** The native transport of a runtime that may have one. */
export interface NativeTransport {
  /** Why it cannot be used; `undefined`: it can. */
  missing(): string | undefined;
  /**
   * Makes a `fetch` over it.
   *
   * @throws when it is {@link missing}, or an option is out of its range.
   */
  open(options: NativeOptions): NativeFetch;
}

/** What Node, Bun and Deno have. */
export const native: NativeTransport = {
  missing: () => {
    const loaded = load();
    return 'reason' in loaded ? loaded.reason : undefined;
  },
  open: (options) => {
    const loaded = load();
    if ('reason' in loaded) throw new Error(`the native transport cannot be used: ${loaded.reason}`);
    return nativeFetch(loaded.addon, loaded.hub, options);
  },
};
