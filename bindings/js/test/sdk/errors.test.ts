/** What errors say of answers. */

import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { pack } from '../../src/sdk/envd/envelope.ts';
import {
  CommandExitError,
  InvalidArgumentError,
  OnceboxError,
  OutputLostError,
  RateLimitError,
} from '../../src/sdk/errors.ts';
import { Credentials, fed } from '../../src/sdk/git/credentials.ts';
import { Sandbox as CodeSandbox } from '../../src/sdk/interpreter/sandbox.ts';
import { masked, without } from '../../src/sdk/masked.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { Secret } from '../../src/sdk/secret.ts';
import type { LogEntry } from '../../src/sdk/template/logs.ts';
import { Template } from '../../src/sdk/template/template.ts';
import { Volume } from '../../src/sdk/volume/volume.ts';
import { serve } from './scripted.ts';

test.each([
  ['7', 7],
  ['0', 0],
  ['99999999999', 2 ** 31 - 1],
  ['1.5', undefined],
  ['-1', undefined],
  ['soon', undefined],
  // Dates to JavaScript, and none of HTTP.
  ['Oct 21 2099', undefined],
  ['Wed, 21 Oct 2099 07:28 GMT', undefined],
])('a Retry-After of %j is told as the policy reads it', async (header, seconds) => {
  using server = await serve({ status: 429, headers: { 'retry-after': header } });
  const opts = { ...server.opts, retries: 0 };
  const sandbox = new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '0.6.13' });
  for (const call of [() => Sandbox.list(opts).nextItems(), () => sandbox.files.list('.')]) {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RateLimitError);
    expect((error as RateLimitError).retryAfter).toBe(seconds);
  }
});

test.each([
  ['could not create a secret: value "e" is weak', 'e', 'could not create a secret: value "…" is weak'],
  ['value=ab, not abc', 'ab', 'value=…, not abc'],
  ['1: 11 1', '1', '…: 11 …'],
  ['its value hunter2hunter2', 'hunter2', 'its value ……'],
  [String.raw`{"value":"it\\nab"} not{ab}c`, 'ab', String.raw`{"value":"it\\n…"} not{…}c`],
  [String.raw`\u0068\u{75}\x6eter2`, 'hunter2', '…'],
  [String.raw`"{\"v\":\"1a\\\"bcd2\"}"`, 'a"bcd', String.raw`"{\"v\":\"1…2\"}"`],
  ['https://p%40ss%2fw@h p%40ss%2Fw', 'p@ss/w', 'https://…@h …'],
  ['ä?', 'ä', '…?'],
  ['<p>a&amp;b&lt;c&gt;&quot;d&#39;e&#x27;f&apos;</p>', `a&b<c>"d'e'f'`, '<p>…</p>'],
  ['value=my+pass%20word&x', 'my pass word', 'value=…&x'],
  ['value=my+pass%2bword&x', 'my pass+word', 'value=…&x'],
  ['of p%40ss/w%C3%84rd+1 and p%40ss%2fwÄrd+1', 'p@ss/wÄrd+1', 'of … and …'],
  ['a%68unter2%', 'hunter2', 'a…%'],
  [String.raw`{"html":"<b>p&amp;\u0068unter2<\/b>"}`, 'p&hunter2', String.raw`{"html":"<b>…<\/b>"}`],
  ['100% of a+b &copy; %ff %e4%b8', 'hunter2', '100% of a+b &copy; %ff %e4%b8'],
  ['any', '', 'any'],
])('of %j the secret %j is taken out', (text, secret, shown) => {
  expect(masked(text, secret)).toBe(shown);
});

test('a secret that a server repeats is told nowhere in the error', async () => {
  const fetch = async () => Response.json({ code: 400, message: 'the value "hunter2$&" is weak' }, { status: 400 });
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', fetch };
  for (const call of [() => Secret.create('s', 'hunter2$&', opts), () => Secret.update('s', 'hunter2$&', opts)]) {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(String(error)).toContain('the value "…" is weak');
    expect(inspect(error)).not.toContain('hunter2');
  }
  const caused = new Error('told hunter2', { cause: new Error('as hunter2') });
  expect(inspect(without(caused, 'hunter2'))).not.toContain('hunter2');
});

