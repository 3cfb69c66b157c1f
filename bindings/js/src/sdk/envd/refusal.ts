/** What a daemon, or whoever stands before it, says no with. */

import type { Attempt } from '../../retry/history.ts';
import { type Classes, refusedWith, retryAfterOf, words } from '../api/failure.ts';
import {
  AuthenticationError,
  type Evidence,
  InvalidArgumentError,
  NotFoundError,
  type OnceboxError,
  RateLimitError,
  SandboxError,
  SandboxNotRunningError,
  SandboxUnreachableError,
  TimeoutError,
  UnsupportedError,
} from '../errors.ts';
import { masked, type Secrets } from '../masked.ts';
import type { Answer } from '../transport/sender.ts';

/** An error code of Connect. */
export type Code =
  | 'canceled'
  | 'unknown'
  | 'invalid_argument'
  | 'deadline_exceeded'
  | 'not_found'
  | 'already_exists'
  | 'permission_denied'
  | 'resource_exhausted'
  | 'failed_precondition'
  | 'aborted'
  | 'out_of_range'
  | 'unimplemented'
  | 'internal'
  | 'unavailable'
  | 'data_loss'
  | 'unauthenticated';

/** An RPC that was answered by an error. */
export class Refusal extends Error {
  override name = 'Refusal';
  constructor(
    readonly code: Code,
    message: string,
    readonly attempts: readonly Attempt[],
    /** Of an answer that is no stream. */
    readonly status?: number,
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

/** What an HTTP status that is no success means where there is no code (protocol fact). */
const BY_STATUS: Record<number, Code> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  409: 'already_exists',
  413: 'resource_exhausted',
  429: 'resource_exhausted',
  499: 'canceled',
  500: 'internal',
  501: 'unimplemented',
  502: 'unavailable',
  503: 'unavailable',
  504: 'deadline_exceeded',
  505: 'unimplemented',
};

/** Reads the answer to an RPC that is no success. It must not tell secrets. */
export async function refusalOf(answer: Answer, secrets: Secrets = []): Promise<Refusal> {
  const text = await answer.response.text().catch(() => '');
  let code: unknown;
  try {
    code = (JSON.parse(text) as { code?: unknown } | null)?.code;
  } catch {
    code = undefined;
  }
  const status = typeof code === 'number' && code in BY_STATUS ? code : answer.status;
  const known = typeof code === 'string' ? (masked(code, secrets) as Code) : (BY_STATUS[status] ?? 'unknown');
  return new Refusal(
    known,
    words(text, secrets).message,
    answer.attempts,
    answer.status,
    retryAfterOf(answer.attempts),
  );
}

/** The error in the last envelope of a stream. */
export function refusalIn(json: unknown, attempts: readonly Attempt[], secrets: Secrets = []): Refusal | undefined {
  const error = (json as { error?: { code?: string; message?: string } } | null)?.error;
  if (error === undefined || error === null) return undefined;
  const [code, message] = [error.code ?? 'unknown', error.message ?? ''].map((each) => masked(`${each}`, secrets));
  return new Refusal(code as Code, message ?? '', attempts);
}

/** What stands before sandboxes says by its words (`spec/edge.json`). */
export function edgeOf(message: string): typeof SandboxNotRunningError | typeof SandboxUnreachableError | undefined {
  if (message.includes('was not found')) return SandboxNotRunningError;
  if (message.includes('port is not open') || message.includes('transitioning')) return SandboxUnreachableError;
  return undefined;
}

/** What the refusal of an RPC becomes. */
export function rpcError(action: string, refusal: Refusal, classes: Classes = {}): OnceboxError {
  const { code, attempts, status, retryAfter } = refusal;
  const evidence: Evidence = { statusCode: status, outcome: attempts.at(-1)?.outcome, attempts, retryAfter };
  const message = `could not ${action}: ${code}${refusal.message ? `: ${refusal.message}` : ''}`;
  switch (code) {
    case 'invalid_argument':
      return new InvalidArgumentError(message, evidence);
    case 'unauthenticated':
      return new AuthenticationError(message, evidence);
    case 'not_found':
      return new (classes.notFound ?? NotFoundError)(message, evidence);
    case 'resource_exhausted':
      return new RateLimitError(message, evidence);
    case 'canceled':
    case 'deadline_exceeded':
      return new TimeoutError(message, evidence);
    case 'unimplemented':
      return new UnsupportedError(message, evidence);
    case 'unavailable':
      return new (edgeOf(refusal.message) ?? SandboxUnreachableError)(message, evidence);
    case 'already_exists':
      // What stands before sandboxes answers 409 while one is being paused or woken.
      return new ((status === 409 ? edgeOf(refusal.message) : undefined) ?? SandboxError)(message, evidence);
    default:
      return new SandboxError(message, evidence);
  }
}

/** What the refusal of a plain request to a sandbox becomes. Reads its body. */
export async function restError(
  action: string,
  answer: Answer,
  classes: Classes,
  secrets: Secrets = [],
): Promise<OnceboxError> {
  const said = words(await answer.response.text().catch(() => ''), secrets);
  const by = answer.status === 502 || answer.status === 409 ? edgeOf(said.message) : undefined;
  return refusedWith(action, answer, said, by === undefined ? classes : { other: by });
}
