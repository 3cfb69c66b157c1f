import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { addonPackages } from './native/load.ts';

/** What the program's file is called here. `scripts/pack.mjs` packs it so. */
export const PROGRAM = process.platform === 'win32' ? 'oncebox.exe' : 'oncebox';

/** The `oncebox` program that was installed with this package, in the package of its platform; `undefined`: there is none. */
export function packagedProgram(): string | undefined {
  const require = createRequire(import.meta.url);
  const places = addonPackages(process.platform, process.arch).map((name) => {
    try {
      return join(dirname(require.resolve(`${name}/package.json`)), PROGRAM);
    } catch {
      return undefined;
    }
  });
  return places.find((place) => place !== undefined && isProgram(place));
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
