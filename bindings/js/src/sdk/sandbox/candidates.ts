/** What a call may have made whose answer was lost: found by one look, and never taken for certain. */

import { callApiWithHeaders } from '../api/control-plane.ts';
import { ConnectionConfig, type ConnectionOpts } from '../config.ts';
import { query } from '../endpoints.ts';
import { OutcomeUnknownError } from '../errors.ts';
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
      const since = now - (performance.now() - began) - SECOND;
      const isNew = ({ startedAt }: WireInfo) => Date.parse(startedAt ?? '') >= since;
      return (body ?? []).filter((each) => each.sandboxID !== of && isNew(each)).map((each) => each.sandboxID);
    });
    throw error;
  }
}

/** Makes a call; where nobody knows what it did, its error gets the snapshots of the name that was given. */
export async function withNamedSnapshots<T>(
  opts: ConnectionOpts,
  sandboxID: string,
  name: string | undefined,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    // Snapshots have no time: one without a name cannot be told from those that were there before.
    if (name !== undefined) {
      await look(opts, error, async (config) => {
        const path = `/snapshots${query({ sandboxID, name })}`;
        const request = { action: 'look for what was made', method: 'GET', path } as const;
        const { body } = await callApiWithHeaders<WireSnapshot[] | undefined>(config, request);
        return (body ?? []).map((each) => each.snapshotID);
      });
    }
    throw error;
  }
}

async function look(
  opts: ConnectionOpts,
  error: unknown,
  find: (config: ConnectionConfig) => Promise<(string | undefined)[]>,
): Promise<void> {
  if (!(error instanceof OutcomeUnknownError)) return;
  try {
    const once = { ...opts, ...ONCE, requestTimeoutMs: LOOK_TIMEOUT };
    const found = await find(new ConnectionConfig(once));
    error.candidates = found.filter((id) => id !== undefined);
  } catch (why) {
    error.message += `; it could not be looked for: ${why instanceof Error ? why.message : String(why)}`;
  }
}
