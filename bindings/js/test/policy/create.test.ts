/** Runs conformance/create on the WebAssembly module. The schema is in conformance/README.md. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  CREATE_RULES,
  type CreateInput,
  HOWS,
  type ListedSandbox,
  NOT_DONE_REASONS,
  UNKNOWN_REASONS,
} from '../../src/policy/create-types.ts';
import { BUDGET_CAPACITY, type Engine, loadEngine } from '../../src/policy/engine.ts';
import type { Ended } from '../../src/policy/types.ts';
import { camel, type Json, load, only, tally } from './vectors.ts';

/** How far two times may be apart that are meant to be equal: they are sums of floating numbers. */
const TOLERANCE = 1e-6;

const vectors = load<Json>('create', 'vectors');
const ran = tally('create');
const seen = new Set<string>();
let engine: Engine;

beforeAll(async () => {
  engine = await loadEngine();
});

test.each(vectors)('%s', (_, vector) => {
  only(vector, 'name', 'why', 'call', 'steps', 'after');
  const setup = vector.call;
  only(setup, 'mode', 'intent', 'idempotency_key', 'began', 'options', 'policy', 'server', 'earlier_loss', 'budget');
  const options = { request_timeout: 60, idempotency_keys: 'auto', settle: 10, cleanup_timeout: 30, ...setup.options };
  only(options, 'request_timeout', 'idempotency_keys', 'settle', 'cleanup_timeout');
  const policy: Json = { ...engine.preset('default') };
  for (const [name, value] of Object.entries(setup.policy ?? {})) policy[camel(name)] = value;
  const create = engine.create({
    mode: setup.mode ?? 'new',
    intent: setup.intent,
    policy,
    requestTimeout: options.request_timeout ?? undefined,
    idempotencyKeys: options.idempotency_keys,
    settle: options.settle,
    cleanupTimeout: options.cleanup_timeout,
    idempotencyKey: setup.idempotency_key ?? undefined,
    began: setup.began,
    server: { keys: setup.server?.keys ?? undefined, version: setup.server?.version ?? undefined },
    earlierLoss: setup.earlier_loss ?? undefined,
  });
  const budget = setup.budget === undefined ? undefined : engine.budget(Math.min(setup.budget, BUDGET_CAPACITY));
  for (const step of vector.steps) {
    only(step, 'at', 'random', 'input', 'expect');
    const turn = { now: step.at, random: step.random ?? 0, callStarted: 0 };
    const { action, rule } = create.step(readInput(step.input), turn, budget);
    const [[kind, fields]] = Object.entries(
      typeof step.expect.action === 'string' ? { [step.expect.action]: {} } : step.expect.action,
    ) as [[string, Json]];
    expect(equal({ action, rule }, { action: { kind, ...camelFields(fields) }, rule: step.expect.rule })).toBe('');
    seen.add(`rule ${rule}`).add(`${kind} ${fields.how ?? fields.reason}`);
  }
  const { after = {} } = vector;
  only(after, 'server', 'used', 'sends', 'lost_for', 'history', 'budget');
  const { sends, server, ledger } = create.state();
  if (after.server) expect({ keys: server.keys ?? null, version: server.version ?? null }).toEqual(after.server);
  if (after.used) {
    const { retries, connectionRetries, lookups } = ledger;
    expect({ retries, connection_retries: connectionRetries, lookups }).toEqual(after.used);
  }
  if (after.sends !== undefined) expect(sends).toBe(after.sends);
  if (after.lost_for !== undefined) expect(create.lostFor(vector.steps.at(-1).at)).toBeCloseTo(after.lost_for, 6);
  if (after.history) {
    expect(ledger.records.map(({ purpose, verdict }) => [purpose, verdict.kind])).toEqual(after.history);
  }
  if (after.budget !== undefined) expect(budget?.available(vector.steps.at(-1).at)).toBe(after.budget);
  create.free();
  budget?.free();
  ran();
});

