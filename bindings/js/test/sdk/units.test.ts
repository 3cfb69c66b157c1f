/** What needs no server. */

import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { E2B, Sandbox, Template, Volume } from '../../src/index.ts';
import { shown, shownText } from '../../src/retry/log.ts';
import type { CommandEvent } from '../../src/sdk/commands/events.ts';
import { Feeds } from '../../src/sdk/commands/feeds.ts';
import { waitBefore } from '../../src/sdk/commands/follow.ts';
import { CommandHandle } from '../../src/sdk/commands/handle.ts';
import { ConnectionConfig } from '../../src/sdk/config.ts';
import { hidden } from '../../src/sdk/endpoints.ts';
import { fromBase64, toBase64 } from '../../src/sdk/envd/base64.ts';
import { EnvelopeError, MAX_MESSAGE, pack, Unpacker } from '../../src/sdk/envd/envelope.ts';
import * as errors from '../../src/sdk/errors.ts';
import { InvalidArgumentError, OnceboxError, SandboxError, TimeoutError } from '../../src/sdk/errors.ts';
import { contentRange, validatorOf } from '../../src/sdk/files/validator.ts';
import { isPlain } from '../../src/sdk/files/write.ts';
import { Credentials } from '../../src/sdk/git/credentials.ts';
import { createsOf } from '../../src/sdk/sandbox/once.ts';
import { metadataFilter } from '../../src/sdk/sandbox/paginators.ts';
import { getSignature } from '../../src/sdk/sandbox/signature.ts';
import { quote } from '../../src/sdk/shell.ts';

const stdout = (size: number): CommandEvent => ({ type: 'stdout', data: new Uint8Array(size) });

describe('readers of a command', () => {
  test('one that is far behind holds the source up, until it reads or leaves', async () => {
    const feeds = new Feeds(false);
    const [slow, leaving] = [feeds.open(), feeds.open()];
    await feeds.push(stdout(100));
    let pushed = false;
    const push = feeds.push(stdout(2 << 20)).then(() => {
      pushed = true;
    });
    await leaving.return();
    await slow.next();
    await new Promise((resolve) => setTimeout(resolve));
    expect(pushed).toBe(false);
    expect((await slow.next()).value).toMatchObject({ type: 'stdout' });
    await push;
    expect((await leaving.next()).done).toBe(true);
  });

  test('one that comes later gets all where it is kept, and else what follows; all get the end', async () => {
    for (const keeps of [true, false]) {
      const feeds = new Feeds(keeps);
      await feeds.push(stdout(1));
      const feed = feeds.open();
      await feeds.push(stdout(2));
      feeds.end(new Error('the end'));
      const read = async (reader: AsyncIterable<CommandEvent>, sizes: number[]) => {
        for await (const event of reader) if (event.type === 'stdout') sizes.push(event.data.length);
      };
      const [early, late]: [number[], number[]] = [[], []];
      await expect(read(feed, early)).rejects.toThrow('the end');
      await expect(read(feeds.open(), late)).rejects.toThrow('the end');
      expect([early, late]).toEqual(
        keeps
          ? [
              [1, 2],
              [1, 2],
            ]
          : [[2], []],
      );
    }
  });

  test('one that asks twice at once gets two events, in order', async () => {
    const feeds = new Feeds(false);
    const feed = feeds.open();
    const asked = [feed.next(), feed.next(), feed.next()];
    await feeds.push(stdout(1));
    await feeds.push(stdout(2));
    feeds.end();
    const got = (await Promise.all(asked)).map(({ value }) =>
      value?.type === 'stdout' ? value.data.length : undefined,
    );
    expect(got).toEqual([1, 2, undefined]);
  });

  test('a callback may disconnect, and so may a reader that is far behind', async () => {
    const following = (first: CommandEvent, onStdout?: () => Promise<void>) => {
      const control = new AbortController();
      async function* events() {
        yield first;
        await new Promise((_, reject) => {
          if (control.signal.aborted) reject(control.signal.reason);
          control.signal.addEventListener('abort', () => reject(control.signal.reason));
        });
      }
      const nothing = async () => {};
      const source = {
        pid: 1,
        name: 'it',
        events: events(),
        kill: async () => true,
        sendStdin: nothing,
        closeStdin: nothing,
      };
      return new CommandHandle(source, control, { onStdout, retainOutput: true, maxOutputBytes: 4 << 20 });
    };
    const told: CommandHandle = following(stdout(1), () => told.disconnect());
    await expect(told.wait()).rejects.toThrow('it was disconnected from');
    const read = following(stdout(2 << 20));
    const reader = read[Symbol.asyncIterator]();
    await new Promise((resolve) => setTimeout(resolve));
    await read.disconnect();
    await reader.return?.();
    await expect(read.wait()).rejects.toThrow('it was disconnected from');
  });

  test('the first reattachment is made at once, the others ever later', () => {
    expect(Array.from({ length: 9 }, (_, count) => waitBefore(count))).toEqual([
      0, 100, 200, 400, 800, 1600, 3200, 5000, 5000,
    ]);
  });
});

