// Checks the package as it is published: publint, the types by every way of importing them, and what each build may load.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const bin = (name) => fileURLToPath(new URL(`../node_modules/.bin/${name}`, import.meta.url));
const run = (name, ...args) => execFileSync(bin(name), args, { cwd: root, stdio: 'inherit' });

run('publint', 'run', '--strict', '.');
// ESM only: `require` of an ES module is Node's to allow.
run('attw', '--pack', '.', '--profile', 'esm-only');
noNodeInBrowsers();

/** Follows no bundler's rules: no file of the builds for browsers and Workers may name a module of Node at all. */
function noNodeInBrowsers() {
  for (const build of ['browser', 'workerd']) {
    const files = readdirSync(new URL(`../dist/${build}/`, import.meta.url)).filter((file) => file.endsWith('.js'));
    if (files.length === 0) throw new Error(`dist/${build} has no files: run \`npm run build\``);
    for (const file of files) {
      const text = readFileSync(new URL(`../dist/${build}/${file}`, import.meta.url), 'utf8');
      const found = text.match(
        /(?:from|import)\s*\(?\s*["'](node:[^"']+|fs|path|module|process|buffer)["']|createRequire/,
      );
      if (found) throw new Error(`dist/${build}/${file} loads ${found[1] ?? found[0]}`);
      for (const [, path] of text.matchAll(/from ["'](\.[^"']+\.wasm)["']/g)) {
        statSync(new URL(`../dist/${build}/${path}`, import.meta.url));
      }
    }
  }
}
