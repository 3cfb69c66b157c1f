/** Calls that are made of several requests: an error of a later one tells what an earlier one may have done. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mayHaveBeenProcessed } from '../../src/retry.ts';
import { toBase64 } from '../../src/sdk/envd/base64.ts';
import { pack } from '../../src/sdk/envd/envelope.ts';
import {
  AuthenticationError,
  ConnectionLostError,
  InvalidArgumentError,
  NotDoneError,
  NotFoundError,
  OnceboxError,
  OutcomeUnknownError,
  SandboxNotRunningError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { Template } from '../../src/sdk/template/template.ts';

const MIB = 1 << 20;

/** What a request is answered with; `refused`: nobody listens; `lost`: the connection is lost behind it. */
type Turn = 'refused' | 'lost' | (() => Response);

const ok =
  (json: unknown = {}) =>
  () =>
    Response.json(json);
const status =
  (code: number, json: unknown = { message: 'no' }) =>
  () =>
    Response.json(json, { status: code });

/** Events of a process, as a stream that ends without an end where none is among them. */
const stream =
  (...events: object[]) =>
  () => {
    const all = [{ start: { pid: 7 } }, ...events].map((event) => pack({ event }));
    return new Response(new Blob(all), { headers: { 'content-type': 'application/connect+json' } });
  };
const says = (text: string) => ({ data: { stdout: toBase64(new TextEncoder().encode(text)) } });
const exit = { end: { exitCode: 0, exited: true, status: 'exit status 0' } };

/** Answers by what is asked, in order, the last turn for ever; what has no turns is answered by nothing. */
function scripted(given: Record<string, Turn[]>) {
  const turns: Record<string, Turn[]> = { '/health': [ok()], ...given };
  const asked: string[] = [];
  const fetch = async (input: RequestInfo | URL): Promise<Response> => {
    const path = new URL(String(input instanceof Request ? input.url : input)).pathname;
    const name = Object.keys(turns).find((each) => path.endsWith(each)) ?? path;
    const all = turns[name] ?? [];
    const turn = all[Math.min(asked.filter((each) => each === name).length, all.length - 1)] ?? status(404);
    asked.push(name);
    if (typeof turn === 'function') return turn();
    const code = turn === 'refused' ? 'ECONNREFUSED' : 'ECONNRESET';
    throw Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error(code), { code }) });
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };
  return { asked, opts, sandbox: new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '0.6.13' }) };
}

const failure = async (call: Promise<unknown>): Promise<OnceboxError> => {
  const error: unknown = await call.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(OnceboxError);
  return error as OnceboxError;
};

/** Nothing of it says that nothing was done. */
function expectBegun(error: OnceboxError, words?: RegExp): void {
  expect(error).not.toBeInstanceOf(NotDoneError);
  expect(String(error)).not.toMatch(/certainly not done/);
  expect(mayHaveBeenProcessed(error.attempts)).toBe(true);
  expect(error.outcome?.kind).not.toBe('not_sent');
  expect(error.attempts.map(({ number }) => number)).toEqual(error.attempts.map((_, at) => at + 1));
  if (words !== undefined) expect(String(error)).toMatch(words);
}

describe('input that goes in several messages', () => {
  const data = new Uint8Array(MIB);

  test('is not told as not written where a part of it was', async () => {
    const { sandbox, asked } = scripted({ SendInput: [ok(), 'refused'] });
    const error = await failure(sandbox.commands.sendStdin(7, data));
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expectBegun(error, /524288 of 1048576 bytes/);
    expect(error.attempts.map(({ outcome }) => outcome.kind)).toEqual(['responded', 'not_sent']);
    expect(asked.filter((each) => each === 'SendInput')).toHaveLength(2);
    expectBegun(await failure(scripted({ SendInput: [ok(), 'refused'] }).sandbox.pty.sendInput(7, data)));
  });

  test('keeps the class of what a server said, and tells of the part', async () => {
    const busy = await failure(scripted({ SendInput: [ok(), status(503)] }).sandbox.commands.sendStdin(7, data));
    expectBegun(busy, /524288 of 1048576 bytes/);
    const gone = scripted({ SendInput: [ok(), status(404, { code: 'not_found' })] });
    const error = await failure(gone.sandbox.commands.sendStdin(7, data));
    expect(error).toBeInstanceOf(NotFoundError);
    expectBegun(error);
  });

  test('is not done where nothing of it was', async () => {
    for (const bytes of [data, new Uint8Array(1)]) {
      const error = await failure(scripted({ SendInput: ['refused'] }).sandbox.commands.sendStdin(7, bytes));
      expect(error).toBeInstanceOf(NotDoneError);
      expect(mayHaveBeenProcessed(error.attempts)).toBe(false);
    }
  });
});

