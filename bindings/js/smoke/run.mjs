// The package as it is published, in every runtime: what is tried is in `scenarios.mjs`, what must come of it in `judge.mjs`.
//
//     node smoke/run.mjs MAIN.tgz ADDON.tgz
//
// ONCEBOX_BIN names the oncebox program, and ONCEBOX_RUNTIMES the programs of runtimes in JSON: node22, node24, bun, deno,
// miniflare, chromium. One that is missing is skipped, and named.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { hosts } from './hosts.mjs';
import { CALLS, EXACT, expected, judged, WITHOUT_HTTP2 } from './judge.mjs';
import { PLAIN, TLS } from './peers.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const { rows } = JSON.parse(readFileSync(join(here, '../../../spec/runtime-errors.json'), 'utf8'));
const [main, addon] = process.argv.slice(2);
const folder = ownFolder();
install(main, addon);
const { FaultServer, LocalServer } = await import(
  pathToFileURL(join(folder, 'node_modules/oncebox/dist/node/testing.js')).href
);
const failures = [];
try {
  const programs = JSON.parse(process.env.ONCEBOX_RUNTIMES ?? '{}');
  const undici = import.meta.resolve('undici');
  for (const host of hosts({ folder, programs, undici })) {
    if (host.missing) console.log(`SKIP smoke tests in ${host.name}: ${host.missing}`);
    else await tryIn(host);
  }
} finally {
  remove();
}
if (failures.length > 0) {
  console.error(`${failures.length} failed:\n${failures.map((failure) => `  ${failure}`).join('\n')}`);
  process.exit(1);
}

/** What npm would do with the tarballs, without asking for packages that are not published yet. */
function install(...tarballs) {
  for (const tarball of tarballs) {
    const name = /([^/]+)-\d+\.\d+\.\d+\.tgz$/.exec(tarball)?.[1];
    const into = join(folder, 'node_modules', name);
    mkdirSync(into, { recursive: true });
    execFileSync('tar', ['-xzf', tarball, '-C', into, '--strip-components=1']);
  }
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  for (const file of ['scenarios.mjs', 'process.mjs', 'worker.mjs', 'page.mjs'])
    cpSync(join(here, file), join(folder, file));
}

/** A folder which is gone when this process is, however that ends: one that was killed leaves it to the next run. */
function ownFolder() {
  const prefix = 'oncebox-smoke-';
  for (const name of readdirSync(tmpdir())) {
    const pid = /^oncebox-smoke-(\d+)$/.exec(name)?.[1];
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));
  process.once('exit', remove);
  const own = join(tmpdir(), `${prefix}${process.pid}`);
  mkdirSync(own, { recursive: true });
  return own;
}

function remove() {
  rmSync(folder, { recursive: true, force: true });
}

async function tryIn({ name, runtime, run }) {
  const plain = await FaultServer.start(PLAIN);
  const tls = await FaultServer.start(TLS, { tls: true });
  const page = await freePort();
  const local = await LocalServer.start({ isolation: false, allowOrigin: [`http://127.0.0.1:${page}`] });
  await local.misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
  writeFileSync(join(folder, 'ca.pem'), tls.ca);
  const [began, before] = [performance.now(), failures.length];
  let seen;
  try {
    const closed = `http://127.0.0.1:${await freePort()}/`;
    seen = await run({ plain: plain.url, tls: tls.url, ca: tls.ca, local: local.url, closed, page });
    await judgeCreate(name, seen.created, local);
  } catch (error) {
    failures.push(`${name}: it did not run: ${error.stderr || error.message}`);
    return;
  } finally {
    await plain.stop();
    judgeVersions(name, runtime, await tls.stop());
    await local.stop();
  }
  for (const [what, saw] of Object.entries({ ...seen.fetch, ...seen.http2 })) judge(name, runtime, what, saw);
  for (const [what, saw] of Object.entries(seen.native ?? {})) judgeExact(name, what, saw);
  for (const [what, must] of Object.entries(CALLS)) {
    judgeCall(name, what, must, seen.calls[what]);
    if (seen.native) judgeCall(`${name}, native`, what, must, seen.nativeCalls[what]);
  }
  if (['node', 'bun', 'deno'].includes(runtime) && seen.native === undefined) {
    failures.push(`${name}: the native transport is not there: ${seen.capabilities.whyNotNative}`);
  }
  const ms = Math.round(performance.now() - began);
  console.log(
    `${failures.length === before ? 'passed' : 'FAILED'} in ${name}: ${seen.capabilities.transport}, ${ms} ms`,
  );
}