describe('the wire', () => {
  test('messages come whole, however they are cut', () => {
    const messages = [{ a: 1 }, {}, { long: 'ä'.repeat(1000) }];
    const all = new Uint8Array(messages.flatMap((message) => [...pack(message)]));
    for (const size of [1, 2, 7, 100, all.length]) {
      const unpacker = new Unpacker();
      const read: unknown[] = [];
      for (let at = 0; at < all.length; at += size) {
        for (const { json, end } of unpacker.push(all.slice(at, at + size))) {
          expect(end).toBe(false);
          read.push(json);
        }
      }
      expect(read).toEqual(messages);
      expect(unpacker.rest).toBe(0);
    }
    const last = pack({ error: { code: 'internal' } });
    last[0] = 2;
    expect([...new Unpacker().push(last)]).toEqual([{ end: true, json: { error: { code: 'internal' } } }]);
  });

  test('what is no envelope is refused before it is gathered', () => {
    const large = new Uint8Array(5);
    new DataView(large.buffer).setUint32(1, MAX_MESSAGE + 1);
    const packed = pack({});
    packed[0] = 1;
    const broken = new Uint8Array([0, 0, 0, 0, 1, 0x7b]);
    const none = pack(null);
    for (const wrong of [large, packed, broken, none])
      expect(() => [...new Unpacker().push(wrong)]).toThrow(EnvelopeError);
  });

  test('bytes survive base64, all values and any length', () => {
    for (const length of [0, 1, 2, 3, 256, 100_000]) {
      const bytes = Uint8Array.from({ length }, (_, at) => at % 256);
      expect(Buffer.compare(fromBase64(toBase64(bytes)), bytes)).toBe(0);
      expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'));
    }
  });

  test('a filter by metadata is encoded twice here, and once more in the query', () => {
    expect(encodeURIComponent(metadataFilter({ 'a b': 'c&d' }))).toBe('a%252520b%3Dc%252526d');
  });

  test('a signature is the one of the protocol', async () => {
    const signed = await getSignature({ path: '/a', operation: 'read', user: undefined, envdAccessToken: 't' });
    // printf '/a:read::t' | openssl dgst -sha256 -binary | base64
    expect(signed).toEqual({ signature: 'v1_JoRdqlk+vPpFDod7BWD3WYzaByL1n9Wq0flHHjoIpmE', expiration: null });
    const limited = await getSignature({
      path: '',
      operation: 'write',
      user: 'u',
      expirationInSeconds: 60,
      envdAccessToken: 't',
    });
    expect(limited.expiration).toBeGreaterThan(Date.now() / 1000);
  });

  test('only what is strong tells that a file is the same', () => {
    const [old, now, young] = [
      'Tue, 15 Nov 1994 08:12:31 GMT',
      'Tue, 15 Nov 1994 08:13:31 GMT',
      'Tue, 15 Nov 1994 08:13:30 GMT',
    ];
    const of = (headers: Record<string, string>) => validatorOf(new Headers(headers));
    expect(of({ etag: '"a"' })).toEqual({ kind: 'tag', value: '"a"' });
    expect(of({ etag: 'W/"a"', 'last-modified': old, date: now })).toEqual({ kind: 'time', value: old });
    for (const unknown of [{ etag: 'W/"a"' }, { 'last-modified': old }, { 'last-modified': young, date: now }, {}]) {
      expect(of(unknown as Record<string, string>).kind).toBe('none');
    }
    const range = (text: string) => contentRange(new Headers({ 'content-range': text }));
    expect([range('bytes 5-9/10'), range('bytes 5-9/*')]).toEqual([{ first: 5, total: 10 }, { first: 5 }]);
    for (const wrong of ['bytes */10', 'items 1-2/3', 'bytes 1/2']) expect(range(wrong)).toBeUndefined();
  });

  test('names that servers read in different ways are not put into forms', () => {
    for (const plain of ['a', '/a b/ä.txt', 'x;y', "it's"]) expect(isPlain(plain)).toBe(true);
    for (const other of ['a"b', 'a\\b', 'a\nb', '100%', '\x7f']) expect(isPlain(other)).toBe(false);
  });

  test('words for a shell', () => {
    expect(['', 'a-b/c.d', 'a b', '$x', "it's\n"].map(quote)).toEqual([
      "''",
      'a-b/c.d',
      "'a b'",
      "'$x'",
      `'it'\\''s\n'`,
    ]);
  });
});