/** A key of several lines, as many a secret is one. */
const PEM = ['-----BEGIN KEY-----', 'MIIEowIBAAKCAQEA7u', 'zxÄ/w==+hunter2', '-----END KEY-----', ''];

/** Where a part of a secret is told by an error or anything in it. */
function toldOf(error: unknown, secret: string): string[] {
  const told = inspect(error, { depth: 9, showHidden: true }) + JSON.stringify(error);
  const parts = Array.from({ length: secret.length - 5 }, (_, at) => secret.slice(at, at + 6));
  return parts.filter((part) => !/[\r\n\\]/.test(part) && told.includes(part));
}

const ascii = (text: string) => text.replaceAll('Ä', '\\u00c4').replaceAll('/', '\\/');

test.each([
  ['across the end of what is shown', 400, (value: string) => `${'x'.repeat(280)}${value}`],
  ['whose line ends are left out', 400, (value: string) => `it is ${value}`],
  ['in JSON that has no message', 400, (value: string) => JSON.stringify({ request: { value } })],
  ['in the JSON of a server that writes ASCII', 400, (value: string) => ascii(JSON.stringify([value]))],
  ['as JSON in a message', 400, (value: string) => JSON.stringify({ message: `got ${JSON.stringify({ value })}` })],
  ['without the blanks at its ends', 400, (value: string) => JSON.stringify({ message: `got ${value.trim()}!` })],
  ['as the code of the error', 400, (value: string) => JSON.stringify({ message: 'bad', error_code: value })],
  ['in an answer that makes no sense', 201, (value: string) => `${'x'.repeat(180)}${value}`],
  ['in what is no JSON', 201, (value: string) => `{"value": ${value}`],
] as const)('no part of a secret of several lines is told: %s', async (_, status, said) => {
  for (const value of [PEM.join('\n'), PEM.join('\r\n')]) {
    const fetch = async () => new Response(said(value), { status });
    const opts = { apiKey: 'k', apiUrl: 'http://control.test', fetch };
    for (const call of [() => Secret.create('s', value, opts), () => Secret.update('s', value, opts)]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OnceboxError);
      expect(inspect(error)).toContain('…');
      expect(toldOf(error, value)).toEqual([]);
    }
  }
});

/** Variables and a configuration of which no error tells, and words, which stay. */
const TOKEN = 'tok-abcdefgh-ijklmnop';
const GIVEN = {
  envs: { TOKEN, LONGER: `${TOKEN}-rest-of-the-longer`, WORD: 'such', PEM: PEM.join('\n') },
  mcp: { browserbase: { apiKey: 'mcp-secret-value', ports: [1, 'mcp-other-value'], mode: 'lax' } },
};
const NOT_TOLD = [
  ...Object.values(GIVEN.envs).filter((each) => each !== 'such'),
  'mcp-secret-value',
  'mcp-other-value',
];

