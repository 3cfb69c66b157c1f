/** Runs conformance/policy on the WebAssembly module. The schema is in conformance/README.md. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Engine, type Judged, loadEngine } from '../../src/policy/engine.ts';
import {
  type CallFacts,
  CONNECTIONS,
  type Ended,
  type Policy,
  RETRY_REASONS,
  RETURN_REASONS,
  RULES,
  WAIT_REASONS,
} from '../../src/policy/types.ts';
import { camel, type Json, load, only, tally } from './vectors.ts';

/** Waits are equal when they differ by less than this many milliseconds. */
const ROUNDING_MS = 0.001;

const CLOCK = 1_764_460_800;
const vectors = load<Json>('policy', 'vectors');
const ran = tally('policy');
const seen = new Set<string>();
let engine: Engine;

beforeAll(async () => {
  engine = await loadEngine();
});

test.each(vectors)('%s', (_, vector) => {
  only(vector, 'name', 'why', 'policy', 'call', 'clock', 'budget', 'steps');
  const clock = vector.clock ?? CLOCK;
  const budget = vector.budget === undefined ? undefined : engine.budget(vector.budget);
  const facts = readFacts(vector.call ?? {});
  const call = engine.call(readPolicy(vector.policy ?? {}), facts);
  let { body } = facts;
  for (const step of vector.steps) {
    only(
      step,
      ...['at', 'random', 'expect', 'attempt', 'other_connection', 'failed_dials', 'body', 'resend'],
      ...['start_look_up', 'look_up', 'adopted'],
    );
    const turn = { now: step.at, random: step.random ?? 0.5, callStarted: 0 };
    const now = Math.floor(clock + step.at);
    body = step.body ?? body;
    let judged: Judged = { verdict: undefined, rule: undefined };
    if (step.attempt !== undefined) {
      const { other_connection: otherConnection, failed_dials: failedDials } = step;
      const attempt = { started: 0, outcome: readEnded(step.attempt, now), otherConnection, failedDials };
      judged = call.judge(attempt, body, turn, budget);
    } else if (step.resend) judged = call.resend(turn, budget);
    else if (step.start_look_up) judged = call.startLookUp(turn);
    else if (step.look_up !== undefined) {
      judged = call.lookUp('look_up', { started: 0, outcome: readEnded(step.look_up, now) }, turn);
    } else if (step.adopted) call.adopted(turn, budget);
    else throw new Error('a step does exactly one thing');
    compare(judged, step.expect);
    const { retries, connectionRetries, freeRepeats, backoffs, lookups } = call.ledger();
    const counters = { retries: 0, connection_retries: 0, free_repeats: 0, backoffs: 0, lookups: 0 };
    expect({ retries, connection_retries: connectionRetries, free_repeats: freeRepeats, backoffs, lookups }).toEqual({
      ...counters,
      ...step.expect.counters,
    });
    if (step.expect.tokens !== undefined) expect(budget?.available(step.at)).toBe(step.expect.tokens);
  }
  call.free();
  budget?.free();
  ran();
});

afterAll(() => {
  // Each name crosses from Rust to JavaScript by its place in a list: one that no vector expects could be in the wrong one.
  expect(RETURN_REASONS.filter((name) => !seen.has(`return ${name}`))).toEqual([]);
  expect(RETRY_REASONS.filter((name) => !seen.has(`retry ${name}`))).toEqual([]);
  expect(WAIT_REASONS.filter((name) => !seen.has(`wait ${name}`))).toEqual([]);
  expect(CONNECTIONS.filter((name) => !seen.has(`connection ${name}`))).toEqual([]);
  // Rule 9 ends no decision.
  expect(RULES.filter((name) => name !== 'wait' && !seen.has(`rule ${name}`))).toEqual([]);
});

function readPolicy(given: Json): Policy {
  const { preset = 'default', ...over } = given;
  const policy: Json = { ...engine.preset(preset) };
  for (const [name, value] of Object.entries(over)) {
    if (!(camel(name) in policy)) throw new Error(`no option ${name}`);
    policy[camel(name)] = value;
  }
  return policy;
}

function readFacts(given: Json): CallFacts {
  only(given, 'permit', 'mints', 'reconciles', 'body', 'deadline', 'parent_deadline');
  const deadline = given.deadline === undefined ? 60 : (given.deadline ?? undefined);
  return {
    permit: given.permit ?? undefined,
    mints: given.mints ?? false,
    reconciles: given.reconciles ?? false,
    body: given.body ?? 'none',
    deadline,
    parentDeadline: given.parent_deadline ?? undefined,
  };
}

function readEnded(given: Json, now: number): Ended {
  if (given.status !== undefined) {
    only(given, 'status', 'headers', 'body', 'edge', 'paced');
    // Not `Headers`, which takes no text beyond Latin-1: a vector's value is what a lenient peer might hand on.
    const headers = new Map(
      Object.entries<string>(given.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const header = (name: string) => headers.get(name) ?? null;
    return {
      kind: 'responded',
      status: given.status,
      retryAfter: engine.retryAfter(header('retry-after'), header('date'), now),
      shouldRetry: engine.shouldRetry(header('should-retry')),
      broken: given.body === 'broken',
      edge: given.edge ?? undefined,
      paced: given.paced ?? false,
    };
  }
  only(given, 'not_sent', 'touched_socket', 'goaway', 'reset', 'sent_unknown', 'cancelled', 'timed_out');
  if (given.not_sent !== undefined) {
    return { kind: 'not_sent', phase: given.not_sent, touchedSocket: given.touched_socket ?? false, detail: '' };
  }
  if (given.goaway !== undefined) {
    const { stream_id: streamId, last_stream_id: lastStreamId, code } = given.goaway;
    return { kind: 'goaway', streamId, lastStreamId, code, debugData: '' };
  }
  if (given.reset !== undefined) {
    const { stream_id: streamId, code, response_began: responseBegan } = given.reset;
    return { kind: 'reset', streamId, code, responseBegan };
  }
  if (given.sent_unknown !== undefined) return { kind: 'sent_unknown', cause: given.sent_unknown, detail: '' };
  if (given.cancelled !== undefined) return { kind: 'cancelled', sent: given.cancelled === 'after_sent' };
  return { kind: 'timed_out', sent: given.timed_out === 'after_sent' };
}

function compare({ verdict, rule }: Judged, expected: Json): void {
  only(expected, 'return', 'retry', 'reconcile', 'go', 'retry_after', 'rule', 'counters', 'tokens');
  expect(rule).toBe(expected.rule);
  seen.add(`rule ${rule}`);
  if (expected.go) expect(verdict).toBeUndefined();
  else if (expected.reconcile) expect(verdict).toEqual({ kind: 'reconcile' });
  else if (expected.return !== undefined) {
    seen.add(`return ${expected.return}`);
    expect(verdict).toEqual({ kind: 'return', reason: expected.return, retryAfter: expected.retry_after });
  } else {
    const { after_ms: afterMs, ...rest } = expected.retry;
    seen.add(`retry ${rest.reason}`).add(`wait ${rest.wait}`).add(`connection ${rest.connection}`);
    expect(verdict).toMatchObject({ kind: 'retry', ...rest });
    if (verdict?.kind !== 'retry') throw new Error('no retry');
    expect(Math.abs(verdict.after * 1000 - afterMs)).toBeLessThan(ROUNDING_MS);
  }
}
