/** Runs conformance/operations on the generated table. The schema is in conformance/README.md. */

import { expect, test } from 'vitest';
import { e2bOperations, type OperationTable, permitOf, permitOfMethod } from '../../src/retry/operations.ts';
import { type Json, load, only, tally } from './vectors.ts';

const cases = load<Json>('operations', 'cases');
const ran = tally('operations');
const tables = new Map<string, OperationTable>();

test.each(cases)('%s', (_, vector) => {
  only(vector, 'name', 'plane', 'method', 'path', 'operation', 'permit', 'mints', 'idempotency_key');
  const table = tables.get(vector.plane) ?? e2bOperations(vector.plane);
  tables.set(vector.plane, table);
  const found = table.find(vector.method, vector.path);
  expect({
    operation: found?.id ?? null,
    permit: (found ? permitOf(found) : permitOfMethod(vector.method)) ?? null,
    mints: found?.mints ?? false,
    idempotencyKey: found?.acceptsIdempotencyKey ?? false,
  }).toEqual({
    operation: vector.operation,
    permit: vector.permit,
    mints: vector.mints ?? false,
    idempotencyKey: vector.idempotency_key ?? false,
  });
  ran();
});
