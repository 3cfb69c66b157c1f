/** Servers for tests: the local sandbox server, and peers that misbehave by a script. For Node, Bun and Deno. */
export {
  type FaultReport,
  FaultServer,
  type FaultServerOptions,
  type RequestReport,
} from './testing/faults.ts';
export { type Hooks, useServer } from './testing/hooks.ts';
export { findProgram, type ProgramOptions } from './testing/program.ts';
export {
  type Effect,
  type Effects,
  type FaultDocument,
  type FaultRule,
  LocalServer,
  type ServerOptions,
} from './testing/server.ts';