describe('options', () => {
  const addresses = (opts: ConstructorParameters<typeof ConnectionConfig>[0]) => {
    const config = new ConnectionConfig(opts);
    const at = { sandboxDomain: config.domain, envdPort: 49983 };
    return [
      config.apiUrl,
      config.getSandboxUrl('i1', at),
      config.getSandboxDirectUrl('i1', at),
      config.getHost('i1', 80, config.domain),
    ];
  };

  test('addresses follow from the domain, from URLs, or from debug mode', () => {
    const none = { apiUrl: undefined, sandboxUrl: undefined };
    for (const name of ['E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_DOMAIN']) delete process.env[name];
    expect(addresses(none)).toEqual([
      'https://api.e2b.app',
      'https://sandbox.e2b.app',
      'https://49983-i1.e2b.app',
      '80-i1.e2b.app',
    ]);
    expect(addresses({ domain: 'own.example:8443' })).toEqual([
      'https://api.own.example:8443',
      'https://49983-i1.own.example:8443',
      'https://49983-i1.own.example:8443',
      '80-i1.own.example:8443',
    ]);
    expect(addresses({ apiUrl: 'http://h:1/api/', sandboxUrl: 'http://h:2/s' }).slice(0, 3)).toEqual([
      'http://h:1/api',
      'http://h:2/s',
      'http://h:2/s',
    ]);
    expect(addresses({ sandboxUrl: 'http://{port}-{id}.h' })[1]).toBe('http://49983-i1.h');
    expect(addresses({ debug: true })).toEqual([
      'http://localhost:3000',
      'http://localhost:49983',
      'http://localhost:49983',
      'localhost:80',
    ]);
  });

  test('what is given beats the environment, which beats the default', () => {
    process.env.E2B_DOMAIN = 'env.example';
    process.env.E2B_CONNECTION_RETRIES = '7';
    try {
      expect(new ConnectionConfig().domain).toBe('env.example');
      expect(new ConnectionConfig({ domain: 'given.example' }).domain).toBe('given.example');
      expect(new ConnectionConfig().connectionRetries).toBe(7);
      // Then it follows `retries`.
      expect(new ConnectionConfig({ retries: 0 }).connectionRetries).toBeUndefined();
      process.env.E2B_CONNECTION_RETRIES = 'many';
      expect(() => new ConnectionConfig()).toThrow(InvalidArgumentError);
    } finally {
      for (const name of ['E2B_DOMAIN', 'E2B_CONNECTION_RETRIES']) delete process.env[name];
    }
  });

  test('one server by one key has one memory of creates, and memories are bounded', () => {
    const of = (apiKey: string) => createsOf(new ConnectionConfig({ apiKey, apiUrl: 'http://127.0.0.1:1' }));
    const first = of('first');
    expect(of('first')).toBe(first);
    expect(of('second')).not.toBe(first);
    for (let other = 0; other < 300; other++) of(`key${other}`);
    expect(of('first')).not.toBe(first);
  });

  test('a secret is in no message', () => {
    for (const opts of [
      { apiKey: 'hunter2\n' },
      { apiUrl: 'http://me:hunter2@h' },
      { apiHeaders: { 'X-Key': 'hunter2\n' } },
    ]) {
      const error = (() => {
        try {
          return new ConnectionConfig(opts);
        } catch (caught) {
          return caught;
        }
      })();
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect(String(error)).not.toMatch(/hunter2/);
    }
  });
});