test('what is no intent is refused', () => {
  const call = {
    mode: 'new' as const,
    policy: engine.preset('default'),
    requestTimeout: 60,
    idempotencyKeys: 'auto' as const,
    settle: 10,
    cleanupTimeout: 30,
    idempotencyKey: undefined,
    began: 0,
    server: { keys: undefined, version: undefined },
  };
  for (const intent of ['', 'ABABABABABABABABABABABABABABABAB', `${'0'.repeat(31)}g`, '0'.repeat(33)]) {
    expect(() => engine.create({ ...call, intent })).toThrow('is not 32 lower-case hex digits');
  }
});

afterAll(() => {
  expect(CREATE_RULES.filter((name) => !seen.has(`rule ${name}`))).toEqual([]);
  expect(HOWS.filter((name) => !seen.has(`done ${name}`))).toEqual([]);
  expect(NOT_DONE_REASONS.filter((name) => !seen.has(`not_done ${name}`))).toEqual([]);
  expect(UNKNOWN_REASONS.filter((name) => !seen.has(`unknown ${name}`))).toEqual([]);
});

function camelFields(fields: Json): Json {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [camel(name), value ?? undefined]));
}

function readInput(given: Json): CreateInput {
  if (typeof given === 'string') return { kind: given as 'continue' | 'adopted' | 'adopt_gone' };
  const [[kind, fields]] = Object.entries(given) as [[string, Json]];
  const failure = { status: fields.status ?? undefined, retryAfter: fields.retry_after, date: fields.date };
  switch (kind) {
    case 'answered':
      only(fields, 'outcome', 'error', 'sandbox', 'date', 'other_connection', 'failed_dials');
      return {
        kind,
        outcome: readOutcome(fields.outcome),
        otherConnection: fields.other_connection,
        failedDials: fields.failed_dials,
        error: fields.error && { errorCode: fields.error.error_code, message: fields.error.message ?? '' },
        sandbox: fields.sandbox,
        date: fields.date,
      };
    case 'probed':
      return { kind, status: failure.status, date: failure.date };
    case 'listed':
      return { kind, complete: fields.complete, sandboxes: fields.sandboxes.map(readListed), date: fields.date };
    case 'list_failed':
    case 'adopt_failed':
      only(fields, 'status', 'retry_after', 'date');
      return { kind, ...failure };
    case 'killed':
      return { kind, left: fields.left, retryAfter: fields.retry_after };
    case 'abandoned':
      return { kind, sent: fields.sent };
    default:
      throw new Error(`no input ${kind}`);
  }
}

function readListed(given: Json): ListedSandbox {
  only(given, 'id', 'started_at', 'paused', 'intent');
  const intent = given.intent === 'no_metadata' ? null : given.intent === 'none' ? undefined : given.intent.value;
  return { id: given.id, startedAt: given.started_at, paused: given.paused ?? false, intent };
}

function readOutcome(given: Json): Ended {
  const [[kind, fields]] = Object.entries(given) as [[string, Json]];
  switch (kind) {
    case 'responded':
      only(fields, 'status', 'retry_after', 'should_retry', 'body');
      return {
        kind,
        status: fields.status,
        retryAfter: fields.retry_after,
        shouldRetry: fields.should_retry,
        broken: fields.body === 'broken',
      };
    case 'not_sent':
      return { kind, phase: fields.phase, touchedSocket: fields.touched_socket ?? false, detail: '' };
    case 'refused':
      return { kind, streamId: fields.refused_stream.stream_id };
    case 'sent_unknown':
      return { kind, cause: fields.cause, detail: '' };
    case 'cancelled':
    case 'timed_out':
      return { kind, sent: fields.sent };
    default:
      throw new Error(`no outcome ${kind}`);
  }
}

/** Where two values differ; empty where they do not. */
function equal(got: Json, expected: Json): string {
  if (typeof got === 'number' && typeof expected === 'number') {
    return Math.abs(got - expected) < TOLERANCE ? '' : `${got} is not ${expected}`;
  }
  if (typeof got === 'object' && typeof expected === 'object' && got !== null && expected !== null) {
    const names = new Set([...Object.keys(got), ...Object.keys(expected)]);
    return [...names]
      .map((name) => [name, equal(got[name], expected[name])])
      .filter(([, difference]) => difference !== '')
      .map(([name, difference]) => `${name}: ${difference}`)
      .join('; ');
  }
  return Object.is(got, expected) ? '' : `${got} is not ${JSON.stringify(expected)}`;
}
