/** The TypeScript of the documentation has the package's types: every block of every page, as it stands there. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const PAGES = [
  'README.md',
  '../../README.md',
  '../../docs/GUIDE.md',
  '../../docs/javascript.md',
  '../../docs/javascript-sdk.md',
];

const blocks = PAGES.flatMap((page) => {
  const text = readFileSync(`${PACKAGE}${page}`, 'utf8');
  const found = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
  expect(found, page).not.toEqual([]);
  // In a folder of the package, whose `node_modules` have what the blocks import besides.
  return found.map((code, at) => ({ page, code, file: `${PACKAGE}test/${page.replaceAll(/\W/g, '-')}-${at + 1}.ts` }));
});

const { config } = ts.readConfigFile(`${PACKAGE}tsconfig.json`, (file) => readFileSync(file, 'utf8'));
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, PACKAGE);
const paths = {
  oncebox: ['./src/index.ts'],
  'oncebox/retry': ['./src/retry.ts'],
  'oncebox/testing': ['./src/testing.ts'],
  'oncebox/code-interpreter': ['./src/code-interpreter.ts'],
};

/** What the compiler says of files that are in no folder. */
function complaints(files: ReadonlyMap<string, string>): string[] {
  // An example may end with what its reader goes on with.
  const settings = { ...options, noUnusedLocals: false, baseUrl: PACKAGE, paths: { ...options.paths, ...paths } };
  const host = ts.createCompilerHost(settings);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (file) => files.has(file) || fileExists(file);
  host.readFile = (file) => files.get(file) ?? readFile(file);
  host.getSourceFile = (file, language, ...rest) => {
    const code = files.get(file);
    return code === undefined ? getSourceFile(file, language, ...rest) : ts.createSourceFile(file, code, language);
  };
  const program = ts.createProgram([...files.keys()], settings, host);
  return [...files.keys()].flatMap((file) => {
    const source = program.getSourceFile(file);
    const all = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return all.map(({ messageText }) => `${file}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`);
  });
}

test('every block compiles', () => {
  expect(blocks.length).toBeGreaterThan(9);
  expect(complaints(new Map(blocks.map(({ file, code }) => [file, code])))).toEqual([]);
}, 60_000);

test('a block that does not would be told', () => {
  const file = `${PACKAGE}test/wrong.ts`;
  const code = "import { Sandbox } from 'oncebox';\nawait Sandbox.create({ requestTimeout: 1 });\n";
  expect(complaints(new Map([[file, code]])).join()).toContain('requestTimeout');
}, 60_000);
