// 2,000 POSTs by undici over HTTP/2: `URL CA REQUESTS CONCURRENCY bytes|stream`.
import { readFileSync } from "node:fs";
import { Agent, request } from "undici";

const [url, ca, requests, concurrency, kind] = process.argv.slice(2);
const dispatcher = new Agent({ allowH2: true, connect: { ca: readFileSync(ca, "utf8") } });
const body = Buffer.alloc(10_000, "x");
async function* pieces() {
  for (let start = 0; start < body.length; start += 4096) yield body.subarray(start, start + 4096);
}
let next = 0;
let ok = 0;
const errors = new Map();
async function caller() {
  while (next < Number(requests)) {
    const headers = { "x-request-id": `r${next++}` };
    try {
      const answer = await request(url, { method: "POST", headers, body: kind === "bytes" ? body : pieces(), dispatcher });
      await answer.body.dump();
      ok += answer.statusCode === 200 ? 1 : 0;
    } catch (error) {
      const text = `${error.code} ${error.message}`.slice(0, 120);
      errors.set(text, (errors.get(text) ?? 0) + 1);
    }
  }
}
await Promise.all(Array.from({ length: Number(concurrency) }, caller));
console.log(JSON.stringify({ ok, failed: Number(requests) - ok }));
for (const [text, count] of [...errors].sort((a, b) => b[1] - a[1]).slice(0, 3)) console.error(count, text);
process.exit(0);
