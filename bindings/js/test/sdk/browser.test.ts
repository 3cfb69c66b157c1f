import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const SOURCE = fileURLToPath(new URL('../../src/', import.meta.url));

/** Every module that is reached from one, by static and dynamic imports. */
function reached(entry: string, platform: string): Map<string, string[]> {
  const modules = new Map<string, string[]>();
  const visit = (file: string) => {
    if (modules.has(file) || !file.endsWith('.ts')) return;
    const text = readFileSync(file, 'utf8').replaceAll(/^(import|export) type [^;]*;/gm, '');
    const names = [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name = '']) => name);
    modules.set(file, names);
    for (const name of names) {
      if (name === '#platform') visit(resolve(SOURCE, `platform/${platform}.ts`));
      else if (name.startsWith('.')) visit(resolve(dirname(file), name));
    }
  };
  visit(resolve(SOURCE, entry));
  return modules;
}

test.each(['browser', 'workerd'])('nothing of Node is reached from what a %s loads', (platform) => {
  const modules = reached('index.ts', platform);
  expect(modules.size).toBeGreaterThan(50);
  for (const [file, names] of modules)
    expect(
      names.filter((name) => name.startsWith('node:')),
      file,
    ).toEqual([]);
});

test('files of this machine are reached in Node', () => {
  const names = [...reached('index.ts', 'node').keys()].map((file) => file.slice(file.lastIndexOf('/') + 1));
  expect(names).toContain('context.node.ts');
  expect(names).toContain('local.node.ts');
});
