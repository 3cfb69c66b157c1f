import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../src/testing.ts';

/** What `cargo build` makes. */
export const built = (name: string) => fileURLToPath(new URL(`../../../../target/debug/${name}`, import.meta.url));

/** The `oncebox` program and the addon, as tests need them; or why they must be skipped, which is printed. */
export function tools(suite: string, ...needed: ('program' | 'addon')[]): { skip: boolean } {
  const missing: string[] = [];
  if (needed.includes('program')) {
    process.env.ONCEBOX_BIN ??= built('oncebox');
    if (!findProgram()) missing.push('no oncebox program (cargo build, or ONCEBOX_BIN)');
  }
  if (needed.includes('addon')) {
    // `setup.ts` has named it where it was built.
    if (!existsSync(process.env.ONCEBOX_NATIVE ?? ''))
      missing.push('no addon (cargo build -p oncebox-js, or ONCEBOX_NATIVE)');
  }
  if (missing.length > 0) console.log(`SKIP ${suite}: ${missing.join(', ')}`);
  return { skip: missing.length > 0 };
}
