import { platform } from '#platform';
import type { NativeOptions } from './native/fetch.ts';
import { NATIVE_RULES } from './native/rules.ts';
import { validate } from './retry/options.ts';

/** What carries requests: the native transport, or a `fetch` of the runtime's or of the caller's. */
export type Transport = 'native' | 'fetch';

/** Options of what carries requests. All others are the native transport's. */
export interface TransportOptions extends NativeOptions {
  /** Default: `native` where it loads and no `fetch` is given, else `fetch`. */
  readonly transport?: Transport | undefined;
  /** Carries requests in place of both. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * What carries requests here.
 *
 * @throws when `transport: 'native'` is asked for and cannot be had, or when another carries the requests and options are given
 * that only the native transport has.
 */
export function openTransport(options: TransportOptions = {}): typeof globalThis.fetch {
  const { transport, fetch, ...rest } = options;
  validate(rest, NATIVE_RULES);
  if (fetch) {
    if (transport === 'native') throw new TypeError("transport: 'native' and a fetch were given; one of them is meant");
    refuseNativeOptions(rest, 'a fetch was given, which has options of its own');
    return fetch;
  }
  const missing = whyNotNative();
  if (transport === 'native' || (transport === undefined && missing === undefined)) {
    if (missing !== undefined || !platform.native) throw new Error(`transport: 'native' cannot be used: ${missing}`);
    return platform.native.open(rest);
  }
  if (transport !== undefined && transport !== 'fetch') {
    throw new TypeError(`transport: ${JSON.stringify(transport)} is neither 'native' nor 'fetch'`);
  }
  refuseNativeOptions(rest, missing === undefined ? "transport is 'fetch'" : `it cannot be used: ${missing}`);
  // Bound late, so that one that is put in its place later is used.
  return (input, init) => globalThis.fetch(input, init);
}

/** Why the native transport cannot be used here; `undefined`: it can. */
export function whyNotNative(): string | undefined {
  return platform.native ? platform.native.missing() : `there is no addon for this runtime (${platform.runtime()})`;
}

/** Security must not be lost in silence: who asks for a proxy or a certificate gets it, or an error. */
function refuseNativeOptions(options: NativeOptions, why: string): void {
  const lost = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (lost.length === 0) return;
  throw new TypeError(`${lost.join(', ')}: only the native transport has this; ${why}`);
}
