// The policy's module: its size, how long it takes to be there in a new process, and what a decision costs.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

/** The most that its bytes may have, compressed as a server sends them. */
const MOST_BYTES = 25_000;

/** The longest that loading may take, as the median of many processes. */
const LONGEST_LOAD_MS = 2;

const PROCESSES = 21;
const CALLS = 100_000;

const source = readFileSync(new URL('../src/policy/bytes.generated.ts', import.meta.url), 'utf8');
const base64 = source.match(/'([A-Za-z0-9+/=]+)'/)[1];

if (process.argv[2] === 'load') {
  const began = performance.now();
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
  const { exports } = await WebAssembly.instantiate(await WebAssembly.compile(bytes));
  const loaded = performance.now() - began;
  exports.preset(0);
  console.log(loaded);
} else {
  await report();
}

async function report() {
  const bytes = Buffer.from(base64, 'base64');
  const compressed = gzipSync(bytes, { level: 9 }).length;
  const self = fileURLToPath(import.meta.url);
  const loads = Array.from({ length: PROCESSES }, () => Number(execFileSync(process.execPath, [self, 'load'])));
  loads.sort((one, other) => one - other);
  const median = loads[(PROCESSES - 1) / 2];
  console.log(`module        ${bytes.length} bytes, ${compressed} with gzip (band: at most ${MOST_BYTES})`);
  console.log(
    `load          ${median.toFixed(2)} ms, the median of ${PROCESSES} processes; ${loads[0].toFixed(2)} to ` +
      `${loads.at(-1).toFixed(2)} ms (band: below ${LONGEST_LOAD_MS})`,
  );
  console.log(`a decision    ${(await decision()).toFixed(2)} µs, from a call's begin to its history's end`);
  if (compressed > MOST_BYTES || median >= LONGEST_LOAD_MS) {
    console.error('outside its band');
    process.exitCode = 1;
  }
}

/** Microseconds for one call that is answered at once, over the built package. */
async function decision() {
  const { withRetry } = await import('../dist/node/retry.js');
  const answer = { status: 200, headers: new Headers(), body: null };
  const send = withRetry(async () => answer, { requestTimeoutMs: 0 });
  const run = async (calls) => {
    for (let call = 0; call < calls; call += 1) await send('http://localhost/');
  };
  await run(CALLS / 10);
  const began = performance.now();
  await run(CALLS);
  return ((performance.now() - began) / CALLS) * 1000;
}
