/** The module as it is committed: one for those that import it, and the same in base64 for the others. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { platform } from '../../src/platform/node.ts';
import { POLICY_BASE64 } from '../../src/policy/bytes.generated.ts';
import { type Engine, loadEngine } from '../../src/policy/engine.ts';

const file = readFileSync(new URL('../../src/policy/policy.wasm', import.meta.url));

test('what is inlined is the module', () => {
  expect(POLICY_BASE64).toBe(file.toString('base64'));
});

test('it needs nothing from outside', async () => {
  expect(WebAssembly.Module.imports(await platform.loadPolicy())).toEqual([]);
});

test('what is given back is used again', async () => {
  const { instance } = await WebAssembly.instantiate(file);
  const { memory, message, call_new, call_free, budget_new, budget_free } = instance.exports as unknown as Exports;
  const once = (): void => {
    const budget = budget_new(500);
    message(100_000);
    call_free(call_new());
    budget_free(budget);
  };
  once();
  const before = memory.buffer.byteLength;
  for (let count = 0; count < 10_000; count += 1) once();
  expect(memory.buffer.byteLength).toBe(before);
});

test('a text of any length and script crosses whole', async () => {
  const engine: Engine = await loadEngine();
  const attempt = (detail: string) => ({
    started: 0,
    outcome: { kind: 'sent_unknown' as const, cause: 'opaque' as const, detail },
  });
  const facts = { permit: undefined, mints: false, reconciles: false, body: 'none' as const, deadline: undefined };
  for (const [given, kept] of [
    ['', ''],
    ['größer als 日本', 'größer als 日本'],
    // Evidence is of fixed size, and is cut between two characters.
    ['ä'.repeat(100_000), 'ä'.repeat(27)],
  ] as const) {
    const call = engine.call(engine.preset('default'), facts);
    call.judge(attempt(given), 'none', { now: 0, random: 0, callStarted: 0 });
    expect(call.ledger().records[0]?.outcome).toMatchObject({ detail: kept });
    call.free();
  }
});

interface Exports {
  readonly memory: WebAssembly.Memory;
  message(length: number): number;
  call_new(): number;
  call_free(call: number): void;
  budget_new(tokens: number): number;
  budget_free(budget: number): void;
}