test.each([
  ['in a message', (given: string) => JSON.stringify({ code: 400, message: `no such ${given}` })],
  ['as the code of the error', (given: string) => JSON.stringify({ message: 'no such', error_code: given })],
  ['across the end of what is shown', (given: string) => `no such ${'x'.repeat(180)}${given}`],
])('what a server repeats of the body of a create is in no error: %s', async (_, said) => {
  const fetch = async (_: unknown, init?: RequestInit) => {
    const { envVars, mcp } = JSON.parse(String(init?.body));
    return new Response(said(`${Object.values(envVars)} ${JSON.stringify({ mcp })}`), { status: 400 });
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', fetch, retries: 0 };
  const error: unknown = await Sandbox.create({ ...opts, ...GIVEN }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect(inspect(error)).toMatch(/no such.*…/s);
  for (const secret of NOT_TOLD) expect(toldOf(error, secret)).toEqual([]);
  const { answer } = (error as { cause: { answer: { body: Uint8Array } } }).cause;
  expect(NOT_TOLD.filter((secret) => new TextDecoder().decode(answer.body).includes(secret))).toEqual([]);
});

/** What a gateway that refuses its configuration writes, and a daemon that refuses to start it. */
const GATEWAYS: readonly [string, (sent: string) => Response][] = [
  ['the daemon', (sent) => new Response(JSON.stringify({ message: `no such ${sent}` }), { status: 400 })],
  ['the daemon, across the end', (sent) => new Response(`no such ${'x'.repeat(180)}${sent}`, { status: 400 })],
  [
    'the gateway, across the beginning of what is shown',
    (sent) => {
      const stderr = btoa(`no such ${sent}mcp-secret-value${'x'.repeat(1990)}`);
      const end = pack({});
      end[0] = 2;
      const events = [{ start: { pid: 1 } }, { data: { stderr } }, { end: { exitCode: 3, exited: true } }];
      return new Response(new Blob([...events.map((event) => pack({ event })), end]));
    },
  ],
];

test.each(GATEWAYS)("what %s repeats of an MCP gateway's configuration is in no error", async (_, said) => {
  const { mcp } = { mcp: { ...GIVEN.mcp, quoted: "it's-quoted-secret" } };
  const fetch = async (input: unknown, init?: RequestInit) => {
    const { pathname } = new URL(String(input));
    if (init?.method === 'DELETE') return new Response(null, { status: 204 });
    if (!pathname.endsWith('/Start')) return Response.json({ sandboxID: 'i1', envdVersion: '0.6.13' }, { status: 201 });
    return said((await new Response(init?.body).text()).replace(/^[^{]*/s, ''));
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };
  const error: unknown = await Sandbox.create({ ...opts, mcp }).catch((thrown: unknown) => thrown);
  expect(String(error)).toMatch(/could not start the MCP gateway/);
  for (const secret of ['mcp-secret-value', 'mcp-other-value', 'quoted-secret'])
    expect(toldOf(error, secret)).toEqual([]);
});

test("a password of a sandbox's proxy and headers of its rules are in no error of its create", async () => {
  const fetch = async (_: unknown, init?: RequestInit) => {
    const { network } = JSON.parse(String(init?.body));
    return Response.json({ message: `bad: ${JSON.stringify(network)}` }, { status: 400 });
  };
  const network = {
    egressProxy: { address: 'proxy.example:3128', password: 'hunter2-of-the-proxy' },
    rules: { 'api.example.com': [{ transform: { headers: { Authorization: 'Bearer hunter2' } } }] },
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', fetch, retries: 0 };
  const error: unknown = await Sandbox.create({ ...opts, network }).catch((thrown: unknown) => thrown);
  expect(String(error)).toContain('proxy.example:3128');
  expect(String(error)).toContain('api.example.com');
  expect(toldOf(error, 'hunter2')).toEqual([]);
});

test("a password of a sandbox's proxy and headers of its rules are in no error of a change of its network", async () => {
  const network = {
    egressProxy: { address: 'proxy.example:3128', password: 'hunter2-of-the-proxy' },
    rules: new Map([['api.example.com', [{ transform: () => ({ headers: { Authorization: 'Bearer hunter2' } }) }]]]),
  };
  for (const [status, said] of [
    [400, (sent: string) => JSON.stringify({ message: `bad: ${sent}` })],
    [500, (sent: string) => `bad: ${'x'.repeat(150)}${sent}`],
    [200, (sent: string) => `bad: ${'x'.repeat(150)}${sent}`],
  ] as const) {
    const fetch = async (_: unknown, init?: RequestInit) => new Response(said(String(init?.body)), { status });
    const opts = { apiKey: 'k', apiUrl: 'http://control.test', fetch, retries: 0 };
    const sandbox = new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '0.6.13' });
    for (const call of [() => Sandbox.updateNetwork('i1', network, opts), () => sandbox.updateNetwork(network)]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OnceboxError);
      expect(String(error)).toContain('bad: ');
      expect(toldOf(error, 'hunter2')).toEqual([]);
    }
  }
});

test.each([
  ['in a message', 400, (given: string) => JSON.stringify({ code: 'invalid_argument', message: `no such ${given}` })],
  ['of an answer that leaves all open', 500, (given: string) => JSON.stringify({ message: `no such ${given}` })],
  ['across the end of what is shown', 400, (given: string) => `no such ${'x'.repeat(280)}${given}`],
])('what a daemon repeats of variables of commands and of code is in no error: %s', async (_, status, said) => {
  const fetch = async (_: unknown, init?: RequestInit) => {
    // Of a stream there are five bytes before its message.
    const sent = (await new Response(init?.body).text()).replace(/^[^{]*/s, '');
    const { process, env_vars } = JSON.parse(sent || '{}');
    return new Response(said(Object.values(process?.envs ?? env_vars ?? {}).join(', ')), { status });
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };
  const sandbox = new CodeSandbox({ ...opts, sandboxId: 'i1', envdVersion: '0.6.13' });
  const { envs } = GIVEN;
  for (const call of [
    () => sandbox.commands.run('true', { envs }),
    () => sandbox.commands.run('true', { envs, durable: true, reattachments: 0 }),
    () => sandbox.git.status('/a', { envs }),
    () => sandbox.pty.create({ envs, cols: 80, rows: 24, onData: () => {} }),
    () => sandbox.runCode('1', { envs }),
  ]) {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OnceboxError);
    expect(inspect(error)).toMatch(/no such.*…/s);
    for (const secret of Object.values(envs).filter((each) => each !== 'such'))
      expect(toldOf(error, secret)).toEqual([]);
  }
});

test.each([
  ['at once', ''],
  ['across the end of what is shown', 'x'.repeat(180)],
])(
  "what a durable command's wrapper writes of the command's variables is in no error of its start: %s",
  async (_, before) => {
    const { envs } = GIVEN;
    const fetch = async (_: unknown, init?: RequestInit) => {
      const sent = (await new Response(init?.body).text()).replace(/^[^{]*/s, '');
      const given = Object.values(JSON.parse(sent || '{}').process?.envs ?? {}).join(', ');
      // In pieces that end within a secret, and within a character.
      const written = Buffer.from(`no such ${before}${given}`);
      const cuts = [0, before.length + 20, written.indexOf('\u00c4') + 1, written.length];
      const pieces = cuts.slice(1).map((cut, at) => written.subarray(cuts[at], cut));
      const data = pieces.map((piece) => ({ data: { stderr: piece.toString('base64') } }));
      const end = pack({});
      end[0] = 2;
      const events = [{ start: { pid: 1 } }, ...data, { end: { status: `exit status 2: ${given}`, exited: true } }];
      const body = new Blob([...events.map((event) => pack({ event })), end]);
      return new Response(body, { headers: { 'Content-Type': 'application/connect+json' } });
    };
    const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };
    const sandbox = new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '0.6.13' });
    const run = sandbox.commands.run('true', { envs, durable: true, reattachments: 0 });
    const error: unknown = await run.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OnceboxError);
    expect(String(error)).toMatch(/exit status 2: .*no such /s);
    for (const secret of Object.values(envs).filter((each) => each !== 'such')) {
      expect(toldOf(error, secret)).toEqual([]);
      expect(toldOf(error, secret.slice(0, 12))).toEqual([]);
    }
  },
);

