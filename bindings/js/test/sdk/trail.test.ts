/** What an error says of the requests that a call was made of, and what errors are no part of it. */

import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import type { Attempt } from '../../src/retry.ts';
import { NotDoneError, OnceboxError, OutcomeUnknownError, SandboxNotRunningError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { Template } from '../../src/sdk/template/template.ts';
import { Trail, through } from '../../src/sdk/trail.ts';

const times = { number: 1, purpose: 'call', started: 0, ended: 0.1 } as const;
const verdict = { kind: 'return', reason: 'status_final' } as const;
const refused = { kind: 'not_sent', phase: 'connect', touchedSocket: false, detail: '' } as const;
const answered = (status: number): Attempt[] => [
  { ...times, outcome: { kind: 'responded', status }, verdict } as unknown as Attempt,
];
const unsent = (): Attempt[] => [{ ...times, outcome: refused, verdict } as unknown as Attempt];

/** Another call's error, and how it is told. */
function foreign(): { error: OnceboxError; told: string } {
  const error = new NotDoneError('could not do that; it was certainly not done', {
    attempts: unsent(),
    outcome: refused,
  });
  return { error, told: inspect(error) };
}

test('an error of another call that is thrown in one of several requests stays as it is', () => {
  const trail = new Trail();
  trail.note(performance.now(), answered(200), false);
  const { error, told } = foreign();
  expect(trail.tell(error, 'a part was done')).toBe(error);
  expect(inspect(error)).toBe(told);
});

test('an error of another call of several requests stays as it is', async () => {
  const trail = new Trail();
  trail.note(performance.now(), answered(200), false);
  const [first, last] = [answered(200), unsent()];
  const other = new Trail();
  other.note(performance.now(), first, false);
  other.note(performance.now(), last, false);
  const error = other.tell(new NotDoneError('it was certainly not done', { attempts: last }), 'a part') as OnceboxError;
  expect(error).toBeInstanceOf(OutcomeUnknownError);
  const told = inspect(error);
  expect(trail.tell(error, 'a part was done')).toBe(error);
  expect(inspect(error)).toBe(told);
});

test("an error of a part of the call is the call's own, and so is one without attempts", async () => {
  const outer = new Trail();
  const [first, last] = [answered(200), unsent()];
  outer.note(performance.now(), first, false);
  const by = { noting: (trail: Trail) => trail.within(outer) };
  const part = through<Trail, never>(by, async (trail) => {
    trail.note(performance.now(), last, false);
    throw new NotDoneError('could not; it was certainly not done', { attempts: last });
  });
  const error: unknown = await part.catch((thrown: unknown) => outer.tell(thrown, 'a part was done'));
  expect(error).toBeInstanceOf(OutcomeUnknownError);
  expect((error as OnceboxError).attempts).toHaveLength(2);
  const bare = new OnceboxError('the build failed');
  expect((outer.tell(bare, 'a part was done') as OnceboxError).attempts).toHaveLength(2);
});

test('an attempt that is kept of many has the number that it had', () => {
  const trail = new Trail();
  const failed = unsent();
  for (let at = 0; at < 3; at++) trail.note(performance.now(), unsent(), false);
  trail.note(performance.now(), answered(200), false);
  for (let at = 0; at < 99; at++) trail.note(performance.now(), unsent(), false);
  trail.note(performance.now(), failed, false);
  const error = trail.tell(new NotDoneError('not done', { attempts: failed }), 'a part was done') as OnceboxError;
  const numbers = error.attempts.map(({ number }) => number);
  expect(numbers).toEqual([4, ...Array.from({ length: 63 }, (_, at) => 42 + at)]);
});

/** Answers every request of a build, and of a sandbox. */
const fetch = (async (input: unknown) => {
  const path = new URL(String(input)).pathname;
  if (path.endsWith('/v3/templates')) return Response.json({ templateID: 't', buildID: 'b' });
  if (path.endsWith('/status')) return Response.json({ status: 'building', logEntries: [{ message: 'step' }] });
  return Response.json({});
}) as typeof globalThis.fetch;
const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };

test('an error of another call that onBuildLogs throws is thrown as it is', async () => {
  const { error, told } = foreign();
  const onBuildLogs = ({ message }: { message: string }) => {
    if (message === 'step') throw error;
  };
  const thrown = await Template.build(Template(), 'mine', { ...opts, onBuildLogs }).catch((each: unknown) => each);
  expect(thrown).toBe(error);
  expect(inspect(error)).toBe(told);
});

test.each([
  ['with attempts', () => foreign().error],
  ['without attempts', () => new OnceboxError('the caller goes')],
  ['that reads as the end of a sandbox', () => new SandboxNotRunningError('another sandbox is gone')],
])("an abort's reason is thrown as it is, where it is an error %s", async (_, reasonOf) => {
  const data = new Uint8Array(1 << 20);
  const calls: ((signal: AbortSignal) => Promise<unknown>)[] = [
    (signal) => Template.build(Template(), 'mine', { ...opts, fetch: aborting(2), signal }),
    (signal) =>
      new Sandbox({ ...opts, fetch: aborting(2), sandboxId: 'i1', envdVersion: '1.0.0' }).commands.sendStdin(7, data, {
        signal,
      }),
  ];
  let control = new AbortController();
  let reason = reasonOf();
  /** Aborts while it answers one of the requests. */
  function aborting(at: number): typeof globalThis.fetch {
    let count = 0;
    return (async (input: RequestInfo | URL, init?: RequestInit) => {
      count += 1;
      if (count === at) control.abort(reason);
      init?.signal?.throwIfAborted();
      return fetch(input, init);
    }) as typeof globalThis.fetch;
  }
  for (const call of calls) {
    [control, reason] = [new AbortController(), reasonOf()];
    const told = inspect(reason);
    const thrown = await call(control.signal).catch((each: unknown) => each);
    expect(thrown).toBe(reason);
    expect(inspect(reason)).toBe(told);
  }
});
