// The `oncebox` command of the package as it is installed, over a program that stands for the real one.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { addonPackages } from '../../src/native/load.ts';

const built = fileURLToPath(new URL('../../dist/node/', import.meta.url));
const platform = addonPackages(process.platform, process.arch)[0];
const missing = !existsSync(join(built, 'bin.js'))
  ? 'dist is not there (npm run build)'
  : platform === undefined || process.platform === 'win32'
    ? 'there is no program for this platform'
    : undefined;
if (missing) console.log(`SKIP the oncebox command of the package: ${missing}`);

const folder = mkdtempSync(join(tmpdir(), 'oncebox-bin-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Installs the package with a program that is a shell script; without one, as where optional dependencies are left out. */
function installed(name: string, program?: string, at = { platform, file: 'oncebox' }): string {
  const modules = join(folder, name, 'node_modules');
  cpSync(built, join(modules, 'oncebox/dist/node'), { recursive: true });
  writeFileSync(join(modules, 'oncebox/package.json'), '{"name": "oncebox", "type": "module"}');
  if (program !== undefined) {
    const place = join(modules, String(at.platform));
    mkdirSync(place);
    writeFileSync(join(place, 'package.json'), '{}');
    writeFileSync(join(place, at.file), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
  }
  return join(modules, 'oncebox/dist/node/bin.js');
}

test.skipIf(missing)('arguments, input, output and the exit code are the program’s', () => {
  const bin = installed('passes', 'cat; echo "$#:$2"; echo wrong >&2; exit 7');
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, 'a', 'b c'], {
    input: 'in\n',
    encoding: 'utf8',
  });
  expect([status, stdout, stderr]).toEqual([7, 'in\n2:b c\n', 'wrong\n']);
});

test.skipIf(missing)('it ends by the signal that ended the program', () => {
  const bin = installed('killed', 'kill -KILL $$');
  expect(spawnSync(process.execPath, [bin]).signal).toBe('SIGKILL');
});

test.skipIf(missing).each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s reaches the program, which ends as it likes',
  async (signal) => {
    const name = signal.slice(3);
    const bin = installed(signal, `trap 'exit 9' ${name}; echo ready; while :; do sleep 0.05; done`);
    const child = spawn(process.execPath, [bin], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill(signal);
    expect(await ended).toBe(9);
  },
);

test.skipIf(missing)('without a program it says so, and what to do', () => {
  const { status, stderr } = spawnSync(process.execPath, [installed('none')], { encoding: 'utf8' });
  expect(status).toBe(125);
  expect(stderr).toMatch(/optional dependencies.*cargo install oncebox-cli/);
});

/** Makes a process take this platform for Windows. */
const AS_WINDOWS = `data:text/javascript,Object.defineProperties(process, ${JSON.stringify({
  platform: { value: 'win32' },
  arch: { value: 'x64' },
})})`;

test.skipIf(missing)('on Windows the program is oncebox.exe, and is packed as that', () => {
  const bin = installed('windows', 'echo here', { platform: 'oncebox-win32-x64-msvc', file: 'oncebox.exe' });
  const { stdout, stderr } = spawnSync(process.execPath, ['--import', AS_WINDOWS, bin], { encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['here\n', '']);
  const out = join(folder, 'packed');
  const [script, program] = [fileURLToPath(new URL('../../scripts/pack.mjs', import.meta.url)), join(built, 'bin.js')];
  for (const [platform, file] of [
    ['win32-x64-msvc', 'package/oncebox.exe'],
    ['linux-x64-gnu', 'package/oncebox'],
  ] as const) {
    execFileSync(process.execPath, [script, out, program, platform, program], { stdio: 'ignore' });
    const tarball = readdirSync(out).find((name) => name.includes(platform)) ?? '';
    const files = execFileSync('tar', ['-tf', join(out, tarball)], { encoding: 'utf8' }).split('\n');
    expect(files.filter((name) => name.startsWith('package/oncebox') && !name.endsWith('.node'))).toEqual([file]);
  }
});