test('what else an error holds has no secret in it either', () => {
  const result = { exitCode: 1, stdout: 'out hunter2', stderr: 'err hunter2', error: 'hunter2' };
  const lost = without(new OutputLostError('output was lost', result), 'hunter2') as OutputLostError;
  expect(lost).toMatchObject({ exitCode: 1, stdout: 'out …', stderr: 'err …', error: '…' });
  const exit = without(new CommandExitError({ ...result, error: '' }), 'hunter2') as CommandExitError;
  expect([exit.stdout, exit.stderr]).toEqual(['out …', 'err …']);
  const caused = without(new Error('it failed', { cause: new Error('x', { cause: 'hunter2' }) }), 'hunter2');
  for (const error of [lost, exit, caused]) expect(toldOf(error, 'hunter2')).toEqual([]);
  const innocent = new Error('it failed', { cause: new Error('why') });
  expect((without(innocent, 'hunter2') as Error).cause).toBeInstanceOf(Error);
});

test('of a git that failed no part of the password is told, however it is written', () => {
  const password = 'p@ss"wörd\\hunter2';
  const stderr = `${'x'.repeat(1990)}${password} ${JSON.stringify(password)} ${encodeURIComponent(password)}`;
  const given = { exitCode: 1, stdout: `https://me:${encodeURIComponent(password)}@h`, stderr };
  const error = (() => {
    try {
      return fed('clone', given, new Credentials('me', password));
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(CommandExitError);
  expect(toldOf(error, password).concat(toldOf(error, encodeURIComponent(password)))).toEqual([]);
});

const ACCOUNT = { type: 'service_account', project_id: 'mine', private_key: PEM.join('\n') };

test.each([
  ['password', Template().fromImage('r.example/i', { username: 'me', password: PEM.join('\n') }), PEM.join('\n')],
  [
    'password as it is sent to registries',
    Template().fromImage('r.example/i', { username: 'me', password: 'hunter2' }),
    btoa('me:hunter2'),
  ],
  [
    'secret access key',
    Template().fromAWSRegistry('r.example/i', { accessKeyId: 'AKIA', secretAccessKey: 'hunter2/+', region: 'eu' }),
    'hunter2/+',
  ],
  [
    'service account',
    Template().fromGCPRegistry('r.example/i', { serviceAccountJSON: ACCOUNT }),
    JSON.stringify(ACCOUNT),
  ],
  ['private key', Template().fromGCPRegistry('r.example/i', { serviceAccountJSON: ACCOUNT }), ACCOUNT.private_key],
  [
    "private key's one line",
    Template().fromGCPRegistry('r.example/i', { serviceAccountJSON: JSON.stringify(ACCOUNT, null, 2) }),
    PEM[1] ?? '',
  ],
] as const)("a registry's %s that the server of a build repeats is not told", async (_, recipe, value) => {
  const quoted = (at: number) => `${'x'.repeat(at)} cannot log in with ${value}`;
  const status = { templateID: 't', buildID: 'b', status: 'error', logs: [quoted(0)] };
  const log = { timestamp: '2026-01-01T00:00:00Z', level: 'info', message: quoted(0) };
  const started = [202, '{}'] as const;
  const failed = JSON.stringify({ ...status, reason: { message: quoted(0), step: '1', logEntries: [log] } });
  for (const answers of [
    [[400, JSON.stringify({ code: 400, message: quoted(0) })]],
    [[400, quoted(270)]],
    [[200, quoted(170)]],
    [
      started,
      [500, JSON.stringify({ message: quoted(0) })],
      [200, JSON.stringify({ ...status, status: 'building', logEntries: [log] })],
      [200, failed],
    ],
  ] as const) {
    const left: (readonly [number, string])[] = [...answers];
    const fetch = (async (_: unknown, init: RequestInit) => {
      if (String(init.body).includes('"name"')) return Response.json({ templateID: 't', buildID: 'b' });
      const [code, body] = left.shift() ?? [200, failed];
      return new Response(body, { status: code });
    }) as typeof globalThis.fetch;
    const told: unknown[] = [];
    const opts = {
      ...{ apiKey: 'k', apiUrl: 'http://control.test', fetch, retries: 0 },
      onBuildLogs: (entry: LogEntry) => told.push(entry.message),
      logger: { debug: (...all: unknown[]) => told.push(...all) },
    };
    const error: unknown = await Template.build(recipe, 'mine', opts).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OnceboxError);
    expect(inspect(error)).toContain('…');
    if (answers.length > 1) expect(told.filter((each) => String(each).includes('…')).length).toBeGreaterThan(1);
    expect([...toldOf(error, value), ...toldOf(told, value)]).toEqual([]);
  }
});

const KEY = 'e2b_0123456789abcdef';
/** Just where the words of an answer are cut, and not. */
const QUOTES = [0, 280].map((at) => (value: string) => `${'x'.repeat(at)} invalid: ${value}`);

test.each(QUOTES)('the key, and a header that authorises, that a server repeats are not told (%#)', async (quote) => {
  const headers = { apiHeaders: { Authorization: 'Bearer hunter2hunter2' } };
  for (const value of [KEY, 'hunter2hunter2']) {
    for (const [status, body] of [
      [401, JSON.stringify({ code: 401, message: quote(value) })],
      [400, quote(value)],
      [200, quote(value).slice(100)],
    ] as const) {
      const fetch = async () => new Response(body, { status });
      const opts = { apiKey: KEY, apiUrl: 'http://control.test', fetch, retries: 0, settleMs: 0, ...headers };
      const calls = [
        () => Sandbox.list(opts).nextItems(),
        () => Sandbox.kill('i1', opts),
        () => Template.getTags('t', opts),
        ...(status === 200 ? [] : [() => Sandbox.create(opts)]),
      ];
      for (const call of calls) {
        const error: unknown = await call().catch((thrown: unknown) => thrown);
        if (error instanceof Error) expect(error).toBeInstanceOf(OnceboxError);
        expect(toldOf(error, value)).toEqual([]);
      }
    }
  }
});

test.each(QUOTES)("a sandbox's and a volume's token that is repeated is not told (%#)", async (quote) => {
  const envdAccessToken = 'hunter2-of-envd';
  for (const body of [
    quote(envdAccessToken),
    JSON.stringify({ code: 'unauthenticated', message: quote(envdAccessToken) }),
  ]) {
    const fetch = async () => new Response(body, { status: 401 });
    const opts = { apiKey: KEY, apiUrl: 'http://control.test', fetch, retries: 0 };
    const sandbox = new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '1.0.0', envdAccessToken });
    const volume = new Volume('v', 'name', envdAccessToken, undefined, undefined, undefined, opts);
    for (const call of [
      () => sandbox.files.list('/'),
      () => sandbox.files.read('/a'),
      () => sandbox.commands.run('true'),
      () => sandbox.isRunning(),
      () => volume.list('/'),
    ]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OnceboxError);
      expect(inspect(error)).toContain('…');
      expect(toldOf(error, envdAccessToken)).toEqual([]);
    }
  }
});

