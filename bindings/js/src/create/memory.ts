/** What creates learn of their server, for each other. */

import type { ServerMemory } from '../policy/create-types.ts';

/**
 * What is known of a server once a create has learnt something more. What it has not learnt now others may have, since it
 * began.
 */
export function learn(known: ServerMemory, before: ServerMemory, learnt: ServerMemory): ServerMemory {
  return {
    keys: learnt.keys === before.keys ? known.keys : learnt.keys,
    version: learnt.version === before.version ? known.version : learnt.version,
  };
}
