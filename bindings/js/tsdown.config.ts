import { fileURLToPath } from 'node:url';
import { defineConfig, type UserConfig } from 'tsdown';

/** The runtimes that are built for; each has a `src/platform` module of its own. */
type Target = 'node' | 'browser' | 'workerd';

const platform = (name: Target): string => fileURLToPath(new URL(`./src/platform/${name}.ts`, import.meta.url));

/** One build per kind of runtime: what a runtime cannot load is not in its files, so that no bundler has to be told. */
const target = (name: Target, entry: string[]): UserConfig => ({
  entry,
  outDir: `dist/${name}`,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  // The types are the same everywhere; those of Node are published.
  dts: name === 'node',
  // Not `.mjs`: the package is of type module.
  outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
  // Not by `alias`, which `paths` of tsconfig.json would overrule.
  plugins: [{ name: 'platform', resolveId: (id) => (id === '#platform' ? platform(name) : null) }],
  copy: name === 'workerd' ? [{ from: 'src/policy/policy.wasm', to: 'dist/workerd/policy' }] : [],
  deps: { neverBundle: [/^node:/, /\.wasm$/] },
});

export default defineConfig([
  target('node', ['src/index.ts', 'src/code-interpreter.ts', 'src/retry.ts', 'src/testing.ts', 'src/bin.ts']),
  target('browser', ['src/index.ts', 'src/code-interpreter.ts', 'src/retry.ts']),
  target('workerd', ['src/index.ts', 'src/code-interpreter.ts', 'src/retry.ts']),
]);
