// The official CLI, unmodified, on the local server. Its commands count as a method does.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { drive, list, note, scratch } from './record.mjs'

const root = path.join(import.meta.dirname, 'node_modules/@e2b/cli')
const SDK = `@e2b/cli ${JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version}`
const home = scratch()

function run(args) {
  return new Promise((resolve) => {
    const environment = { ...process.env, HOME: home, NO_COLOR: '1' }
    const options = { env: environment, cwd: home, timeout: 60_000 }
    const child = execFile(process.execPath, [path.join(root, 'dist/index.js'), ...args], options, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, stdout, stderr }),
    )
    child.stdin.end()
  })
}

// What a command prints; it counts as driven.
async function e2b(command, ...args) {
  const { code, stdout, stderr } = await run([...command.split(' '), ...args])
  assert.equal(code, 0, `${command}: ${stderr}${stdout}`)
  note(SDK, command)
  return stdout
}

// The commands are those that the help of each group lists.
async function commands(group) {
  const { stdout } = await run([...group, '--help'])
  const listed = stdout.slice(stdout.indexOf('Commands:')).matchAll(/^ {2}(\w[\w-]*)(?:\|\w+)?[ \n]/gm)
  const names = [...listed].map((found) => found[1]).filter((name) => name !== 'help')
  assert.ok(names.length > 0, `no commands in the help of ${group.join(' ')}: ${stdout}`)
  return names.map((name) => [...group, name].join(' '))
}

const groups = await Promise.all([['auth'], ['sandbox'], ['sandbox', 'snapshot'], ['template']].map(commands))
list(SDK, groups.flat().filter((command) => command !== 'sandbox snapshot'))

drive('the CLI and a sandbox', async () => {
  const id = (await e2b('sandbox create', '--detach')).trim()
  const ids = async () => JSON.parse(await e2b('sandbox list', '--format', 'json')).map((each) => each.sandboxId)
  assert.ok((await ids()).includes(id))
  assert.equal(await e2b('sandbox exec', id, 'sh', '-c', 'echo hi; echo $HOME'), 'hi\n/home/user\n')
  assert.equal((await run(['sandbox', 'exec', id, 'sh', '-c', 'exit 3'])).code, 3)
  assert.match(await e2b('sandbox info', id), new RegExp(`Sandbox ID: ${id}`))
  assert.match(await e2b('sandbox logs', id), /sandbox/)
  assert.match(await e2b('sandbox metrics', id), /Memory/)
  const snapshot = (await e2b('sandbox snapshot create', id)).match(/snapshot (\S+)/)[1]
  assert.match(await e2b('sandbox snapshot list'), new RegExp(snapshot))
  await e2b('sandbox snapshot delete', snapshot)
  await e2b('sandbox pause', id)
  assert.ok(!(await ids()).includes(id))
  await e2b('sandbox resume', id)
  assert.ok((await ids()).includes(id))
  await e2b('sandbox kill', id)
  assert.ok(!(await ids()).includes(id))
})

drive('the CLI and a template', async () => {
  const name = `cli-${randomUUID().slice(0, 8)}`
  writeFileSync(path.join(home, 'e2b.Dockerfile'), 'FROM e2bdev/base\nRUN echo x > /home/user/x\n')
  await e2b('template create', '--path', home, name)
  assert.match(await e2b('template list'), new RegExp(name))
  await e2b('template publish', '--yes', name)
  await e2b('template unpublish', '--yes', name)
  await e2b('template delete', '--yes', name)
  assert.doesNotMatch(await e2b('template list'), new RegExp(name))
})
