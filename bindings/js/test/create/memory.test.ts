import { expect, test } from 'vitest';
import { learn } from '../../src/create/memory.ts';
import type { ServerMemory } from '../../src/policy/create-types.ts';

test('a create that began earlier does not unlearn what others learnt since', () => {
  const nothing: ServerMemory = { keys: undefined, version: undefined };
  const keys: ServerMemory = { ...nothing, keys: 'ignored' };
  const version: ServerMemory = { ...nothing, version: 'v1' };
  const both: ServerMemory = { keys: 'ignored', version: 'v1' };
  expect(learn(keys, nothing, nothing)).toEqual(keys);
  expect(learn(keys, nothing, version)).toEqual(both);
  expect(learn(version, nothing, keys)).toEqual(both);
  expect(learn(nothing, nothing, both)).toEqual(both);
  const honoured: ServerMemory = { ...nothing, keys: 'honoured' };
  expect(learn(honoured, honoured, keys)).toEqual(keys);
});