function judge(name, runtime, what, { status, aborted, ours, thrown }) {
  const told = () => `${name}: ${what}: ${status === undefined ? JSON.stringify(thrown) : status}`;
  const must = expected(runtime, what);
  if (status !== undefined) {
    if (must !== 'answered') failures.push(`${told()}: was answered, and not ${must}`);
    return;
  }
  const { outcome, row } = aborted ? { outcome: 'cancelled', row: 'abort' } : judged(rows, thrown);
  if (outcome !== must) failures.push(`${told()}: is ${outcome} by row ${row}, and not ${must}`);
  // A body that is handed on and then cut is no outcome of the call any more.
  else if (what !== 'body cut' && ours !== outcome)
    failures.push(`${told()}: is ${ours} for the package, and ${outcome} by the table`);
  else if (row === undefined) failures.push(`${told()}: a new shape, which spec/runtime-errors.json does not have`);
}

/** Who is taken to speak HTTP/1.1 alone would have to be refused streams, once it speaks HTTP/2. */
function judgeVersions(name, runtime, { connections }) {
  const isHttp2 = connections.some(({ version }) => version === '2');
  if (isHttp2 === WITHOUT_HTTP2.includes(runtime))
    failures.push(`${name}: ${isHttp2 ? 'its fetch speaks HTTP/2' : 'nothing of it spoke HTTP/2'}`);
}

function judgeExact(name, what, { status, aborted, ours, thrown }) {
  const saw = status !== undefined ? 'answered' : aborted ? 'cancelled' : what === 'body cut' ? undefined : ours;
  // A body is handed on with its head: what is cut later is no outcome of the call.
  const must = what === 'body cut' ? undefined : EXACT[what];
  if (saw !== must)
    failures.push(`${name}, native: ${what}: ${JSON.stringify(ours ?? thrown ?? status)} is not ${must}`);
}

function judgeCall(name, what, { statuses, wait }, saw) {
  const [seen, must] = [JSON.stringify(saw.statuses), JSON.stringify(statuses)];
  if (seen !== must) failures.push(`${name}: ${what}: the answers were ${seen}, and not ${must}`);
  // Clocks of browsers and Workers are coarse on purpose.
  else if (saw.waits.some((each) => each < wait - 0.01)) failures.push(`${name}: ${what}: waited ${saw.waits} s only`);
}

/** The answer was lost, and there is one sandbox: the one that the SDK has. */
async function judgeCreate(name, created, local) {
  const { counts, doubled } = await local.effects();
  const answer = await fetch(`${local.url}/v2/sandboxes`, { headers: { 'x-api-key': 'local' } });
  const running = (await answer.json()).map(({ sandboxID }) => sandboxID);
  if (running.length !== 1 || running[0] !== created || Object.keys(doubled).length > 0) {
    failures.push(`${name}: create: made ${created}, there are ${running}: ${JSON.stringify({ counts, doubled })}`);
  }
  const { fired } = await (await fetch(`${local.url}/oncebox/faults`)).json();
  if (!JSON.stringify(fired).includes('1')) failures.push(`${name}: create: its answer was not lost`);
}

/** A port at which nothing listens any more. Browsers ask at none that is reserved. */
async function freePort() {
  const { createServer } = await import('node:net');
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
