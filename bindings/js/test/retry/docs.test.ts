/** The example of docs/javascript.md, run as it stands there. */

import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { afterEach, expect, test, vi } from 'vitest';
import * as retry from '../../src/retry.ts';
import { answer, type Happens, refusedConnection, scripted } from './support.ts';

const page = readFileSync(new URL('../../../../docs/javascript.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
const example = blocks.find((code) => code.includes('withRetry(globalThis.fetch')) ?? '';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Runs it under a script; gives what it wrote to the console, and the requests. */
async function run(...script: Happens[]) {
  const fetch = scripted(...script);
  vi.stubGlobal('fetch', fetch);
  vi.useFakeTimers();
  const lines: string[] = [];
  for (const method of ['log', 'error', 'debug'] as const) {
    vi.spyOn(console, method).mockImplementation((...all) => void lines.push(`${method} ${all.join(' ')}`));
  }
  const [, names = ''] = example.match(/^import \{ (.*) \} from 'oncebox\/retry';$/m) ?? [];
  const values = names.split(', ').map((name) => (retry as Record<string, unknown>)[name]);
  expect(values).not.toContain(undefined);
  const body = example.replaceAll(/^import .*$/gm, '');
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  const { outputText } = ts.transpileModule(`async function example() {${body}}`, { compilerOptions: options });
  const running: Promise<unknown> = new Function(...names.split(', '), `${outputText}; return example();`)(...values);
  const error = running.then(
    () => undefined,
    (thrown) => thrown,
  );
  // The module has to be loaded before there is a timer to pass.
  await vi.waitFor(() => expect(fetch.seen.length).toBeGreaterThan(0));
  await vi.runAllTimersAsync();
  return { lines, error: await error, seen: fetch.seen };
}

test('it prints the status and how many attempts there were', async () => {
  const { lines, seen, error } = await run(answer(503), answer(201));
  expect(error).toBeUndefined();
  expect(lines.at(-1)).toBe('log 201 2');
  const keys = seen.map(({ headers }) => headers.get('idempotency-key'));
  expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  expect(keys[1]).toBe(keys[0]);
});

test('it prints the history of what failed', async () => {
  const { lines, error } = await run(refusedConnection);
  expect(error).toBeInstanceOf(TypeError);
  expect(lines.at(-1)).toMatch(
    /^error {3}1\. at 0\.000 s: not sent \(connect\): ECONNREFUSED; sent again: nothing was sent, after 0\.\d{3} s \(dial backoff\)\n {2}2\. /,
  );
});
