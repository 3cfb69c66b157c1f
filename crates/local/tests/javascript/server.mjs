// The local server, for all tests of this folder.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { after } from 'node:test'

const program = process.env.ONCEBOX_BIN
if (!program) throw new Error('ONCEBOX_BIN names no program; run `cargo xtask test`')
const python = process.env.ONCEBOX_PYTHON
const interpreter = python ? ['--code-interpreter', python] : []
const server = spawn(program, ['serve', '--port', '0', '--json', ...interpreter], { stdio: ['ignore', 'pipe', 'inherit'] })
process.on('exit', () => server.kill())
const first = await new Promise((resolve, reject) => {
  createInterface(server.stdout).once('line', resolve)
  server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
})
export const url = JSON.parse(first).url
for (const name of ['E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_VOLUME_API_URL']) process.env[name] = url
process.env.E2B_API_KEY = 'any'
process.env.NO_PROXY = '127.0.0.1,localhost'
after(() => server.kill())
