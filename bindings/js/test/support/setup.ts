import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { built } from './tools.ts';

/** Below node_modules, so that nothing else looks at it. */
const FOLDER = fileURLToPath(new URL('../../node_modules/.addon', import.meta.url));

/**
 * Before all tests: the addon under a name that Node takes for one, once for all files. Returns what takes it away again; what a
 * run that was killed has left goes with the next one.
 */
export default function setup(): (() => void) | undefined {
  forgetEnded();
  const library = built('liboncebox_js.so');
  if (process.env.ONCEBOX_NATIVE !== undefined || !existsSync(library)) return undefined;
  // A copy of each run's own: a build may go on meanwhile, and what is loaded must not change.
  const folder = join(FOLDER, String(process.pid));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  mkdirSync(folder, { recursive: true });
  process.env.ONCEBOX_NATIVE = join(folder, 'oncebox.node');
  copyFileSync(library, process.env.ONCEBOX_NATIVE);
  return remove;
}

function forgetEnded(): void {
  for (const name of existsSync(FOLDER) ? readdirSync(FOLDER) : []) {
    if (!runs(Number(name))) rmSync(join(FOLDER, name), { recursive: true, force: true });
  }
}

function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
