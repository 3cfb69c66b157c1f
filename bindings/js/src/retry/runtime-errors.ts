import { ROWS } from '../generated/runtime-errors.ts';

/** One shape of an error that `fetch` throws in some runtime. Every part that is given must hold. */
export interface Row {
  readonly id: string;
  readonly match: {
    readonly name?: string;
    readonly message?: string;
    readonly message_contains?: string;
    readonly code?: string;
    readonly syscall?: string;
  };
  readonly outcome: 'not_sent' | 'refused' | 'sent_unknown';
  /** With `not_sent`: where it ended. */
  readonly phase?: 'dns' | 'connect' | 'tls';
}

/** What an error proves, and the row that says so: none where nothing known matched. */
export interface Proof {
  readonly outcome: Row['outcome'];
  readonly phase?: Row['phase'];
  readonly row: string | undefined;
}

/** What was thrown proves: an abort, nothing since it is no error, or what its shape says. */
export type Thrown = Proof | { readonly outcome: 'cancelled' | 'rethrown' };

/** How many errors a chain of causes may have before it is no longer followed. A chain that ends in itself is longer. */
const CHAIN_LIMIT = 8;

/** The more of them an error shows, the less it proves: one sign of a write outweighs any of none. */
const STRENGTH = { not_sent: 1, refused: 2, sent_unknown: 3 };

const NOTHING_KNOWN: Proof = { outcome: 'sent_unknown', row: undefined };

/**
 * What was thrown proves.
 * @param aborted whether the call's signal is aborted: then it is an abort, whatever was thrown
 */
export function classifyThrown(thrown: unknown, aborted: boolean): Thrown {
  if (aborted) return { outcome: 'cancelled' };
  return isObject(thrown) ? classify(thrown) : { outcome: 'rethrown' };
}

/** What an error proves, by its shape and that of its causes. */
export function classify(error: object): Proof {
  return walk(error, CHAIN_LIMIT);
}

/**
 * @param depth how many aggregates may be inside one another, so that one which holds itself ends as well
 */
function walk(error: object, depth: number): Proof {
  let best: Proof | undefined;
  let link: unknown = error;
  for (let count = 0; count < CHAIN_LIMIT; count += 1) {
    if (!isObject(link)) return best ?? NOTHING_KNOWN;
    const members = property(link, 'errors');
    if (Array.isArray(members)) return stronger(best, aggregate(members, depth - 1));
    for (const row of ROWS) {
      if (matches(row, link)) best = stronger(best, { outcome: row.outcome, phase: row.phase, row: row.id });
    }
    link = property(link, 'cause');
  }
  return isObject(link) ? NOTHING_KNOWN : (best ?? NOTHING_KNOWN);
}

/** Not sent if every member is, in the phase of the last. */
function aggregate(members: readonly unknown[], depth: number): Proof {
  if (members.length === 0 || depth === 0) return NOTHING_KNOWN;
  let last = NOTHING_KNOWN;
  for (const member of members) {
    last = isObject(member) ? walk(member, depth) : NOTHING_KNOWN;
    if (last.outcome !== 'not_sent') return { outcome: 'sent_unknown', row: last.row };
  }
  return last;
}

/** Of equally strong ones the first counts. */
function stronger(one: Proof | undefined, other: Proof): Proof {
  return one !== undefined && STRENGTH[one.outcome] >= STRENGTH[other.outcome] ? one : other;
}

function matches({ match }: Row, error: object): boolean {
  const message = property(error, 'message');
  return (
    (match.name === undefined || property(error, 'name') === match.name) &&
    (match.message === undefined || message === match.message) &&
    (match.code === undefined || property(error, 'code') === match.code) &&
    (match.syscall === undefined || property(error, 'syscall') === match.syscall) &&
    (match.message_contains === undefined || (typeof message === 'string' && message.includes(match.message_contains)))
  );
}

/** A property of something that somebody else made: a getter may throw. */
function property(error: object, name: string): unknown {
  try {
    return (error as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
