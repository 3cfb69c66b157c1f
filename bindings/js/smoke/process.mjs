// Node, Bun and Deno: the configuration comes as an argument, and what was seen is the last line.
import { run } from './scenarios.mjs';

const config = JSON.parse(process.argv[2]);
let http2;
if (config.undici) {
  const { Agent, fetch } = await import(config.undici);
  const dispatcher = new Agent({ allowH2: true, connect: { ca: config.ca } });
  http2 = (input, init) => fetch(input, { ...init, dispatcher });
}
// Bun's speaks HTTP/2 where it is told to.
if ('Bun' in globalThis) http2 = (input, init) => fetch(input, { ...init, protocol: 'http2', tls: { ca: config.ca } });
console.log(JSON.stringify(await run(config, { http2 })));
// Connections of the runtime's own may be kept for long.
process.exit();
