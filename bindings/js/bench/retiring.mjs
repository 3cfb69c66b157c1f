// 2,000 POSTs, half of them streams, 64 at a time, over HTTP/2 connections that are retired after 20 streams: this package and
// undici, one after the other, each in a process of its own before a server of its own. It fails when ours lost or doubled one.
//
//     ONCEBOX_BIN=… ONCEBOX_NATIVE=… node bench/retiring.mjs
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openTransport } from '../dist/node/index.js';
import { FaultServer } from '../dist/node/testing.js';

const REQUESTS = 2000;
const AT_ONCE = 64;

const CLIENTS = {
  'oncebox, native': (ca) => openTransport({ transport: 'native', rootCertificates: ca, proxy: false }),
  'undici, HTTP/2': async (ca) => {
    const { Agent, fetch } = await import('undici');
    const dispatcher = new Agent({ allowH2: true, pipelining: AT_ONCE, connect: { ca } });
    return (url, init) => fetch(url, { ...init, dispatcher });
  },
};

const [name, url, ca] = process.argv.slice(2);
if (name) console.log(JSON.stringify(await drive(await CLIENTS[name](ca), url)));
else await compare();

async function compare() {
  let failed = false;
  console.log(`${REQUESTS} POSTs, ${AT_ONCE} at a time, half of them streams; connections retired after 20 streams`);
  for (const client of Object.keys(CLIENTS)) {
    const server = await FaultServer.start('requests-lost-when-connections-retire', { tls: true });
    const args = [fileURLToPath(import.meta.url), client, server.url, server.ca];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000, maxBuffer: 1 << 24 });
    const { failures, seconds, cpuSeconds, firstFailure } = JSON.parse(stdout.trimEnd().split('\n').at(-1));
    const { requests, connections, totals } = await server.stop();
    const processed = requests.filter((request) => request.processed > 0).length;
    const doubled = requests.filter((request) => request.processed > 1).length;
    const perSecond = Math.round((REQUESTS - failures) / seconds);
    const cpu = Math.round((cpuSeconds / REQUESTS) * 1e6);
    console.log(
      `${client.padEnd(16)} ${failures} failed, ${REQUESTS - processed} not processed, ${doubled} doubled; ` +
        `${perSecond} answered/s, ${cpu} µs of CPU a request; ${totals.heads} heads on ${connections.length} connections` +
        (firstFailure ? `\n${' '.repeat(17)}first failure: ${firstFailure}` : ''),
    );
    if (client.startsWith('oncebox')) failed = failures > 0 || doubled > 0 || processed < REQUESTS;
  }
  if (failed) {
    console.error('the native transport lost or doubled requests');
    process.exit(1);
  }
}

async function drive(fetch, url) {
  const body = new Uint8Array(1000).fill(120);
  const stream = () => new Blob([body]).stream();
  let next = 0;
  let failures = 0;
  let firstFailure;
  const worker = async () => {
    while (next < REQUESTS) {
      const id = next++;
      const init = { method: 'POST', headers: { 'x-request-id': String(id) } };
      try {
        const streams = id % 2 === 1;
        const response = await fetch(url, {
          ...init,
          body: streams ? stream() : body,
          ...(streams && { duplex: 'half' }),
        });
        await response.arrayBuffer();
        if (response.status !== 200) throw new Error(`answered ${response.status}`);
      } catch (error) {
        failures += 1;
        firstFailure ??= `${error.cause?.code ?? error.code ?? error.name}: ${error.cause?.message ?? error.message}`;
      }
    }
  };
  const before = process.cpuUsage();
  const began = performance.now();
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(before);
  // Whoever keeps connections open would wait for them.
  setImmediate(() => process.exit());
  return { failures, firstFailure, seconds, cpuSeconds: (user + system) / 1e6 };
}
