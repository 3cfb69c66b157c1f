// All tests of this folder, in one process and on one server: `node main.mjs`.
import { HOLES } from './holes.mjs'
import { writeRecord } from './record.mjs'
import './server.mjs'

// They read the environment that the server sets.
await import('./sdk.mjs')
await import('./interpreter.mjs')
await import('./cli.mjs')
writeRecord(HOLES)
