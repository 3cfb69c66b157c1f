// The official JavaScript SDK, unmodified, on the local server.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

import { CommandExitError, NotFoundError, Sandbox, SandboxError, Secret, Template, TemplateBase, Volume } from 'e2b'

import { drive, scratch, watch } from './record.mjs'

const unique = (what) => `${what}-${randomUUID().slice(0, 8)}`

async function until(check) {
  for (let tries = 0; tries < 1000; tries++) {
    const result = await check()
    if (result) return result
    await pause(20)
  }
  throw new Error('it never came')
}

// The classes of what a sandbox gives are not exported.
{
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  const handle = await sandbox.commands.run('sleep 60', { background: true })
  const watched = await sandbox.files.watchDir('/home/user', () => {})
  const of = (value) => [Object.getPrototypeOf(value)]
  watch('e2b', 'JavaScript', {
    Sandbox: [[Sandbox, Sandbox.prototype], 'Sandbox', 'SandboxApi'],
    SandboxPaginator: [of(Sandbox.list()), 'SandboxPaginator'],
    SnapshotPaginator: [of(Sandbox.listSnapshots()), 'SnapshotPaginator'],
    commands: [of(sandbox.commands), 'Commands'],
    CommandHandle: [of(handle), 'CommandHandle'],
    pty: [of(sandbox.pty), 'Pty'],
    files: [of(sandbox.files), 'Filesystem'],
    WatchHandle: [of(watched), 'WatchHandle'],
    git: [of(sandbox.git), 'Git'],
    Template: [[TemplateBase, TemplateBase.prototype], 'TemplateBase'],
    Volume: [[Volume, Volume.prototype], 'Volume'],
    Secret: [[Secret], 'Secret'],
    SecretPaginator: [of(Secret.list()), 'SecretPaginator'],
  })
  await sandbox.kill()
}

function inASandbox(name, use) {
  drive(name, async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { suite: 'javascript' } })
    try {
      await use(sandbox)
    } finally {
      await sandbox.kill()
    }
  })
}

