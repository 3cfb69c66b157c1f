/** Names of options of what is done inside a sandbox. */

import { expect, test, vi } from 'vitest';
import { InvalidArgumentError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';

/** A sandbox whose daemon knows of nothing, the requests to it, and what its logger is warned of. */
function sandbox() {
  const requests: string[] = [];
  const warn = vi.fn();
  const fetch = async (input: Parameters<typeof globalThis.fetch>[0]): Promise<Response> => {
    requests.push(new URL(String(input)).pathname);
    return Response.json({});
  };
  const reached = { apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', apiKey: 'k', fetch };
  const made = new Sandbox({ ...reached, logger: { warn }, sandboxId: 'i1', envdVersion: '0.6.13' });
  return { made, requests, warn };
}

type Call = (made: Sandbox, opts: object) => Promise<unknown>;
const onData = () => {};

/** Each method that takes options, a wrong name, and the one that was meant. */
const WRONG: [string, Call, Record<string, unknown>, string][] = [
  ['files.read', ({ files }, o) => files.read('f', o), { stream_idle_timeout_ms: 1 }, 'streamIdleTimeoutMs'],
  ['files.write', ({ files }, o) => files.write('f', 'x', o), { useOctetstream: true }, 'useOctetStream'],
  ['files.writeFiles', ({ files }, o) => files.write([{ path: 'f', data: 'x' }], o as never), { gZip: true }, 'gzip'],
  ['files.upload', ({ files }, o) => files.upload(new Blob(['x']), 'f', o), { onprogress: onData }, 'onProgress'],
  ['files.download', ({ files }, o) => files.download('f', '/nowhere', o), { gzipp: true }, 'gzip'],
  ['files.uploadDir', ({ files }, o) => files.uploadDir('/nowhere', 'd', o), { excludes: [] }, 'exclude'],
  ['files.downloadDir', ({ files }, o) => files.downloadDir('d', '/nowhere', o), { includes: [] }, 'include'],
  ['files.list', ({ files }, o) => files.list('.', o), { depht: 2 }, 'depth'],
  ['files.makeDir', ({ files }, o) => files.makeDir('d', o), { requestTimeout: 5 }, 'requestTimeoutMs'],
  ['files.rename', ({ files }, o) => files.rename('a', 'b', o), { users: 'root' }, 'user'],
  ['files.remove', ({ files }, o) => files.remove('a', o), { request_timeout_ms: 5 }, 'requestTimeoutMs'],
  ['files.exists', ({ files }, o) => files.exists('a', o), { USER: 'root' }, 'user'],
  ['files.getInfo', ({ files }, o) => files.getInfo('a', o), { signals: undefined, Signal: 1 }, 'signal'],
  ['files.watchDir', ({ files }, o) => files.watchDir('.', onData, o), { recursiv: true }, 'recursive'],
  ['commands.list', ({ commands }, o) => commands.list(o), { requestTimoutMs: 5 }, 'requestTimeoutMs'],
  ['commands.run', ({ commands }, o) => commands.run('true', o), { timeout: 5 }, 'timeoutMs'],
  ['commands.run', ({ commands }, o) => commands.run('true', o), { env: {} }, 'envs'],
  ['commands.run', ({ commands }, o) => commands.run('true', o), { on_stdout: onData }, 'onStdout'],
  [
    'commands.sendStdin',
    ({ commands }, o) => commands.sendStdin(1, 'x', o),
    { requesttimeoutms: 5 },
    'requestTimeoutMs',
  ],
  ['commands.closeStdin', ({ commands }, o) => commands.closeStdin(1, o), { requesttimeoutms: 5 }, 'requestTimeoutMs'],
  ['commands.kill', ({ commands }, o) => commands.kill(1, o), { requesttimeoutms: 5 }, 'requestTimeoutMs'],
  ['commands.connect', ({ commands }, o) => commands.connect(1, o), { onStdErr: onData }, 'onStderr'],
  ['commands.attach', ({ commands }, o) => commands.attach('a', o), { offset: {} }, 'offsets'],
  ['commands.forget', ({ commands }, o) => commands.forget('a', o), { shel: [] }, 'shell'],
  ['pty.create', ({ pty }, o) => pty.create({ cols: 1, rows: 1, onData, ...o }), { timeout_ms: 5 }, 'timeoutMs'],
  ['pty.connect', ({ pty }, o) => pty.connect(1, { onData, ...o }), { ondata: 1 }, 'onData'],
  ['pty.sendInput', ({ pty }, o) => pty.sendInput(1, new Uint8Array(1), o), { Signal: 1 }, 'signal'],
  ['pty.resize', ({ pty }, o) => pty.resize(1, { cols: 1, rows: 1 }, o), { Signal: 1 }, 'signal'],
  ['pty.kill', ({ pty }, o) => pty.kill(1, o), { Signal: 1 }, 'signal'],
  ['git.clone', ({ git }, o) => git.clone('https://h/r', o), { pasword: 'x' }, 'password'],
  ['git.init', ({ git }, o) => git.init('r', o), { initial_branch: 'main' }, 'initialBranch'],
  ['git.remoteAdd', ({ git }, o) => git.remoteAdd('r', 'o', 'https://h/r', o), { overWrite: true }, 'overwrite'],
  ['git.remoteGet', ({ git }, o) => git.remoteGet('r', 'o', o), { CWD: '/' }, 'cwd'],
  ['git.status', ({ git }, o) => git.status('r', o), { CWD: '/' }, 'cwd'],
  ['git.branches', ({ git }, o) => git.branches('r', o), { CWD: '/' }, 'cwd'],
  ['git.createBranch', ({ git }, o) => git.createBranch('r', 'b', o), { CWD: '/' }, 'cwd'],
  ['git.checkoutBranch', ({ git }, o) => git.checkoutBranch('r', 'b', o), { CWD: '/' }, 'cwd'],
  ['git.deleteBranch', ({ git }, o) => git.deleteBranch('r', 'b', o), { Force: true }, 'force'],
  ['git.add', ({ git }, o) => git.add('r', o), { file: ['a'] }, 'files'],
  ['git.commit', ({ git }, o) => git.commit('r', 'm', o), { author_name: 'a' }, 'authorName'],
  ['git.reset', ({ git }, o) => git.reset('r', o), { Mode: 'hard' }, 'mode'],
  ['git.restore', ({ git }, o) => git.restore('r', { paths: ['.'], ...o }), { stagd: true }, 'staged'],
  ['git.push', ({ git }, o) => git.push('r', o), { set_upstream: true }, 'setUpstream'],
  ['git.pull', ({ git }, o) => git.pull('r', o), { remotes: 'o' }, 'remote'],
  ['git.setConfig', ({ git }, o) => git.setConfig('a.b', 'c', o), { scop: 'local' }, 'scope'],
  ['git.getConfig', ({ git }, o) => git.getConfig('a.b', o), { scop: 'local' }, 'scope'],
  ['git.configureUser', ({ git }, o) => git.configureUser('n', 'e', o), { scop: 'local' }, 'scope'],
  [
    'git.dangerouslyAuthenticate',
    ({ git }, o) => git.dangerouslyAuthenticate({ username: 'u', password: 'p', ...o }),
    { hosts: 'h' },
    'host',
  ],
];

test.each(WRONG)('%s refuses another spelling of its options', async (method, call, wrong, meant) => {
  const { made, requests } = sandbox();
  const error: unknown = await call(made, wrong).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidArgumentError);
  const name = Object.keys(wrong).find((each) => wrong[each] !== undefined);
  expect((error as Error).message).toBe(`${name}: ${method} has no such option; did you mean ${meant}?`);
  expect(requests).toEqual([]);
});

test('every method is in the table', () => {
  const { made } = sandbox();
  const tested = new Set(WRONG.map(([method]) => method));
  const without = ['supportsStdinClose', 'constructor'];
  for (const [of, object] of Object.entries({
    files: made.files,
    commands: made.commands,
    pty: made.pty,
    git: made.git,
  })) {
    const names = Object.getOwnPropertyNames(Object.getPrototypeOf(object));
    const own = names.filter((name) => !without.includes(name) && !PRIVATE.includes(name));
    expect(own.map((name) => `${of}.${name}`).filter((method) => !tested.has(method))).toEqual([]);
  }
});

/** Methods that are not the callers'. */
const PRIVATE = [
  ...['noting', 'checkNames', 'getter', 'call', 'tryCall', 'told'],
  ...['run', 'serverOf', 'remoteOf', 'currentBranch'],
];

test('an object that holds more goes on working; what nobody knows is told once to each logger', async () => {
  const { made, requests, warn } = sandbox();
  // Those of a connection, of another method, of the caller's own, and one that is not given.
  const whole = {
    apiKey: 'k',
    domain: 'd',
    retries: 3,
    depth: 1,
    cwd: '/',
    cmd: 'ls',
    colour: 'red',
    onStdOut: undefined,
  };
  await made.files.list('.', whole);
  await made.files.list('.', whole);
  await made.commands.list(whole as object);
  expect(requests).toHaveLength(3);
  expect(warn.mock.calls.flat()).toEqual([
    'files.list: there is no option "cmd", which does nothing',
    'files.list: there is no option "colour", which does nothing',
    'commands.list: there is no option "cmd", which does nothing',
    'commands.list: there is no option "colour", which does nothing',
  ]);
  const other = sandbox();
  await other.made.files.list('.', { colour: 'red' } as object);
  expect(other.warn).toHaveBeenCalledTimes(1);
});

test.each([[null], ['root'], [[]], [5]])('options that are %j are refused', async (options) => {
  const { made, requests } = sandbox();
  await expect(made.files.list('.', options as never)).rejects.toThrow(
    /^files\.list: its options are .*, which is no object$/,
  );
  await expect(made.commands.run('true', options as never)).rejects.toBeInstanceOf(InvalidArgumentError);
  expect(requests).toEqual([]);
});

test.each(['json', 'toString', 5])('a format that is %j is refused before anything is read', async (format) => {
  const { made, requests } = sandbox();
  await expect(made.files.read('f', { format } as never)).rejects.toThrow(/^format: .* is none of text, bytes/);
  expect(requests).toEqual([]);
});
