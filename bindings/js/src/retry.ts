export { type Capabilities, capabilities } from './capabilities.ts';
export type { Edge, Goaway, Outcome, Permit, PresetName, RepeatUnknown, Responded, Verdict } from './policy/types.ts';
export {
  type Attempt,
  attemptsOf,
  describeAttempt,
  describeAttempts,
  describeOutcome,
  mayHaveBeenProcessed,
} from './retry/history.ts';
export type { AttemptEvent, EndEvent, LogEvent } from './retry/log.ts';
export { e2bOperations, type Operation, OperationTable, type Plane } from './retry/operations.ts';
export type { ClockOptions, PolicyOptions, RetryOptions, TimeoutOptions } from './retry/options.ts';
export { withRetry } from './retry/with-retry.ts';
