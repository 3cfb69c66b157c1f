// What is tried in each runtime, with the package as it was installed there. It needs nothing but `fetch`, and says what it
// saw: whoever started it judges.
import { capabilities, openTransport, Sandbox } from 'oncebox';
import { attemptsOf, withRetry } from 'oncebox/retry';

/** How deep an error is shown. */
const DEPTH = 9;

/**
 * Runs all.
 *
 * @param config `plain` and `tls` are servers that misbehave by the path (`smoke/peers.mjs`), `closed` is an address where nothing
 * listens, `ca` is what the second one's certificate needs. `http2` is a `fetch` that speaks HTTP/2 where the runtime's own does not
 * by itself.
 */
export async function run(config, { http2 } = {}) {
  const own = (input, init) => globalThis.fetch(input, init);
  const seen = { capabilities: capabilities(), http2: {}, native: undefined };
  seen.fetch = await errors(own, config);
  seen.calls = await calls(own, config.plain);
  seen.created = await create(config);
  seen.http2 = await refusals(http2 ?? own, config.tls);
  if (seen.capabilities.transport === 'native') {
    const once = { connectTimeoutMs: 5000, proxy: false };
    const native = openTransport({ transport: 'native', ...once });
    seen.native = await errors(native, config);
    seen.nativeCalls = await calls(native, config.plain);
    const trusting = openTransport({ transport: 'native', rootCertificates: config.ca, ...once });
    Object.assign(seen.native, await refusals(trusting, config.tls));
  }
  return seen;
}

async function errors(fetch, { plain, closed }) {
  const aborting = new AbortController();
  setTimeout(() => aborting.abort(), 200);
  return {
    answered: await tried(fetch, `${plain}/`),
    'connection refused': await tried(fetch, closed),
    // Nobody listens there; where `fetch` forbids the port, nobody is asked.
    'forbidden port': await tried(fetch, 'http://127.0.0.1:1/'),
    'DNS failure': await tried(fetch, 'http://no-such-host.invalid/'),
    'reset after write': await tried(fetch, `${plain}/reset`),
    'closed after write': await tried(fetch, `${plain}/close`),
    'body cut': await tried(fetch, `${plain}/cut`),
    abort: await tried(fetch, `${plain}/hold`, aborting.signal),
  };
}

async function refusals(fetch, tls) {
  return {
    'HTTP/2': await tried(fetch, `${tls}/`),
    'refused stream': await tried(fetch, `${tls}/refuse`),
    GOAWAY: await tried(fetch, `${tls}/goaway`),
  };
}

/** One request which is not repeated by anybody. `ours` is what the package says is known of it. */
async function tried(fetch, url, signal) {
  const once = withRetry(fetch, { retries: 0 });
  try {
    const response = await once(url, { method: 'POST', body: 'x', signal });
    return { status: response.status, length: (await response.arrayBuffer()).byteLength };
  } catch (error) {
    const last = attemptsOf(error).at(-1);
    return { aborted: signal?.aborted ?? false, ours: last?.outcome.kind, thrown: shown(error) };
  }
}

/** Answers that are retried, or are not: the statuses of each attempt, and the waits between them in seconds. */
async function calls(fetch, plain) {
  const retrying = withRetry(fetch);
  const call = async (method, path) => {
    const id = `${path} ${Math.random()}`;
    const response = await retrying(`${plain}${path}`, { method, headers: { 'x-request-id': id } });
    await response.arrayBuffer();
    const attempts = attemptsOf(response);
    const waits = attempts.slice(1).map(({ started }, index) => started - attempts[index].ended);
    return { statuses: attempts.map(({ outcome }) => outcome.status), waits };
  };
  return {
    '429 with Retry-After': await call('POST', '/429-after'),
    '429 without': await call('POST', '/429'),
    '503 with Retry-After': await call('POST', '/503-after'),
    '503 without': await call('POST', '/503'),
    '502 without a permit': await call('POST', '/502'),
    '502 with a permit': await call('GET', '/502'),
  };
}

/** A create whose first answer is lost after the sandbox was made. */
async function create({ local }) {
  const sandbox = await Sandbox.create({ apiKey: 'local', apiUrl: local, sandboxUrl: local });
  await used(sandbox);
  return sandbox.sandboxId;
}

/** Commands' streams and bytes of files, there and back. */
async function used(sandbox) {
  const { stdout } = await sandbox.commands.run('echo out; echo err >&2', { onStderr: (text) => same(text, 'err\n') });
  same(stdout, 'out\n');
  const failed = await sandbox.commands.run('exit 3').catch((error) => error);
  same(failed.exitCode, 3);
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  await sandbox.files.write('smoke "bytes"', bytes);
  same(String(await sandbox.files.read('smoke "bytes"', { format: 'bytes' })), String(bytes));
  same(
    (await sandbox.files.list('.')).some(({ name }) => name === 'smoke "bytes"'),
    true,
  );
  const durable = await sandbox.commands.run('echo kept; exit 4', { durable: true }).catch((error) => error);
  same(`${durable.stdout}${durable.exitCode}`, 'kept\n4');
  // In two parts, also where `fetch` sends no streams.
  const large = 17 << 20;
  await sandbox.files.upload(new Blob([new Uint8Array(large)]).stream(), 'large');
  same((await sandbox.files.getInfo('large')).size, large);
  const missing = await sandbox.files.upload('/no/such/file', 'missing').catch((error) => error.name);
  same(missing, capabilities().localFiles ? 'InvalidArgumentError' : 'UnsupportedError');
}

function same(is, wanted) {
  if (is !== wanted) throw new Error(`${JSON.stringify(is)} is not ${JSON.stringify(wanted)}`);
}

/** An error as `spec/runtime-errors.json` looks at it. */
export function shown(thrown, depth = DEPTH) {
  if (typeof thrown !== 'object' || thrown === null) return thrown;
  const shape = {};
  for (const name of ['name', 'message', 'code', 'syscall', 'retryable']) {
    if (thrown[name] !== undefined) shape[name] = thrown[name];
  }
  if (depth > 0 && thrown.cause !== undefined) shape.cause = shown(thrown.cause, depth - 1);
  if (Array.isArray(thrown.errors)) shape.errors = thrown.errors.map((each) => shown(each, depth - 1));
  return shape;
}
