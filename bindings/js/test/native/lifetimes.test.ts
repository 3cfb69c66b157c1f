import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { native } from '../../src/native/index.ts';
import { FaultServer } from '../../src/testing.ts';
import { built } from '../support/built.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('native transport: lifetimes', 'program', 'addon');

const open = (options = {}) => native.open({ proxy: false, ...options });

/** One stream at a time: whoever does not free it holds up all others. */
const ONE_STREAM = { settings: { max_concurrent_streams: 1 } };

async function http(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, [Symbol.asyncDispose]: stop };
}

describe.skipIf(skip)('native transport: lifetimes', () => {
  test('an abort rejects with its reason, and frees the stream', async () => {
    await using server = await FaultServer.start({
      ...ONE_STREAM,
      rules: [{ at: 'processed', when: { path: '/held' }, do: ['hold'] }],
    });
    const fetch = open({ httpVersion: '2', maxConnections: 1 });
    await (await fetch(`${server.url}/first`)).text();
    const aborting = new AbortController();
    const held = fetch(`${server.url}/held`, { signal: aborting.signal });
    const reason = new Error('mine');
    setTimeout(() => aborting.abort(reason), 100);
    await expect(held).rejects.toBe(reason);
    expect((await fetch(`${server.url}/next`)).status).toBe(200);
    await expect(fetch(`${server.url}/`, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const report = await server.stop();
    expect(report.connections.length).toBe(1);
  });

  test('many calls share a signal, and one that is long-lived keeps nothing', async () => {
    await using server = await http((_, response) => response.end('x'.repeat(1_000_000)));
    const output = await run(
      `
        process.on('warning', (warning) => console.log(warning.name));
        const fetch = native.open({ proxy: false });
        const { signal } = new AbortController();
        await Promise.all(Array.from({ length: 20 }, async () => (await fetch(process.argv[2], { signal })).arrayBuffer()));
        let gone = 0;
        const registry = new FinalizationRegistry(() => (gone += 1));
        const forget = async () => registry.register(await fetch(process.argv[2], { signal }), 0);
        for (let n = 0; n < 20; n++) await forget();
        while (gone < 20) {
          gc();
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
        console.log(gone);
        process.exit();
      `,
      [server.url],
      ['--expose-gc'],
    );
    expect(output).toBe('20\n');
  });

  test('an abort ends a body that is being read', async () => {
    let closed = false;
    await using server = await http((_, response) => {
      response.write('begun');
      response.on('close', () => {
        closed = true;
      });
    });
    const aborting = new AbortController();
    const response = await open()(server.url, { signal: aborting.signal });
    const reading = response.text();
    const reason = new Error('mine');
    aborting.abort(reason);
    await expect(reading).rejects.toBe(reason);
    await expect.poll(() => closed).toBe(true);
  });

  test('bodies that are cancelled or forgotten free their streams', async () => {
    await using server = await FaultServer.start({ ...ONE_STREAM, answer: { body: { size: 10_000_000 } } });
    const fetch = open({ httpVersion: '2', maxConnections: 1 });
    const cancelled = await fetch(`${server.url}/`);
    await cancelled.body?.cancel();
    const after = await fetch(`${server.url}/`);
    expect(after.status).toBe(200);
    await after.body?.cancel();
    // A process of its own, in which the collector can be called.
    const output = await run(
      `
        const fetch = native.open({ httpVersion: '2', proxy: false, maxConnections: 1 });
        const forget = async () => { await fetch(process.argv[2]); };
        await forget();
        const next = fetch(process.argv[2]);
        const collecting = setInterval(() => gc(), 20);
        console.log((await next).status);
        clearInterval(collecting);
        process.exit();
      `,
      [server.url],
      ['--expose-gc'],
    );
    expect(output).toBe('200\n');
  });

  test('a process with open connections ends when nothing is waited for', async () => {
    await using server = await http((_, response) => {
      response.write('begun');
    });
    const output = await run(
      `
        const fetch = native.open({ proxy: false });
        const response = await fetch(process.argv[2]);
        console.log(response.status);
        const call = Symbol.for('oncebox.call');
        const refused = { method: 'POST', body: new Blob(['x']).stream(), [call]: { permit: 'none of these' } };
        await fetch(process.argv[2], refused).catch((error) => console.log(error.name));
        process.on('exit', () => console.log('over'));
      `,
      [server.url],
    );
    expect(output).toBe('200\nTypeError\nover\n');
  });

  test('a process ends when the body it was to send was being read by somebody else', async () => {
    await using server = await http((_, response) => void response.end('ok'));
    const output = await run(
      `
        const fetch = native.open({ proxy: false });
        const body = new Blob(['x']).stream();
        body.getReader();
        await fetch(process.argv[2], { method: 'POST', body, duplex: 'half' }).catch((error) => console.log(error.name));
        process.on('exit', () => console.log('over'));
      `,
      [server.url],
    );
    expect(output).toBe('TypeError\nover\n');
  });

  test('worker threads have it too, and may end while they wait', async () => {
    await using server = await http((request, response) => {
      if (request.url === '/held') response.write('begun');
      else response.end('done');
    });
    const output = await run(
      `
        import { isMainThread, Worker, workerData } from 'node:worker_threads';
        const fetch = native.open({ proxy: false });
        if (isMainThread) {
          const [url] = process.argv.slice(2);
          for (const end of ['exit', 'terminate', 'exit', 'terminate']) {
            const worker = new Worker(new URL(import.meta.url), { workerData: { url, end } });
            worker.on('message', () => worker.terminate());
            await new Promise((resolve) => worker.once('exit', resolve));
          }
          console.log(await (await fetch(url)).text());
        } else {
          const { url, end } = workerData;
          if ((await (await fetch(url)).text()) !== 'done') throw new Error('not answered');
          (await fetch(url + '/held')).text().catch(() => {});
          if (end === 'exit') process.exit();
          (await import('node:worker_threads')).parentPort.postMessage('waits');
        }
      `,
      [server.url],
    );
    expect(output).toBe('done\n');
  });

  test('what is downloaded waits for its reader', async () => {
    let written = 0;
    await using server = await http(async (_, response) => {
      const piece = Buffer.alloc(64 * 1024);
      for (let n = 0; n < 1600; n++) {
        if (!response.write(piece)) await once(response, 'drain');
        written += piece.length;
      }
      response.end();
    });
    const response = await open()(server.url);
    const reader = response.body?.getReader();
    await reader?.read();
    let before = -1;
    // Until nothing more is written: buffers of the kernel are full.
    while (before !== written) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(written).toBeLessThan(20_000_000);
    let read = 0;
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) read += next.value.length;
    expect(read).toBeGreaterThan(100_000_000);
  });

  test('what is uploaded waits for the server, and its source is cancelled when the call ends', async () => {
    await using server = await FaultServer.start({
      rules: [{ at: 'connect', do: [{ withhold: ['window_updates'] }] }],
    });
    let pulled = 0;
    let cancelled: unknown;
    const source = new ReadableStream({
      pull(pieces) {
        pulled += 1;
        pieces.enqueue(new Uint8Array(16 * 1024));
      },
      cancel(reason) {
        cancelled = reason;
      },
    });
    const aborting = new AbortController();
    const init = { method: 'POST', body: source, signal: aborting.signal };
    const response = open({ httpVersion: '2' })(`${server.url}/`, init);
    // The window is full, or soon will be.
    await expect.poll(() => pulled, { timeout: 20_000 }).toBeGreaterThan(3);
    let before = -1;
    while (before !== pulled) {
      before = pulled;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    // 64 KiB are the window, and a few pieces are on their way.
    expect(pulled).toBeLessThan(20);
    const reason = new Error('mine');
    aborting.abort(reason);
    await expect(response).rejects.toBe(reason);
    await expect.poll(() => cancelled).toBe(reason);
  });

  test('a source that fails gives the request up, and says why', async () => {
    await using server = await http((request, response) => request.resume().on('end', () => response.end()));
    const source = new ReadableStream({
      start(pieces) {
        pieces.enqueue(new TextEncoder().encode('half'));
      },
      pull(pieces) {
        pieces.error(new Error('the disk is gone'));
      },
    });
    await expect(open()(server.url, { method: 'POST', body: source })).rejects.toThrow('the disk is gone');
  });
});

/** Runs code in a process of its own, with `native` at hand; returns what it printed once it has ended by itself. */
async function run(code: string, args: string[], flags: string[] = []): Promise<string> {
  await using main = await built(['native'], '../../src/native/index.ts', code);
  const child = await promisify(execFile)(process.execPath, [...flags, main.file, ...args], { timeout: 20_000 });
  return child.stdout;
}