inASandbox('a sandbox from its start to its end', async (sandbox) => {
  const found = await Sandbox.list({ query: { metadata: { suite: 'javascript' } } }).nextItems()
  assert.ok(found.some((each) => each.sandboxId === sandbox.sandboxId))
  assert.equal((await sandbox.getInfo()).state, 'running')
  assert.equal((await Sandbox.getFullInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId)
  assert.equal(await sandbox.isRunning(), true)
  await sandbox.setTimeout(60_000)
  assert.ok((await sandbox.getMetrics())[0].memTotal > 0)
  await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] })
  assert.ok(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`))
  await sandbox.files.write('f', 'before')
  const [fork] = await sandbox.fork({ timeoutMs: 60_000 })
  assert.equal(await fork.files.read('f'), 'before')
  await fork.kill()
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.pause(), false)
  assert.equal(await sandbox.isRunning(), false)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(await again.files.read('f'), 'before')
  assert.equal(await again.betaPause(), true)
  await again.connect()
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  assert.equal(await sandbox.kill(), false)
})

inASandbox('snapshots', async (sandbox) => {
  await sandbox.files.write('f', 'kept')
  const snapshot = await sandbox.createSnapshot({ name: unique('snap') })
  assert.deepEqual((await sandbox.listSnapshots().nextItems()).map((each) => each.snapshotId), [snapshot.snapshotId])
  const restored = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 60_000 })
  assert.equal(await restored.files.read('f'), 'kept')
  await restored.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
})

inASandbox('commands', async (sandbox) => {
  const result = await sandbox.commands.run('echo hi; echo oops >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['hi\n', 'oops\n', 0])
  await assert.rejects(sandbox.commands.run('exit 7'), (error) => error instanceof CommandExitError && error.exitCode === 7)
  assert.equal((await sandbox.commands.run('pwd; echo $A $USER', { cwd: '/tmp', envs: { A: 'b' }, user: 'root' })).stdout, '/tmp\nb root\n')
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 })
  assert.deepEqual((await sandbox.commands.list()).map((each) => each.pid), [cat.pid])
  const first = await sandbox.commands.connect(cat.pid)
  await first.disconnect()
  const again = await sandbox.commands.connect(cat.pid, { timeoutMs: 0 })
  await sandbox.commands.sendStdin(cat.pid, 'one\n')
  await cat.sendStdin('two\n')
  await cat.closeStdin()
  assert.equal((await again.wait()).stdout, 'one\ntwo\n')
  const other = await sandbox.commands.run('cat', { background: true, stdin: true })
  await sandbox.commands.closeStdin(other.pid)
  assert.equal((await other.wait()).exitCode, 0)
  for (const kill of [(handle) => handle.kill(), (handle) => sandbox.commands.kill(handle.pid)]) {
    const sleep = await sandbox.commands.run('sleep 1000', { background: true })
    assert.equal(await kill(sleep), true)
    assert.equal(await kill(sleep), false)
    await assert.rejects(sleep.wait(), CommandExitError)
  }
})

inASandbox('terminals', async (sandbox) => {
  let shown = ''
  const onData = (data) => void (shown += new TextDecoder().decode(data))
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  const again = await sandbox.pty.connect(terminal.pid, { onData, timeoutMs: 0 })
  await sandbox.pty.resize(terminal.pid, { cols: 44, rows: 11 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
  await again.wait()
  assert.match(shown, /11 44/)
  const other = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  assert.equal(await sandbox.pty.kill(other.pid), true)
  assert.equal(await sandbox.pty.kill(other.pid), false)
  await assert.rejects(other.wait(), CommandExitError)
})

inASandbox('files', async (sandbox) => {
  const data = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256)
  assert.equal((await sandbox.files.write('dir/all bytes', data.buffer)).path, '/home/user/dir/all bytes')
  assert.deepEqual(await sandbox.files.read('dir/all bytes', { format: 'bytes' }), data)
  assert.equal((await sandbox.files.read('dir/all bytes', { format: 'blob' })).size, data.length)
  let length = 0
  for await (const chunk of await sandbox.files.read('dir/all bytes', { format: 'stream' })) length += chunk.length
  assert.equal(length, data.length)
  await sandbox.files.writeFiles([{ path: 'a', data: 'ä' }, { path: 'b', data: 'b' }])
  assert.equal(await sandbox.files.read('a'), 'ä')
  assert.deepEqual((await sandbox.files.list('.')).map((each) => each.name).sort(), ['a', 'b', 'dir'])
  assert.equal((await sandbox.files.getInfo('a')).size, 2)
  assert.equal((await sandbox.files.rename('a', 'c')).path, '/home/user/c')
  assert.equal(await sandbox.files.exists('a'), false)
  assert.equal(await sandbox.files.makeDir('dir/sub'), true)
  assert.equal(await sandbox.files.makeDir('dir/sub'), false)
  await sandbox.files.remove('dir')
  await assert.rejects(sandbox.files.read('dir/all bytes'), NotFoundError)
  const form = new FormData()
  form.append('file', new Blob(['up']), 'up.txt')
  assert.equal((await fetch(await sandbox.uploadUrl('up.txt'), { method: 'POST', body: form })).status, 200)
  assert.equal(await (await fetch(await sandbox.downloadUrl('up.txt'))).text(), 'up')
})

inASandbox('a directory is watched', async (sandbox) => {
  await sandbox.files.makeDir('watched/sub')
  const seen = []
  const watched = await sandbox.files.watchDir('watched', (event) => void seen.push(`${event.type} ${event.name}`), { recursive: true, timeoutMs: 0 })
  await sandbox.files.write('watched/sub/f', 'x')
  await until(() => seen.includes('create sub/f') && seen.includes('write sub/f'))
  await watched.stop()
})

inASandbox('git', async ({ git, files }) => {
  const [one, two, hub] = ['/home/user/one', '/home/user/two', '/home/user/hub']
  await git.configureUser('A B', 'a@b.example')
  assert.equal(await git.getConfig('user.name'), 'A B')
  await git.setConfig('pull.rebase', 'false')
  await git.init(hub, { bare: true, initialBranch: 'main' })
  await git.init(one, { initialBranch: 'main' })
  await git.remoteAdd(one, 'origin', hub)
  assert.equal(await git.remoteGet(one, 'origin'), hub)
  await files.write('one/f', '1\n')
  assert.deepEqual((await git.status(one)).fileStatus.map((each) => each.name), ['f'])
  await git.add(one)
  await git.commit(one, 'first')
  await git.push(one, { remote: 'origin', branch: 'main' })
  await git.clone(hub, { path: two })
  await files.write('one/f', '2\n')
  await git.add(one, { files: ['f'] })
  await git.commit(one, 'second')
  await git.push(one, { remote: 'origin', branch: 'main' })
  await git.pull(two)
  assert.equal(await files.read('two/f'), '2\n')
  await git.createBranch(two, 'side')
  assert.equal((await git.branches(two)).currentBranch, 'side')
  await git.checkoutBranch(two, 'main')
  await git.deleteBranch(two, 'side')
  assert.deepEqual((await git.branches(two)).branches, ['main'])
  await files.write('two/f', '3\n')
  await git.restore(two, { paths: ['f'] })
  assert.equal(await files.read('two/f'), '2\n')
  await git.reset(two, { mode: 'hard', target: 'HEAD~1' })
  assert.equal(await files.read('two/f'), '1\n')
  await git.dangerouslyAuthenticate({ username: 'me', password: 'secret', host: 'git.example' })
  assert.match(await files.read('.git-credentials'), /me:secret@git\.example/)
})

drive('templates', async () => {
  const folder = scratch()
  for (const name of ['a', 'b', 'd']) writeFileSync(path.join(folder, name), name)
  const name = unique('app')
  const logs = []
  const template = Template({ fileContextPath: folder })
    .fromBaseImage()
    .runCmd('git init -q -b main /home/user/hub && cd /home/user/hub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x')
    .gitClone('/home/user/hub', '/home/user/cloned')
    .skipCache()
    .copy('d', '/home/user/d')
    .copyItems([{ src: 'a', dest: '/home/user/a' }, { src: 'b', dest: '/home/user/b' }])
    .rename('/home/user/a', '/home/user/c')
    .remove('/home/user/b')
    .makeDir('/home/user/made')
    .makeSymlink('/home/user/c', '/home/user/link')
    .setEnvs({ GREETING: 'hello' })
    .setUser('user')
    .setWorkdir('/home/user/work')
    .runCmd('echo $GREETING > greeting')
    .setStartCmd('sleep 1000', 'true')
  assert.match(Template.toDockerfile(template), /git clone/)
  assert.match(await Template.toJSON(template), /"COPY"/)
  await Template.build(template, `${name}:one`, { onBuildLogs: (entry) => void logs.push(entry.message) })
  assert.ok(logs.some((message) => message.includes('echo $GREETING')))
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.aliasExists(name), true)
  await Template.assignTags(`${name}:one`, 'two')
  assert.ok((await Template.getTags(name)).some((each) => each.tag === 'two'))
  await Template.removeTags(name, 'two')
  const build = await Template.buildInBackground(Template().fromTemplate(`${name}:one`).runCmd('true').setReadyCmd('true'), `${name}-more`)
  await until(async () => (await Template.getBuildStatus(build)).status === 'ready')
  await Template.build(Template().fromDockerfile('FROM e2bdev/base\nWORKDIR /home/user/w\nRUN echo docker > f\n'), `${name}-docker`)
  await Template.build(Template().fromImage('e2bdev/base'), `${name}-image`)
  for (const [made, file, content] of [
    [`${name}-more`, 'link', 'a'],
    [`${name}-more`, 'd', 'd'],
    [`${name}-more`, 'work/greeting', 'hello\n'],
    [`${name}-docker`, 'w/f', 'docker\n'],
  ]) {
    const sandbox = await Sandbox.create(made, { timeoutMs: 60_000 })
    assert.equal(await sandbox.files.read(`/home/user/${file}`), content)
    await sandbox.kill()
  }
})

for (const image of ['Alpine', 'Arch', 'Bun', 'Debian', 'Fedora', 'Node', 'Python', 'Ubuntu']) {
  drive(`no ${image} image`, async () => {
    await assert.rejects(Template.build(Template()[`from${image}Image`](), unique('no')), /has no image/)
  }, { refused: true })
}

drive('a gateway is refused', async () => {
  await assert.rejects(Sandbox.create({ mcp: { github: {} }, timeoutMs: 60_000 }), SandboxError)
}, { refused: true })

drive('volumes', async () => {
  const made = await Volume.create(unique('vol'))
  const volume = await Volume.connect(made.volumeId)
  assert.equal((await Volume.getInfo(made.volumeId)).name, made.name)
  assert.ok((await Volume.list()).some((each) => each.volumeId === made.volumeId))
  assert.equal((await volume.makeDir('/d')).path, '/d')
  await volume.writeFile('/d/f', 'text')
  assert.equal(await volume.readFile('/d/f'), 'text')
  assert.deepEqual((await volume.list('/d')).map((each) => each.name), ['f'])
  assert.equal((await volume.updateMetadata('/d/f', { mode: 0o640 })).mode, 0o640)
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, volumeMounts: { '/mnt/data': volume } })
  assert.equal(await sandbox.files.read('/mnt/data/d/f'), 'text')
  await sandbox.kill()
  await volume.remove('/d')
  assert.equal(await volume.exists('/d/f'), false)
  assert.equal(await Volume.destroy(made.volumeId), true)
  assert.equal(await Volume.destroy(made.volumeId), false)
})

drive('secrets', async () => {
  const name = unique('secret')
  await Secret.create(name, 'v')
  assert.equal((await Secret.update(name, 'w')).version, 2)
  assert.equal((await Secret.getInfo(name)).name, name)
  assert.ok((await Secret.list().nextItems()).some((each) => each.name === name))
  assert.equal(await Secret.exists(name), true)
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.exists(name), false)
})