test('a start whose answer was cut is not told as if only its process had been looked for', async () => {
  const cut = () => new Response(new Blob([]), { headers: { 'content-type': 'application/connect+json' } });
  const List = [status(502, { message: 'The sandbox was not found' })];
  const error = await failure(scripted({ Start: [cut], List }).sandbox.commands.run('true'));
  expect(error).toBeInstanceOf(SandboxNotRunningError);
  expectBegun(error);
});

describe('a durable command', () => {
  const hello = stream(says('h 1 0\n'));
  const handle = async (turns: Record<string, Turn[]>) => {
    const { Start = [], ...more } = turns;
    const { sandbox, asked } = scripted({ ...more, Start: [hello, ...Start] });
    const command = await sandbox.commands.run('cat', {
      durable: true,
      background: true,
      stdin: true,
      reattachments: 1,
    });
    // What it is followed by is not what is looked at here.
    await command.disconnect();
    return { command, asked };
  };

  test("whose input's limit of time is none is refused, and one of weeks is none that is over at once", async () => {
    const Start = [stream(says('f\n'), exit)];
    const { command, asked } = await handle({ Start, SendInput: [ok()], CloseStdin: [ok()] });
    const starts = () => asked.filter((each) => each === 'Start').length;
    const before = starts();
    for (const requestTimeoutMs of [Number.NaN, -1, Number.POSITIVE_INFINITY]) {
      for (const call of [
        () => command.sendStdin('a', { requestTimeoutMs }),
        () => command.closeStdin({ requestTimeoutMs }),
      ]) {
        const error: unknown = await call().catch((thrown: unknown) => thrown);
        expect(error, `${requestTimeoutMs}`).toBeInstanceOf(InvalidArgumentError);
        expect(String(error)).toMatch(/requestTimeoutMs/);
      }
    }
    expect(starts()).toBe(before);
    await command.sendStdin('a', { requestTimeoutMs: 3e9 });
    await command.closeStdin({ requestTimeoutMs: 3e9 });
    expect(starts()).toBe(before + 2);
  });

  test('whose start may have arrived is not told as not started', async () => {
    for (const first of ['lost', stream(), status(502)] as Turn[]) {
      const { sandbox } = scripted({ Start: [first, 'refused'] });
      const error = await failure(sandbox.commands.run('true', { durable: true, reattachments: 1 }));
      expect(error).toBeInstanceOf(ConnectionLostError);
      expectBegun(error);
    }
    const { sandbox } = scripted({ Start: ['refused'] });
    const error = await failure(sandbox.commands.run('true', { durable: true, reattachments: 1 }));
    expect(error).toBeInstanceOf(NotDoneError);
    expect(mayHaveBeenProcessed(error.attempts)).toBe(false);
  });

  test('that was sent a signal, or forgotten, by a call that was lost is not told as left alone', async () => {
    const { command } = await handle({ Start: [stream(), 'refused'] });
    expectBegun(await failure(command.kill()));
    const { sandbox } = scripted({ Start: ['lost', 'refused'] });
    expectBegun(await failure(sandbox.commands.forget('x', { reattachments: 1 } as never)));
    const nothing = scripted({ Start: ['refused'] });
    expect(await failure(nothing.sandbox.commands.forget('x', { reattachments: 1 } as never))).toBeInstanceOf(
      NotDoneError,
    );
  });

  test('that got a part of its input is not told as having got none', async () => {
    const fed = stream(says('f\n'), exit);
    const ends = { SendInput: [ok()], CloseStdin: [ok()] };
    const { command } = await handle({ ...ends, Start: [fed, 'refused'] });
    expectBegun(await failure(command.sendStdin(new Uint8Array(2 * MIB))), /1048576 of 2097152 bytes/);
    // It is there, and only whether it was read cannot be asked.
    const waiting = await handle({ ...ends, Start: [stream(says('w\n'), exit), 'refused'] });
    expectBegun(await failure(waiting.command.sendStdin('x')), /1 of 1 bytes/);
  });
});