test.each([400, 429, 502])(
  'input that is repeated as it was sent is in no error of git or of a command (%s)',
  async (status) => {
    const lines = 'me\nhunter2hunter2\n';
    for (const quote of QUOTES) {
      for (const value of [btoa(lines), lines, btoa(lines).replaceAll('=', '')]) {
        const start = pack({ event: { start: { pid: 7 } } });
        const fetch = (async (url: unknown) => {
          if (String(url).includes('SendInput')) return new Response(quote(value), { status });
          if (!String(url).includes('Start')) return Response.json({});
          const body = new ReadableStream({ start: (control) => control.enqueue(start) });
          return new Response(body, { headers: { 'Content-Type': 'application/connect+json' } });
        }) as typeof globalThis.fetch;
        const opts = { apiKey: KEY, apiUrl: 'http://control.test', fetch, retries: 0 };
        const sandbox = new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '1.0.0' });
        const login = { username: 'me', password: 'hunter2hunter2' };
        const error: unknown = await sandbox.git
          .clone('https://git.example/a.git', { path: '/a', ...login })
          .catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(OnceboxError);
        expect(String(error)).toContain('…');
        expect(toldOf(error, value === lines ? login.password : value)).toEqual([]);
        if (value === lines) continue;
        const handle = await sandbox.commands.run('cat', { background: true, stdin: true });
        const refused: unknown = await handle.sendStdin(lines).catch((thrown: unknown) => thrown);
        expect(toldOf(refused, value)).toEqual([]);
        await handle.disconnect();
      }
    }
  },
);

test('a secret of one character that stands often in a long text does not hold the program up', () => {
  const began = performance.now();
  expect(masked('1 '.repeat(100_000), '1')).toBe('… '.repeat(100_000));
  expect(performance.now() - began).toBeLessThan(2_000);
});

test('many secrets in a long text with escapes do not hold the program up', () => {
  const secrets = Array.from({ length: 100 }, (_, at) => `hunter-no-${at}`);
  const text = `${String.raw`C:\\\\dir `.repeat(200_000)}${secrets[7]}`;
  const began = performance.now();
  expect(masked(text, secrets)).toBe(text.replace('hunter-no-7', '…'));
  expect(performance.now() - began).toBeLessThan(5_000);
});
