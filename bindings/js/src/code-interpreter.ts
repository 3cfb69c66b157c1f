/** The code interpreter: all of the SDK, with a `Sandbox` that runs code, as the official package for it has. */
export * from './index.ts';
export * from './sdk/interpreter/charts.ts';
export { E2B } from './sdk/interpreter/client.ts';
export {
  Execution,
  ExecutionError,
  type Logs,
  type MIMEType,
  OutputMessage,
  type RawData,
  Result,
} from './sdk/interpreter/execution.ts';
export {
  type Context,
  type CreateCodeContextOpts,
  type RunCodeLanguage,
  type RunCodeOpts,
  Sandbox,
  Sandbox as default,
} from './sdk/interpreter/sandbox.ts';
