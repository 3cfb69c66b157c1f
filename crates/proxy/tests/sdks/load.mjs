// The official JavaScript SDK at work: what it was asked to do, and what of it failed, as one JSON object.
// ONCEBOX_COUNT sandboxes, eight at a time, each with a file of ONCEBOX_FILE_SIZE bytes. ONCEBOX_NODE_WITH_E2B is a folder that has the SDK.
import { createRequire } from 'node:module'

const { Sandbox } = createRequire(`${process.env.ONCEBOX_NODE_WITH_E2B}/`)('e2b')
const count = Number(process.env.ONCEBOX_COUNT)
const size = Number(process.env.ONCEBOX_FILE_SIZE)
const calls = {}
const failed = []
const made = []

async function attempt(name, call) {
  calls[name] = (calls[name] ?? 0) + 1
  try {
    return await call()
  } catch (error) {
    failed.push(`${name}: ${error}`)
    throw error
  }
}

function check(name, seen, wanted) {
  if (JSON.stringify(seen) !== JSON.stringify(wanted)) failed.push(`${name}: ${seen} in place of ${wanted}`)
}

async function life(number) {
  const metadata = { n: String(number) }
  const sandbox = await attempt('createSandbox', () => Sandbox.create({ timeoutMs: 120_000, metadata }))
  made.push(sandbox.sandboxId)
  await attempt('setSandboxTimeout', () => sandbox.setTimeout(200_000))
  const info = await attempt('getSandbox', () => sandbox.getInfo())
  check('metadata', info.metadata, metadata)
  const { stdout } = await attempt('processStart', () => sandbox.commands.run(`echo ${number}`))
  check('output', stdout, `${number}\n`)
  const path = `/tmp/oncebox-proxied-${sandbox.sandboxId}`
  const text = 'x'.repeat(size) + number
  await attempt('writeFiles', () => sandbox.files.write(path, text))
  check('file', await attempt('readFile', () => sandbox.files.read(path)), text)
  await attempt('filesystemRemove', () => sandbox.files.remove(path))
  await attempt('listSandboxes', () => Sandbox.list({ query: { metadata } }).nextItems())
  check('kill', await attempt('killSandbox', () => sandbox.kill()), true)
}

let next = 0
async function worker() {
  while (next < count) await life(next++).catch(() => {})
}
await Promise.all(Array.from({ length: 8 }, worker))
console.log(JSON.stringify({ calls, failed, made }))
process.exit(0)
