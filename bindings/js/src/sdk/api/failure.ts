/** What the failure of a call becomes: one of the official classes, with its evidence. */

import { attemptsOf, describeOutcome, mayHaveBeenProcessed } from '../../retry/history.ts';
import {
  AuthenticationError,
  ConnectionLostError,
  type Evidence,
  GuestUnresponsiveError,
  InvalidArgumentError,
  NotDoneError,
  NotEnoughSpaceError,
  type OnceboxError,
  OutcomeUnknownError,
  RateLimitError,
  SandboxError,
  ServiceBusyError,
  TimeoutError,
  UnsupportedError,
} from '../errors.ts';
import { masked, type Secrets } from '../masked.ts';
import type { Answer } from '../transport/sender.ts';

/** A class of errors. */
export type ErrorClass = new (message: string, evidence?: Evidence) => OnceboxError;

/** Which classes an operation's failures have, where they are not the usual ones. */
export interface Classes {
  /** Of 404. */
  readonly notFound?: ErrorClass;
  /** Of what has no class of its own. Default: SandboxError. */
  readonly other?: ErrorClass;
}

/** What a server says about its refusal. */
export interface Words {
  readonly message: string;
  readonly errorCode?: string;
}

/** What an error says of a call that had no effect. */
export const NOT_DONE = 'it was certainly not done';

/** The most that is shown of an answer that is no error of the protocol. */
const MAX_WORDS = 300;

/** What routers are known to write that know no such path, rather than no such thing. */
const NO_ROUTE =
  /404 page not found|no matching operation was found|no matching route|requested url was not found on the server|cannot (get|post|put|patch|delete) \/|route (get|post|put|patch|delete):\/|<title>404 not found<\/title>|^not found\s*$/i;

/**
 * Reads an answer's words, whatever it is.
 *
 * @param secrets what they must not tell
 */
export function words(text: string, secrets: Secrets = []): Words {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) {
    const { message, error, detail, error_code } = body as Record<string, unknown>;
    const said = [message, error, detail].find((each) => typeof each === 'string' && each !== '');
    if (typeof said === 'string') {
      const message = masked(said, secrets);
      return typeof error_code === 'string' ? { message, errorCode: masked(error_code, secrets) } : { message };
    }
  }
  const shown = masked(text, secrets)
    .trim()
    .replaceAll(/[^\P{Cc}\n]/gu, '');
  return { message: shown.length > MAX_WORDS ? `${shown.slice(0, MAX_WORDS)}…` : shown };
}

/** What an answer that is no success becomes. Reads its body, and does not repeat secrets of it. */
export async function refused(
  action: string,
  answer: Answer,
  classes: Classes = {},
  secrets?: Secrets,
): Promise<OnceboxError> {
  const text = await answer.response.text().catch(() => '');
  return refusedWith(action, answer, words(text, secrets), classes);
}

/** The same, of words that were read already. */
export function refusedWith(action: string, answer: Answer, said: Words, classes: Classes = {}): OnceboxError {
  const { status } = answer;
  const evidence: Evidence = {
    statusCode: status,
    errorCode: said.errorCode,
    outcome: outcomeOf(answer),
    attempts: answer.attempts,
    retryAfter: retryAfterOf(answer.attempts),
  };
  const tries = answer.attempts.length > 1 ? `, after ${answer.attempts.length} attempts` : '';
  const message = `could not ${action}: ${said.message || 'the server gives no reason'} (${status}${tries})`;
  if (said.errorCode === 'sandbox_snapshot_guest_agent_unresponsive')
    return new GuestUnresponsiveError(message, evidence);
  switch (status) {
    case 400:
      return new InvalidArgumentError(message, evidence);
    case 401:
      return new AuthenticationError(message, evidence);
    case 404:
      if (NO_ROUTE.test(said.message)) {
        return new UnsupportedError(`could not ${action}: the server has no such operation (404)`, evidence);
      }
      return new (classes.notFound ?? classes.other ?? SandboxError)(message, evidence);
    case 405:
    case 501:
      return new UnsupportedError(message, evidence);
    case 429:
      return new RateLimitError(message, evidence);
    case 503:
      return new ServiceBusyError(message, evidence);
    case 507:
      return new NotEnoughSpaceError(message, evidence);
    default:
      return new (classes.other ?? SandboxError)(message, evidence);
  }
}

/**
 * What a call that got no answer becomes.
 *
 * @param signal whose abort is the caller's own: then its reason, or whatever was thrown in its stead, stays as it is.
 */
export function failed(action: string, error: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  const attempts = attemptsOf(error);
  const outcome = attempts.at(-1)?.outcome;
  // What is no failure of a call is a mistake of ours, or of the caller's, and is not dressed up.
  if (outcome === undefined) return error;
  const evidence: Evidence = { outcome, attempts, retryAfter: hintOf(attempts), cause: error };
  const tries = attempts.length > 1 ? `, after ${attempts.length} attempts` : '';
  const message = (what: string) => `could not ${action}: ${describeOutcome(outcome)}${tries}; ${what}`;
  if (!mayHaveBeenProcessed(attempts)) {
    if (outcome.kind === 'timed_out') return new TimeoutError(message(NOT_DONE), evidence);
    return new NotDoneError(message(NOT_DONE), evidence);
  }
  switch (outcome.kind) {
    case 'timed_out':
      return new TimeoutError(message('nobody knows whether it was done (requestTimeoutMs)'), evidence);
    case 'responded':
      return new ConnectionLostError(message('the rest of the answer was lost'), evidence);
    default:
      return new OutcomeUnknownError(message('nobody knows whether it was done'), evidence);
  }
}

/** The last hint of a server, in seconds. */
function hintOf(attempts: Answer['attempts']): number | undefined {
  const verdict = attempts.at(-1)?.verdict;
  return verdict?.kind === 'return' ? verdict.retryAfter : undefined;
}

/** What is known of the last attempt of an answer. */
function outcomeOf(answer: Answer): Evidence['outcome'] {
  return answer.attempts.at(-1)?.outcome;
}

/** How long a server wants to be left alone, in seconds, as the policy read it in the last answer. */
export function retryAfterOf(attempts: Answer['attempts']): number | undefined {
  const outcome = attempts.at(-1)?.outcome;
  return outcome?.kind === 'responded' ? outcome.retryAfter : undefined;
}