describe('files', () => {
  const written = (path: string) => ok([{ name: path, path: `/home/user/${path}`, type: 'file' }]);

  test('whose size cannot be asked for are not told as not written', async () => {
    const { sandbox } = scripted({ '/files': [written('f')], Stat: ['refused'] });
    const error = await failure(sandbox.files.write('f', 'x'));
    expectBegun(error);
    expect(error.attempts.map(({ purpose }) => purpose)).toEqual(['call', 'look_up']);
    expect(await failure(scripted({ Stat: ['refused'] }).sandbox.files.getInfo('f'))).toBeInstanceOf(NotDoneError);
  });

  test('of which some were written are not told as none', async () => {
    const files = Array.from({ length: 2 }, (_, at) => ({ path: `f${at}`, data: new Uint8Array(10 * MIB) }));
    const { sandbox } = scripted({ '/files': [written('f0'), 'refused'] });
    expectBegun(await failure(sandbox.files.write(files, { verify: false })));
  });

  test('of an upload that was sent again are not told as not written', async () => {
    const { sandbox } = scripted({ '/files': ['lost', status(400)] });
    expectBegun(await failure(sandbox.files.upload(new Blob(['x']), 'f')));
  });

  test('that go in parts are begun with their first part', async () => {
    const entry = { name: 'f', path: '/home/user/f', type: 'FILE_TYPE_FILE', size: String(16 * MIB) };
    const joined = [status(400), 'refused'] satisfies Turn[];
    const turns = { '/files': [written('f')], Stat: [ok({ entry })], Remove: [ok()] };
    const blob = new Blob([new Uint8Array(16 * MIB), 'x']);
    const sized = (size: number) => ok({ entry: { ...entry, size: String(size) } });
    const stats = [sized(16 * MIB), sized(1)];
    const { sandbox } = scripted({ ...turns, Stat: stats, '/files/compose': joined });
    expectBegun(await failure(sandbox.files.upload(blob, 'f')));
    // What is asked beforehand, and what clears away, is no part of it.
    const none = scripted({ ...turns, '/files': [status(401)], '/files/compose': joined });
    const error = await failure(none.sandbox.files.upload(blob, 'f'));
    expect(error.attempts).toHaveLength(1);
  });

  describe('of a directory', () => {
    let folder = '';
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'oncebox-begun-'));
      await writeFile(join(folder, 'large'), new Uint8Array(2 * MIB));
      await writeFile(join(folder, 'small'), 'x');
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));

    test('of which some were carried over are not told as none', async () => {
      const entry = { name: 'large', path: '/home/user/large', type: 'FILE_TYPE_FILE', size: String(2 * MIB) };
      const { sandbox } = scripted({ '/files': [written('large'), status(401)], Stat: [ok({ entry })] });
      const error = await failure(sandbox.files.uploadDir(folder, 'd', { signal: AbortSignal.timeout(20_000) }));
      expect(error).toBeInstanceOf(AuthenticationError);
      expectBegun(error);
    });
  });
});

test('a git that was started and got no credentials is not told as not started', async () => {
  const { sandbox } = scripted({ Start: [stream()], SendInput: ['refused'], SendSignal: [ok()] });
  const clone = sandbox.git.clone('https://h/a', { username: 'me', password: 'hunter2' });
  expectBegun(await failure(clone));
});

test('a git step behind another one is not told as if nothing was done', async () => {
  const { sandbox } = scripted({ Start: [stream(exit), 'refused'] });
  expectBegun(await failure(sandbox.git.configureUser('me', 'me@h')));
  const authenticate = { username: 'me', password: 'hunter2' };
  expectBegun(
    await failure(scripted({ Start: [stream(exit), 'refused'] }).sandbox.git.dangerouslyAuthenticate(authenticate)),
  );
});

describe('a template', () => {
  const made = ok({ templateID: 't1', buildID: 'b1' });

  test('that was made is not told as not made where its build cannot be begun, or followed', async () => {
    const first = scripted({ '/v3/templates': [made], '/builds/b1': ['refused'] });
    expectBegun(await failure(Template.build(Template(), 'name', first.opts)));
    const none = scripted({ '/v3/templates': ['refused'] });
    expect(await failure(Template.build(Template(), 'name', none.opts))).toBeInstanceOf(NotDoneError);
    const late = scripted({ '/v3/templates': [made], '/builds/b1': [ok()], '/status': [status(401)] });
    expectBegun(await failure(Template.build(Template(), 'name', late.opts)));
  });
});

test('a limit of time that was over before the rest was sent does not say that nothing was done', async () => {
  const { opts } = scripted({ SendInput: [ok(), 'refused'] });
  let now = 0;
  const sleep = async (ms: number) => {
    now += ms;
  };
  const patient = { ...opts, connectionRetries: 100, requestTimeoutMs: 1000, now: () => now, sleep };
  const { commands } = new Sandbox({ ...patient, sandboxId: 'i1', envdVersion: '0.6.13' });
  expectBegun(await failure(commands.sendStdin(7, new Uint8Array(MIB))), /524288 of 1048576 bytes/);
});
