/** Creates that happen once: what the create machine's driver is given, and what its ends become here. */

import { canonical } from '../../canonical.ts';
import { type CreateOptions, Creates, type Order, Shared } from '../../create/creates.ts';
import type { Created, Leftover } from '../../create/driver.ts';
import { CreateNotDone, CreateUnknown, IntentInUse } from '../../create/errors.ts';
import type { MakeRequest } from '../../create/wire.ts';
import { attemptsOf } from '../../retry/history.ts';
import { apiHeaders } from '../api/control-plane.ts';
import { failed, refusedWith, words } from '../api/failure.ts';
import type { ConnectionConfig } from '../config.ts';
import { query, segment } from '../endpoints.ts';
import {
  type Evidence,
  IntentMismatchError,
  InvalidArgumentError,
  NotDoneError,
  OutcomeUnknownError,
  SandboxNotFoundError,
  TimeoutError,
} from '../errors.ts';
import { withoutSent } from '../repeated.ts';
import type { Sender } from '../transport/sender.ts';
import { merged } from '../validate.ts';

export type { Created, Leftover };

const ACTION = 'create a sandbox';

/** Identities whose creates are remembered, for each means of sending: as a rule one. */
const IDENTITIES = 256;

const bySender = new WeakMap<Sender, Map<string, Creates>>();

/** What all creates of this process share, on a clock that is one for all. */
const shared = /* @__PURE__ */ new Shared(() => performance.now());

/** Names of headers that say who sends a request. */
const SAYS_WHO = /auth|cookie|credential|token|api-?key|tenant|team|account|project|(?:^|-)(?:org|user(?!-agent))/i;

/** Names of headers that differ from call to call, and say nothing of who makes it. */
const SAYS_WHICH =
  /^(?:traceparent|tracestate|baggage|b3|x-b3-.*|sentry-trace|uber-trace-id|x-datadog-.*|x-amzn-trace-id|x-cloud-trace-context|x-(?:request|correlation)-id)$/i;

/** Whose sandboxes are made: of one server, by one key. By which means, and as part of what, says nothing of that. */
function whoOf(config: ConnectionConfig): string {
  const { apiUrl, requestHeaders, headers, requiredApiKey } = config;
  const who = Object.entries(requestHeaders).filter(([name]) => SAYS_WHO.test(name));
  const more = Object.entries(headers ?? {}).filter(([name]) => !SAYS_WHICH.test(name));
  const all = merged(Object.fromEntries(who), Object.fromEntries(more), { 'X-API-KEY': requiredApiKey });
  return canonical([apiUrl, lower(all)]);
}

/** Headers, however their names are written. */
function lower(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/**
 * The creates of all that send the same headers to one server by the same means: what was learnt of it is shared. Calls with one
 * intent are joined, and find what was lost before, wherever they are {@link whoOf} the same.
 */
export function createsOf(config: ConnectionConfig): Creates {
  const { apiUrl, sender, createOptions } = config;
  const headers = apiHeaders(config);
  const identity = canonical([apiUrl, lower(headers), createOptions]);
  const known = bySender.get(sender) ?? new Map<string, Creates>();
  bySender.set(sender, known);
  let creates = known.get(identity);
  if (creates === undefined) {
    creates = new Creates(sender.caller, requests(apiUrl, headers), createOptions, { shared, who: whoOf(config) });
    // The oldest is forgotten; what it has under way goes on.
    if (known.size >= IDENTITIES) known.delete(known.keys().next().value ?? '');
    known.set(identity, creates);
  }
  return creates;
}

/** How a client's creates go about it. */
export type { CreateOptions };

/** Makes a sandbox, or finds it; `undefined`: a resolved intent has none. */
export async function createOnce(
  config: ConnectionConfig,
  order: Pick<Order, 'intent' | 'resolve' | 'idempotencyKey' | 'body'>,
): Promise<Created | undefined> {
  const { signal, requestTimeoutMs, policy, log, background } = config;
  const options = { ...policy, requestTimeoutMs };
  try {
    return await createsOf(config).create({ ...order, signal, options, log, background });
  } catch (error) {
    throw endOf(withoutSent(error, order.body), order.resolve ? 'resolve the intent' : ACTION, config);
  }
}

/** Checks an intent: 32 lower-case hex digits. */
export function checkIntent(intent: unknown): string {
  if (typeof intent === 'string' && /^[0-9a-f]{32}$/.test(intent)) return intent;
  throw new InvalidArgumentError(`intent: ${JSON.stringify(intent)} is not made of 32 lower-case hex digits`);
}

function requests(apiUrl: string, headers: Record<string, string>): MakeRequest {
  return (operation, parts) => {
    const parameters = [...(parts.parameters ?? [])];
    const path = operation.path.replaceAll(/\{[^}]*\}/g, () => segment(parameters.shift() ?? ''));
    const json: Record<string, string> = parts.json === undefined ? {} : { 'Content-Type': 'application/json' };
    return {
      operation,
      url: `${apiUrl}${path}${query(parts.query ?? {})}`,
      headers: merged({ Accept: 'application/json' }, headers, json, parts.headers),
      body: parts.json === undefined ? undefined : JSON.stringify(parts.json),
      init: { redirect: 'manual' },
      read: 'whole',
    };
  };
}

/** What the end of a create becomes. */
function endOf(error: unknown, action: string, { signal, secrets }: ConnectionConfig): unknown {
  if (signal?.aborted) return signal.reason;
  const attempts = attemptsOf(error);
  const evidence: Evidence = { attempts, outcome: attempts.at(-1)?.outcome, cause: error };
  if (error instanceof IntentInUse) return new IntentMismatchError(`could not ${action}: ${error.message}`, evidence);
  if (error instanceof CreateUnknown) {
    const { intent, candidate, message } = error;
    const unknown = new OutcomeUnknownError(`could not ${action}: ${message}`, evidence);
    unknown.intent = intent;
    unknown.candidates = candidate === undefined ? [] : [candidate];
    return unknown;
  }
  if (!(error instanceof CreateNotDone)) return failed(action, error, signal);
  const { reason, status, retryAfter, answer, message } = error;
  const all: Evidence = { ...evidence, statusCode: status, retryAfter };
  if (reason === 'intent_mismatch') return new IntentMismatchError(`could not ${action}: ${message}`, all);
  const late = typeof reason === 'object' && ['deadline_passed', 'deadline_too_close'].includes(reason.returned);
  if (answer !== undefined && status !== undefined) {
    const { response, body } = answer;
    const said = words(new TextDecoder().decode(body), secrets);
    const refused = refusedWith(action, { status, headers: response.headers, response, attempts }, said, {
      notFound: SandboxNotFoundError,
    });
    refused.cause = error;
    if (retryAfter !== undefined) refused.retryAfter = retryAfter;
    return refused;
  }
  return new (late ? TimeoutError : NotDoneError)(`could not ${action}: ${message}`, all);
}
