/** The local server, for tests: one process for each test file, with faults and the count of what really happened. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { capabilities, type Transport } from '../../src/index.ts';
import type { ConnectionOpts } from '../../src/sdk/config.ts';

/** The `oncebox` program: `ONCEBOX_BINARY`, or what the workspace has built. */
const BINARY =
  process.env.ONCEBOX_BINARY ??
  process.env.ONCEBOX_BIN ??
  fileURLToPath(new URL('../../../../target/debug/oncebox', import.meta.url));

/** Whether there is a local server to test against, and what runs in its sandboxes stays in them. */
export const available = whyNot() === undefined;

if (!available) console.log(`SKIP sdk: ${whyNot()}`);

function whyNot(): string | undefined {
  if (!existsSync(BINARY)) return `there is no ${BINARY} (cargo build -p oncebox-cli, or ONCEBOX_BINARY)`;
  const told = spawnSync(BINARY, ['serve', '--explain-isolation', '--json'], { encoding: 'utf8' });
  const { parts } = JSON.parse(told.stdout) as { parts: { name: string; isolated: boolean }[] };
  const open = parts.filter(({ name, isolated }) => ['processes', 'files', 'users'].includes(name) && !isolated);
  return open.length === 0 ? undefined : `this kernel does not isolate ${open.map(({ name }) => name).join(', ')}`;
}

/** A running local server. */
export class Server {
  constructor(
    readonly url: string,
    private readonly child: ChildProcess,
  ) {}

  /** How to connect to it. */
  get opts(): ConnectionOpts {
    return { apiUrl: this.url, sandboxUrl: this.url, apiKey: 'local', domain: 'sandbox.local' };
  }

  /** Makes it misbehave by a fault document. */
  async faults(document: unknown): Promise<void> {
    const response = await fetch(`${this.url}/oncebox/faults`, { method: 'PUT', body: JSON.stringify(document) });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    await fetch(`${this.url}/oncebox/effects`, { method: 'DELETE' });
  }

  /** Lets it behave again. */
  async heal(): Promise<void> {
    await fetch(`${this.url}/oncebox/faults`, { method: 'DELETE' });
  }

  /** How often each rule of the fault document has fired. */
  async fired(): Promise<number[]> {
    return ((await (await fetch(`${this.url}/oncebox/faults`)).json()) as { fired: number[] }).fired;
  }

  /** How often each operation had an effect. */
  async counts(): Promise<Record<string, number>> {
    return ((await (await fetch(`${this.url}/oncebox/effects`)).json()) as { counts: Record<string, number> }).counts;
  }

  /** Ends it. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
  }

  /** Starts one on a free port. */
  static async start(args: string[] = []): Promise<Server> {
    // Without `--faults`, whose proxy would answer 502 where the server cuts a connection.
    const child = spawn(BINARY, ['serve', '--port', '0', '--json', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    const url = await new Promise<string>((resolve, reject) => {
      let out = '';
      child.stdout.on('data', (data) => {
        out += data;
        const line = out.split('\n').find((each) => each.startsWith('{'));
        if (line) resolve((JSON.parse(line) as { url: string }).url);
      });
      child.stderr.on('data', (data) => {
        said += data;
      });
      child.once('exit', () => reject(new Error(`the local server ended: ${said}`)));
    });
    return new Server(url, child);
  }
}

/** One server for a test file; it behaves again after each test. */
export function useServer(args: string[] = []): { readonly server: Server; readonly opts: ConnectionOpts } {
  let server: Server | undefined;
  const running = (): Server => {
    if (server === undefined) throw new Error('the server is not running yet');
    return server;
  };
  beforeAll(async () => {
    server = await Server.start(args);
  });
  afterEach(() => running().heal());
  afterAll(() => server?.stop());
  return {
    get server() {
      return running();
    },
    get opts() {
      return running().opts;
    },
  };
}

/** What carries requests here: each way is tried by the tests whose subject is the network. */
export const transports: readonly Transport[] = capabilities().transport === 'native' ? ['native', 'fetch'] : ['fetch'];

/** Asks again until the answer is yes. */
export async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1000; tries++) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('it never came');
}

/** A port on which nobody listens. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Whether bytes are the same. Matchers compare them one by one, which takes seconds. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