test('secrets are in nothing that is logged or written as JSON', () => {
  const opts = { apiKey: 'hunter2', apiHeaders: { 'X-Key': 'hunter2' }, domain: 'own.example' };
  const tokens = { envdAccessToken: 'hunter2', trafficAccessToken: 'hunter2' };
  const sandbox = new Sandbox({ ...opts, ...tokens, sandboxId: 'i0', envdVersion: '1.0.0' });
  const volume = new Volume('v', 'name', 'hunter2', undefined, undefined, undefined, opts);
  const recipe = Template().fromImage('x', { username: 'me', password: 'hunter2' });
  for (const object of [
    sandbox,
    volume,
    recipe,
    new E2B(opts),
    new ConnectionConfig(opts),
    Sandbox.list(opts),
    new Credentials('me', 'hunter2'),
  ]) {
    expect(inspect(object, { depth: 20 })).not.toMatch(/hunter2/);
    expect(JSON.stringify(object)).not.toMatch(/hunter2/);
  }
  expect([volume.token, sandbox.trafficAccessToken]).toEqual(['hunter2', 'hunter2']);
});

test('errors have their own names, the official parents, and one root', () => {
  const classes = Object.entries(errors).filter(([name]) => name.endsWith('Error')) as [
    string,
    new (...args: never[]) => Error,
  ][];
  expect(classes.length).toBeGreaterThan(30);
  for (const [name, Class] of classes) {
    const result = { exitCode: 1, stdout: '', stderr: '' };
    const error =
      name === 'OutputLostError'
        ? new Class('m' as never, result as never)
        : new Class((name === 'CommandExitError' ? result : 'm') as never);
    expect(error.name).toBe(name);
    expect(error).toBeInstanceOf(OnceboxError);
  }
  expect(new errors.SandboxNotRunningError()).toBeInstanceOf(TimeoutError);
  for (const Class of [
    errors.AuthenticationError,
    errors.ServiceBusyError,
    errors.BuildError,
    errors.VolumeError,
    errors.SecretError,
  ]) {
    expect(new Class()).not.toBeInstanceOf(SandboxError);
  }
});

test("the token of a sandbox's MCP servers is not printed with the sandbox", async () => {
  const sandbox = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k' });
  Object.assign(sandbox.files, { exists: async () => true, read: async () => 'tok3n\n' });
  expect(await sandbox.getMcpToken()).toBe('tok3n');
  expect(await sandbox.getMcpToken()).toBe('tok3n');
  expect(JSON.stringify(sandbox) + inspect(sandbox, { depth: 9 })).not.toContain('tok3n');
});

test('no part of a password that holds @ is shown with its URL', () => {
  for (const text of [
    shown('https://u:p@ss@h/x?y#z'),
    shownText('at https://u:p@ss@h/x!'),
    hidden('https://u:p@ss@h/x'),
  ]) {
    expect(text).not.toMatch(/ss|p@/);
    expect(text).toContain('h/x');
  }
  expect(shown('https://h/a@b')).toBe('https://h/a@b');
});

test('an upload is given up while its source stands still, and the source is let go of', async () => {
  const { files } = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k' });
  for (const isLate of [true, false]) {
    let cancelled = false;
    const source = new ReadableStream({
      start: (stream) => stream.enqueue(new Uint8Array(1)),
      cancel: () => {
        cancelled = true;
      },
    });
    const controller = new AbortController();
    const reason = new Error('mine');
    if (!isLate) controller.abort(reason);
    const upload = files.upload(source, 'f', { signal: controller.signal });
    setTimeout(() => controller.abort(reason));
    await expect(upload).rejects.toBe(reason);
    expect(cancelled).toBe(true);
  }
});

test('limits of time that are no whole number, or more than any timer can have, are limits', async () => {
  const { getSignal } = ConnectionConfig.prototype;
  for (const none of [Number.NaN, -5, Number.POSITIVE_INFINITY]) {
    expect(() => getSignal.call(new ConnectionConfig({ apiKey: 'k' }), none), `${none}`).toThrow(InvalidArgumentError);
  }
  expect(getSignal.call(new ConnectionConfig({ apiKey: 'k' }), 0)).toBeUndefined();
  for (const requestTimeoutMs of [10_000.5, 2 ** 40, Number.MAX_VALUE]) {
    expect(getSignal.call(new ConnectionConfig({ apiKey: 'k' }), requestTimeoutMs)).toBeInstanceOf(AbortSignal);
    const fetch = async () => Response.json({ message: 'no' }, { status: 401 });
    const sandbox = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k', fetch });
    const run = sandbox.commands.run('true', { requestTimeoutMs });
    await expect(run, String(requestTimeoutMs)).rejects.toBeInstanceOf(errors.AuthenticationError);
  }
});
