// The runtimes: how each is started, and what it says of what it saw.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { rolldown } from 'rolldown';

/** Nobody waits longer for a runtime. */
const LIMIT = 120_000;

/** Chromium asks nothing outside, has no sandbox that needs privileges, and reads answers of other origins. */
const CHROMIUM = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-web-security',
  '--ignore-certificate-errors',
];

/**
 * The runtimes of this machine.
 *
 * @param folder where the package is installed, and these files are beside it
 * @param programs where programs of runtimes are, by name
 * @param undici an HTTP/2 client for Node, whose own `fetch` speaks HTTP/1.1
 */
export function hosts({ folder, programs, undici }) {
  const node = (name, program) =>
    host(name, 'node', program, (config) => inProcess(folder, program, [], { ...config, undici }));
  return [
    node('Node 20', programs.node20 ?? process.execPath),
    node('Node 22', programs.node22),
    node('Node 24', programs.node24),
    host('Bun', 'bun', programs.bun, (config) => inProcess(folder, programs.bun, [], config)),
    host('Deno', 'deno', programs.deno, (config) => inDeno(folder, programs.deno, config)),
    host('workerd', 'workers', programs.miniflare, (config) => inWorkerd(folder, programs.miniflare, config)),
    host('Chromium', 'chromium', programs.chromium, (config) => inChromium(folder, programs.chromium, config)),
  ];
}

function host(name, runtime, program, run) {
  const missing =
    program === undefined ? 'it is not installed' : existsSync(program) ? undefined : `there is no ${program}`;
  return { name, runtime, missing, run };
}

async function inProcess(folder, program, flags, config, env = {}) {
  const args = [...flags, join(folder, 'process.mjs'), JSON.stringify(config)];
  const options = { timeout: LIMIT, maxBuffer: 1 << 24, env: { ...process.env, ...env }, cwd: folder };
  // What a developer's shell names must not stand in for what is installed.
  delete options.env.ONCEBOX_NATIVE;
  const { stdout } = await promisify(execFile)(program, args, options);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1));
}

function inDeno(folder, program, config) {
  const cache = { DENO_DIR: join(folder, '.deno'), DENO_NO_UPDATE_CHECK: '1' };
  const flags = ['run', '--allow-all', '--node-modules-dir=manual', '--cert', join(folder, 'ca.pem')];
  return inProcess(folder, program, flags, config, cache);
}

/** A bundle of what runs where there are no files, and the modules that it imports beside. */
async function bundled(folder, entry, conditionNames) {
  const build = await rolldown({
    input: join(folder, entry),
    platform: 'neutral',
    cwd: folder,
    resolve: { conditionNames },
    external: [/\.wasm$/],
  });
  const { output } = await build.generate({ format: 'esm', codeSplitting: false });
  await build.close();
  return output[0].code;
}

async function inWorkerd(folder, miniflare, config) {
  const { Miniflare } = await import(miniflare);
  let code = await bundled(folder, 'worker.mjs', ['workerd', 'worker', 'import', 'default']);
  const modules = [];
  code = code.replace(/(from\s*|import\s*\(\s*)"([^"]+\.wasm)"/g, (_, before, name) => {
    const [path] = name.split('/').slice(-1);
    modules.push({ type: 'CompiledWasm', path, contents: readFileSync(join(folder, name)) });
    return `${before}"./${path}"`;
  });
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'worker.mjs', contents: code }, ...modules],
    compatibilityDate: '2026-01-01',
    host: '127.0.0.1',
    cf: false,
    outboundService: {
      network: {
        allow: ['public', 'private'],
        tlsOptions: { trustBrowserCas: false, trustedCertificates: [config.ca] },
      },
    },
    // It tells at length of each failure that it is made to have.
    handleRuntimeStdio: (stdout, stderr) => [stdout, stderr].map((stream) => stream.resume()),
  });
  try {
    const answer = await worker.dispatchFetch('http://worker/', {
      method: 'POST',
      body: JSON.stringify(config),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return JSON.parse(text);
  } finally {
    await worker.dispose();
  }
}

async function inChromium(folder, executablePath, config) {
  const { chromium } = await import('playwright-core');
  const code = await bundled(folder, 'page.mjs', ['browser', 'import', 'default']);
  const server = createServer((request, response) => {
    const isCode = request.url === '/page.mjs';
    response.setHeader('content-type', isCode ? 'text/javascript' : 'text/html');
    response.end(isCode ? code : '<!doctype html><title>smoke</title><script type="module" src="/page.mjs"></script>');
  }).listen(config.page, '127.0.0.1');
  await once(server, 'listening');
  const browser = await chromium.launch({ executablePath, args: CHROMIUM });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(LIMIT);
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => 'runSmoke' in globalThis);
    return await page.evaluate((given) => globalThis.runSmoke(given), config);
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
}
