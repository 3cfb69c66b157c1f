/** The tests of the official SDK on the local server (`crates/local/tests/javascript`), with this package in its place. */

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { describe, expect, test } from 'vitest';
import { available, useServer } from './server.ts';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What stands for what. */
const INSTEAD: Record<string, string> = {
  e2b: at('../../src/index.ts'),
  '@e2b/code-interpreter': at('../../src/code-interpreter.ts'),
  '#platform': at('../../src/platform/node.ts'),
  // Notes which methods were driven; here they only run.
  './record.mjs': '\0record',
};
const RECORD = `
  import { mkdtempSync, rmSync } from 'node:fs';
  import { tmpdir } from 'node:os';
  import { join } from 'node:path';
  import { test } from 'node:test';
  export const watch = () => {};
  export const drive = (name, run) => test(name, run);
  export const scratch = () => {
    const folder = mkdtempSync(join(tmpdir(), 'oncebox-compat-'));
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    return folder;
  };
`;

/** Runs one of its files; gives what was printed. */
async function run(file: string, env: Record<string, string>): Promise<{ code: number | null; printed: string }> {
  const folder = await mkdtemp(at('../../node_modules/.run-'));
  try {
    const bundle = await rolldown({
      input: at(`../../../../crates/local/tests/javascript/${file}`),
      platform: 'node',
      plugins: [
        {
          name: 'instead',
          resolveId: (id) => INSTEAD[id] ?? null,
          load: (id) => (id === '\0record' ? RECORD : null),
        },
      ],
    });
    await bundle.write({ dir: folder, entryFileNames: 'main.mjs' });
    await bundle.close();
    const child = spawn(process.execPath, ['--test-reporter=tap', join(folder, 'main.mjs')], {
      env: { ...process.env, ...env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        printed += data;
      });
    }
    const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
    return { code, printed };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe.skipIf(!available)("the official SDK's tests", () => {
  const local = useServer();

  test('pass with this package in its place', { timeout: 120_000 }, async () => {
    const { url } = local.server;
    const env = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_VOLUME_API_URL: url, E2B_API_KEY: 'any' };
    const { code, printed } = await run('sdk.mjs', env);
    expect(printed).toMatch(/^# fail 0$/m);
    expect(code).toBe(0);
    expect(Number(/^# pass (\d+)$/m.exec(printed)?.[1])).toBeGreaterThan(15);
  });
});
