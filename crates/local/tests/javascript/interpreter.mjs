// The official JavaScript code interpreter, unmodified, on the local server.
import assert from 'node:assert/strict'

import { Sandbox } from '@e2b/code-interpreter'

import { drive, watch } from './record.mjs'

watch('@e2b/code-interpreter', 'JavaScript', { Sandbox: [[Sandbox.prototype], 'Sandbox'] })

drive('code runs in contexts', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
  try {
    await sandbox.runCode('x = 20')
    const execution = await sandbox.runCode("print('out')\nx + 1")
    assert.equal(execution.text, '21')
    assert.equal(execution.logs.stdout.join(''), 'out\n')
    assert.equal((await sandbox.runCode('1 / 0')).error.name, 'ZeroDivisionError')
    const context = await sandbox.createCodeContext({ cwd: '/home/user' })
    assert.equal((await sandbox.runCode('y = 1\ny', { context })).text, '1')
    assert.ok((await sandbox.listCodeContexts()).some((each) => each.id === context.id))
    await sandbox.restartCodeContext(context)
    assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
    await sandbox.removeCodeContext(context)
  } finally {
    await sandbox.kill()
  }
})
