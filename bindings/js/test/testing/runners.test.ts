import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { capabilities } from '../../src/index.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('testing kit under jest, node:test and vitest', 'program');
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const isBuilt = existsSync(at('../../dist/node/testing.js'));
if (!isBuilt)
  console.log('SKIP testing kit under jest, node:test and vitest: the package is not built (npm run build)');

const program = (name: string) => at(`../../node_modules/${name}`);

/** How a project runs its tests, and what is said when both have passed. */
const RUNNERS: [string, string, string[], RegExp][] = [
  ['jest', 'jest.mjs', ['--experimental-vm-modules', program('jest/bin/jest.js'), '--ci'], /Tests: +2 passed, 2 total/],
  ['node:test', 'node.mjs', ['--test', '--test-reporter=tap', 'node.mjs'], /^# pass 2$/m],
  ['vitest', 'vitest.mjs', [program('vitest/vitest.mjs'), 'run'], /Tests +2 passed \(2\)/],
];

describe.skipIf(skip || !isBuilt)('a project that tests with the testing kit', () => {
  let folder = '';

  /** The project, with the package as it is built for publication. */
  beforeAll(() => {
    folder = mkdtempSync(at('../../node_modules/.run-'));
    cpSync(at('project'), folder, { recursive: true });
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(at('../..'), join(folder, 'node_modules/oncebox'), 'dir');
    const jest = {
      testMatch: ['**/jest.mjs'],
      testPathIgnorePatterns: [],
      haste: { retainAllFiles: true },
      transform: {},
    };
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', jest }));
    writeFileSync(join(folder, 'vitest.config.mjs'), "export default { test: { include: ['vitest.mjs'] } };");
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(RUNNERS)(
    'under %s',
    async (_, file, args, passed) => {
      // None of this test's own: what runs inside another runner's process tells it, and not us.
      const env = Object.entries(process.env).filter(
        ([name]) => !/^(VITEST|JEST|NODE_TEST|NODE_OPTIONS|TEST$)/.test(name),
      );
      const options = {
        cwd: folder,
        timeout: 100_000,
        env: { ...Object.fromEntries(env), CI: '1', NO_COLOR: '1', WANTED_TRANSPORT: capabilities().transport },
      };
      const [code, said] = await new Promise<[unknown, string]>((resolve) => {
        execFile(process.execPath, args, options, (error, stdout, stderr) =>
          resolve([error?.code ?? error?.signal ?? 0, stdout + stderr]),
        );
      });
      expect(said, file).toMatch(passed);
      // It ends by itself: nothing of the package's keeps it alive.
      expect(said).not.toMatch(/did not exit|open handle|force exit/i);
      expect(code, said).toBe(0);
    },
    120_000,
  );
});
