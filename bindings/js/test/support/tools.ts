import { copyFileSync, existsSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../src/testing.ts';

/** What `cargo build` makes. */
const built = (name: string) => fileURLToPath(new URL(`../../../../target/debug/${name}`, import.meta.url));

/** The `oncebox` program and the addon, as tests need them; or why they must be skipped, which is printed. */
export function tools(suite: string, ...needed: ('program' | 'addon')[]): { skip: boolean } {
  const missing: string[] = [];
  if (needed.includes('program')) {
    process.env.ONCEBOX_BIN ??= built('oncebox');
    if (!findProgram()) missing.push('no oncebox program (cargo build, or ONCEBOX_BIN)');
  }
  if (needed.includes('addon')) {
    process.env.ONCEBOX_NATIVE ??= addon();
    if (!existsSync(process.env.ONCEBOX_NATIVE))
      missing.push('no addon (cargo build -p oncebox-js, or ONCEBOX_NATIVE)');
  }
  if (missing.length > 0) console.log(`SKIP ${suite}: ${missing.join(', ')}`);
  return { skip: missing.length > 0 };
}

/** Node loads as an addon what ends in `.node`. */
function addon(): string {
  const library = built('liboncebox_js.so');
  if (!existsSync(library)) return library;
  const copy = join(mkdtempSync(join(tmpdir(), 'oncebox-addon-')), `oncebox-${statSync(library).mtimeMs}.node`);
  copyFileSync(library, copy);
  return copy;
}
