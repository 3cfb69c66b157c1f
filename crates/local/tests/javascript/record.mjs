// Which public methods of an SDK its tests drove: each is replaced by one that calls it and notes that it returned.
// A method counts when a test called it itself, not when the SDK did on the way, and when that test passed.
import { AsyncLocalStorage } from 'node:async_hooks'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

const inside = new AsyncLocalStorage()
const sdks = {}
const called = new Set()
const passed = new Set()

// The public methods of a class are those that the package's own type declarations name.
function declared(declarations, cls) {
  const from = declarations.search(new RegExp(`^declare (abstract )?class ${cls}[ <]`, 'm'))
  if (from < 0) throw new Error(`the declarations have no class ${cls}`)
  const body = declarations.slice(from, declarations.indexOf('\n}', from))
  const methods = body.matchAll(/^ {2}(?:static )?(\w+)(?:<[^>]*>)?\(/gm)
  return new Set([...methods].map((method) => method[1]).filter((name) => name !== 'constructor'))
}

// `classes` has, by the name in the matrix, the class and the names under which it and its parents are declared.
export function watch(module, language, classes) {
  const main = createRequire(import.meta.url).resolve(module)
  const declarations = readFileSync(path.join(path.dirname(main), 'index.d.mts'), 'utf8')
  const manifest = JSON.parse(readFileSync(path.join(path.dirname(main), '../package.json'), 'utf8'))
  const sdk = `${module} ${manifest.version}, ${language}`
  sdks[sdk] = new Set()
  for (const [name, [targets, ...parents]] of Object.entries(classes)) {
    for (const method of new Set(parents.flatMap((parent) => [...declared(declarations, parent)]))) {
      sdks[sdk].add(`${name}.${method}`)
      for (const target of targets) replace(target, method, `${sdk}\n${name}.${method}`)
    }
  }
  return sdk
}

// What has no types: the commands of a program.
export function list(sdk, methods) {
  sdks[sdk] = new Set(methods)
}

export function note(sdk, method) {
  called.add(`${sdk}\n${method}`)
}

function replace(target, method, key) {
  const original = target[method]
  if (typeof original !== 'function') return
  target[method] = function (...args) {
    if (inside.getStore()) return original.apply(this, args)
    const result = inside.run(true, () => original.apply(this, args))
    if (typeof result?.then !== 'function') {
      called.add(key)
      return result
    }
    return result.then((value) => {
      called.add(key)
      return value
    })
  }
}

// A test whose methods count. With `refused` they do not: it shows that the server says no.
export function drive(name, body, { refused = false } = {}) {
  test(name, { timeout: 120_000 }, async (context) => {
    called.clear()
    await body(context)
    if (!refused) for (const key of called) passed.add(key)
  })
}

// A folder that is gone when this process ends, however its tests did.
export function scratch() {
  const folder = mkdtempSync(path.join(tmpdir(), 'oncebox-compat-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export function writeRecord(holes) {
  after(() => {
    if (!process.env.ONCEBOX_COMPAT) return
    const record = {}
    for (const [sdk, methods] of Object.entries(sdks)) {
      const driven = Object.fromEntries([...methods].map((method) => [method, passed.has(`${sdk}\n${method}`)]))
      record[sdk] = { driven, holes: holes[sdk.split(' ')[0]] ?? {} }
    }
    writeFileSync(path.join(process.env.ONCEBOX_COMPAT, 'javascript.json'), JSON.stringify(record))
  })
}
