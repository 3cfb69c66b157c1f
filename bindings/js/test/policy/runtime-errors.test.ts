/** Runs conformance/runtime-errors on the classifier. The schema is in conformance/README.md. */

import { expect, test } from 'vitest';
import { classify, classifyThrown } from '../../src/retry/runtime-errors.ts';
import { type Json, load, only, tally } from './vectors.ts';

const cases = load<Json>('runtime-errors', 'cases');
const ran = tally('runtime-errors');

test.each(cases)('%s', (_, vector) => {
  only(vector, 'name', 'seen', 'aborted', 'thrown', 'outcome', 'phase');
  const { outcome, phase } = { phase: undefined, ...classifyThrown(error(vector.thrown), vector.aborted ?? false) };
  expect({ outcome, phase }).toEqual({ outcome: vector.outcome, phase: vector.phase });
  ran();
});

test('a chain of causes that ends in itself is followed to its bound', () => {
  const first: Json = new Error('connect ECONNREFUSED 127.0.0.1:1', { cause: undefined });
  first.code = 'ECONNREFUSED';
  const second = new Error('wrapped', { cause: first });
  first.cause = second;
  expect(classify(second)).toEqual({ outcome: 'sent_unknown', row: undefined });
  first.cause = first;
  expect(classify(first).outcome).toBe('sent_unknown');
});

test('an aggregate that holds itself is followed to its bound', () => {
  const members: unknown[] = [];
  members.push(new AggregateError(members));
  expect(classify(members[0] as object).outcome).toBe('sent_unknown');
  const aggregate = new AggregateError([]);
  aggregate.errors = [aggregate, aggregate];
  expect(classify(aggregate).outcome).toBe('sent_unknown');
});

test('a property that throws proves nothing', () => {
  const trap = {
    get message() {
      throw new Error('mine');
    },
    get cause() {
      throw new Error('mine');
    },
  };
  expect(classify(trap).outcome).toBe('sent_unknown');
});

/** An Error with these properties, `cause` and the members of `errors` likewise; anything else as it is. */
function error(shape: Json): unknown {
  if (typeof shape !== 'object' || shape === null) return shape;
  const made: Json = Array.isArray(shape.errors) ? new AggregateError(shape.errors.map(error)) : new Error('');
  for (const [name, value] of Object.entries(shape)) {
    const given = name === 'cause' ? error(value) : name === 'errors' ? (value as Json[]).map(error) : value;
    Object.defineProperty(made, name, { value: given, configurable: true, writable: true });
  }
  // What the shape does not say is not there, not even the name of the class.
  if (shape.name === undefined) Object.defineProperty(made, 'name', { value: undefined });
  return made;
}
