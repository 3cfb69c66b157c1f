// The package as it is published, in every runtime: what is tried is in `scenarios.mjs`, what must come of it in `judge.mjs`.
//
//     node smoke/run.mjs MAIN.tgz ADDON.tgz
//
// ONCEBOX_BIN names the oncebox program, and ONCEBOX_RUNTIMES the programs of runtimes in JSON: node22, node24, bun, deno,
// miniflare, chromium. One that is missing is skipped, and named.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { hosts } from './hosts.mjs';
import { EXACT, expected, judged } from './judge.mjs';
import { PLAIN, TLS } from './peers.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const { rows } = JSON.parse(readFileSync(join(here, '../../../spec/runtime-errors.json'), 'utf8'));
const [main, addon] = process.argv.slice(2);
const folder = installed(main, addon);
const { FaultServer } = await import(pathToFileURL(join(folder, 'node_modules/oncebox/dist/node/testing.js')).href);
const failures = [];
try {
  const programs = JSON.parse(process.env.ONCEBOX_RUNTIMES ?? '{}');
  const undici = import.meta.resolve('undici');
  for (const host of hosts({ folder, programs, undici })) {
    if (host.missing) console.log(`SKIP smoke tests in ${host.name}: ${host.missing}`);
    else await tryIn(host);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (failures.length > 0) {
  console.error(`${failures.length} failed:\n${failures.map((failure) => `  ${failure}`).join('\n')}`);
  process.exit(1);
}

/** What npm would do with the tarballs, without asking for packages that are not published yet. */
function installed(...tarballs) {
  const target = mkdtempSync(join(tmpdir(), 'oncebox-smoke-'));
  for (const tarball of tarballs) {
    const name = /([^/]+)-\d+\.\d+\.\d+\.tgz$/.exec(tarball)?.[1];
    const into = join(target, 'node_modules', name);
    mkdirSync(into, { recursive: true });
    execFileSync('tar', ['-xzf', tarball, '-C', into, '--strip-components=1']);
  }
  writeFileSync(join(target, 'package.json'), '{"type": "module"}');
  for (const file of ['scenarios.mjs', 'process.mjs', 'worker.mjs', 'page.mjs'])
    cpSync(join(here, file), join(target, file));
  return target;
}

async function tryIn({ name, runtime, run }) {
  const plain = await FaultServer.start(PLAIN);
  const tls = await FaultServer.start(TLS, { tls: true });
  writeFileSync(join(folder, 'ca.pem'), tls.ca);
  const began = performance.now();
  let seen;
  try {
    // Nothing listens on a port that is reserved (IANA, 1: tcpmux), but browsers refuse to ask there.
    seen = await run({ plain: plain.url, tls: tls.url, ca: tls.ca, closed: await closedAddress() });
  } catch (error) {
    failures.push(`${name}: it did not run: ${error.stderr || error.message}`);
    return;
  } finally {
    await plain.stop();
    await tls.stop();
  }
  const before = failures.length;
  for (const [what, saw] of Object.entries({ ...seen.fetch, ...seen.http2 })) judge(name, runtime, what, saw);
  for (const [what, saw] of Object.entries(seen.native ?? {})) judgeExact(name, what, saw);
  if (['node', 'bun', 'deno'].includes(runtime) && seen.native === undefined) {
    failures.push(`${name}: the native transport is not there: ${seen.capabilities.whyNotNative}`);
  }
  const ms = Math.round(performance.now() - began);
  console.log(
    `${failures.length === before ? 'passed' : 'FAILED'} in ${name}: ${seen.capabilities.transport}, ${ms} ms`,
  );
}

function judge(name, runtime, what, { status, aborted, thrown }) {
  const told = () => `${name}: ${what}: ${status === undefined ? JSON.stringify(thrown) : status}`;
  const must = expected(runtime, what);
  if (status !== undefined) {
    if (must !== 'answered') failures.push(`${told()}: was answered, and not ${must}`);
    return;
  }
  const { outcome, row } = aborted ? { outcome: 'cancelled', row: 'abort' } : judged(rows, thrown);
  if (outcome !== must) failures.push(`${told()}: is ${outcome} by row ${row}, and not ${must}`);
  else if (row === undefined) failures.push(`${told()}: a new shape, which spec/runtime-errors.json does not have`);
}

function judgeExact(name, what, { status, aborted, carried, thrown }) {
  const saw = status !== undefined ? 'answered' : aborted ? 'cancelled' : carried?.kind;
  // A body is handed on with its head: what is cut later is no outcome of the call.
  const must = what === 'body cut' ? undefined : EXACT[what];
  if (saw !== must)
    failures.push(`${name}, native: ${what}: ${JSON.stringify(carried ?? thrown ?? status)} is not ${must}`);
}

/** An address at which nothing listens any more. */
async function closedAddress() {
  const { createServer } = await import('node:net');
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/`;
}
