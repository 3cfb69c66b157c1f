/** Whose calls are whose: what a client begins is what its `close` waits for, whatever options a call has of its own. */

import type { Background } from '../create/background.ts';

/** No name, so that it goes with options wherever they are spread, and is none of them. */
const OWNER = Symbol('owner');

/** Options of a client, and what its creates do in the background. */
export function owned<T extends object>(options: T, background: Background): T {
  return { ...options, [OWNER]: background };
}

/** What was said of options, and of those that they were spread into. */
export function ownerOf(options: object): Background | undefined {
  return (options as { readonly [OWNER]?: Background })[OWNER];
}
