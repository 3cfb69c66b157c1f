/** What a handle tells whom. */

import { expect, test } from 'vitest';
import type { CommandEvent } from '../../src/sdk/commands/events.ts';
import { CommandHandle } from '../../src/sdk/commands/handle.ts';

/** A handle of a command that has written and ended before anybody looks, as an asynchronous function returns it. */
async function ended(retainOutput: boolean): Promise<CommandHandle> {
  async function* events(): AsyncGenerator<CommandEvent, void> {
    yield { type: 'stdout', data: new TextEncoder().encode('all of it') };
    yield { type: 'exit', exitCode: 0 };
  }
  const source = { pid: 1, name: 'process 1', events: events(), kill: async () => true };
  const input = { sendStdin: async () => {}, closeStdin: async () => {} };
  return new CommandHandle({ ...source, ...input }, new AbortController(), { retainOutput, maxOutputBytes: 100 });
}

test.each([true, false])('whoever reads at once gets all (retainOutput: %j)', async (retainOutput) => {
  const handle = await ended(retainOutput);
  // However many functions it is handed on through, within one turn of the event loop.
  for (let times = 0; times < 50; times++) await undefined;
  const [pieces, types]: [string[], string[]] = [[], []];
  const output = handle.stream('stdout');
  const events = handle[Symbol.asyncIterator]();
  expect(await handle.wait()).toMatchObject({ exitCode: 0, stdout: retainOutput ? 'all of it' : '' });
  for await (const piece of output) pieces.push(new TextDecoder().decode(piece));
  for await (const { type } of events) types.push(type);
  expect([pieces, types]).toEqual([['all of it'], ['stdout', 'exit']]);
});
