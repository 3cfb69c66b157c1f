/** The examples of the documentation, run as they stand there. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import * as oncebox from '../../src/index.ts';
import { Sandbox } from '../../src/index.ts';
import { available, useServer } from './server.ts';

const PAGES = {
  README: '../../README.md',
  'the front page': '../../../../README.md',
  'docs/GUIDE.md': '../../../../docs/GUIDE.md',
  'docs/javascript-sdk.md': '../../../../docs/javascript-sdk.md',
};

const examples = Object.entries(PAGES).flatMap(([page, path]) => {
  const text = readFileSync(fileURLToPath(new URL(path, import.meta.url)), 'utf8');
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
  return blocks.map((code, at) => ({ name: `${page}, ${at + 1}`, code }));
});

/** Runs an example; gives what it wrote to the console. */
async function run(code: string): Promise<string[]> {
  const imported: Record<string, unknown> = {};
  for (const [, names = '', module = ''] of code.matchAll(/^import \{ (.*) \} from '(oncebox|node:[a-z/]+)';$/gm)) {
    const all = (module === 'oncebox' ? oncebox : await import(module)) as Record<string, unknown>;
    for (const name of names.split(', ')) imported[name] = all[name];
  }
  const body = code.replaceAll(/^import .*$/gm, '');
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  // A function of its own, so that `await` may stand in it.
  const { outputText } = ts.transpileModule(`async function example() {${body}}`, { compilerOptions: options });
  const [names, values] = [Object.keys(imported), Object.values(imported)];
  expect(values).not.toContain(undefined);
  const lines: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((...all) => void lines.push(all.join(' ')));
  try {
    await new Function(...names, `${outputText}; return example();`)(...values);
  } finally {
    log.mockRestore();
  }
  return lines;
}

describe.skipIf(!available)('the examples', () => {
  const local = useServer();

  beforeAll(() => {
    for (const name of ['E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_VOLUME_API_URL']) process.env[name] = local.server.url;
    process.env.E2B_API_KEY = 'local';
  });

  test('the README prints what it says', async () => {
    const [readme] = examples;
    expect(await run(readme?.code ?? '')).toEqual(['42 (exit code 0)']);
  });

  test.each(examples.slice(1))('$name', async ({ code }) => {
    await run(code);
    expect(await Sandbox.list().nextItems()).toEqual([]);
  });
});
