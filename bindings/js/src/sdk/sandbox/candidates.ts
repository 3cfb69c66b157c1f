/** What a call may have made whose answer was lost: found by one look, and never taken for certain. */

import { MAX_PAGES } from '../../create/wire.ts';
import { callApiWithHeaders } from '../api/control-plane.ts';
import { ConnectionConfig, type ConnectionOpts } from '../config.ts';
import { query } from '../endpoints.ts';
import { OutcomeUnknownError, SandboxError } from '../errors.ts';
import { ONCE } from '../transport/sender.ts';
import type { WireInfo, WireSnapshot } from './wire.ts';

/** How long the look may take, in milliseconds. */
const LOOK_TIMEOUT = 5_000;

/** Times of servers have whole seconds, in milliseconds. */
const SECOND = 1_000;

/** Makes a call; where nobody knows what it did, its error gets the sandboxes that started since. */
export async function withNewSandboxes<T>(opts: ConnectionOpts, of: string, call: () => Promise<T>): Promise<T> {
  const began = performance.now();
  try {
    return await call();
  } catch (error) {
    await look(opts, error, async (config) => {
      const path = `/v2/sandboxes${query({ order: 'desc' })}`;
      const request = { action: 'look for what was made', method: 'GET', path } as const;
      const { body, headers } = await callApiWithHeaders<WireInfo[] | undefined>(config, request);
      const now = Date.parse(headers.get('date') ?? '');
      if (Number.isNaN(now)) throw new SandboxError('the server tells no time (Date), so that none is known to be new');
      const since = now - (performance.now() - began) - SECOND;
      const isNew = ({ startedAt }: WireInfo) => Date.parse(startedAt ?? '') >= since;
      return (body ?? []).filter((each) => each.sandboxID !== of && isNew(each)).map((each) => each.sandboxID);
    });
    throw error;
  }
}

/**
 * Makes a call; where nobody knows what it did, its error gets the snapshots of the name that was given, or those of the
 * sandbox that were not there before.
 */
export async function withNewSnapshots<T>(
  opts: ConnectionOpts,
  of: string,
  name: string | undefined,
  call: () => Promise<T>,
): Promise<T> {
  // Snapshots have no time: one without a name is told from the others by what was there before.
  const before = name === undefined ? await snapshotsOf(opts, of).catch((error: unknown) => error) : new Set();
  opts.signal?.throwIfAborted();
  try {
    return await call();
  } catch (error) {
    await look(opts, error, async (config) => {
      if (!(before instanceof Set)) throw before;
      const now = await snapshotsOf(config, of, name);
      return [...now].filter((id) => !before.has(id));
    });
    throw error;
  }
}

/** Ids of a sandbox's snapshots, of all pages. */
async function snapshotsOf(
  opts: ConnectionOpts | ConnectionConfig,
  sandboxID: string,
  name?: string,
): Promise<Set<string>> {
  const config = opts instanceof ConnectionConfig ? opts : new ConnectionConfig(looking(opts));
  const found = new Set<string>();
  let nextToken: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const path = `/snapshots${query({ sandboxID, name, limit: 100, nextToken })}`;
    const request = { action: 'look for what was made', method: 'GET', path } as const;
    const { body, headers } = await callApiWithHeaders<WireSnapshot[] | undefined>(config, request);
    for (const { snapshotID } of body ?? []) if (snapshotID !== undefined) found.add(snapshotID);
    nextToken = headers.get('x-next-token') || undefined;
    if (nextToken === undefined) return found;
  }
  throw new SandboxError(`could not look for what was made: the list did not end after ${MAX_PAGES} pages`);
}

/** A look is one attempt, and short. */
function looking(opts: ConnectionOpts): ConnectionOpts {
  return { ...opts, ...ONCE, requestTimeoutMs: LOOK_TIMEOUT };
}

async function look(
  opts: ConnectionOpts,
  error: unknown,
  find: (config: ConnectionConfig) => Promise<(string | undefined)[]>,
): Promise<void> {
  if (!(error instanceof OutcomeUnknownError)) return;
  try {
    const found = await find(new ConnectionConfig(looking(opts)));
    error.candidates = found.filter((id) => id !== undefined);
  } catch (why) {
    error.message += `; it could not be looked for: ${why instanceof Error ? why.message : String(why)}`;
  }
}
