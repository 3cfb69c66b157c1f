import { afterEach, describe, expect, test, vi } from 'vitest';
import {
  type ConnectionOpts,
  E2B,
  InvalidArgumentError,
  OutcomeUnknownError,
  openTransport,
  RateLimitError,
  Sandbox,
  Secret,
  ServiceBusyError,
  Template,
  UnsupportedError,
  Volume,
} from '../../src/index.ts';
import { FaultServer } from '../../src/testing.ts';
import { tools } from '../support/tools.ts';
import { SECRET, serve, type Turn } from './scripted.ts';
import { transports } from './server.ts';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

describe.each(transports)('options over %s', (transport) => {
  /** `getInfo` by these options: how often it was sent, and what it came to. */
  async function tried(options: ConnectionOpts, ...turns: Turn[]): Promise<[number, unknown]> {
    using server = await serve(...turns);
    const ended = await Sandbox.getInfo('i1', { ...server.opts, transport, ...options }).catch((error) => error);
    return [server.seen.length, ended];
  }

  /** The same of a secret's update, which nothing permits to be repeated. */
  async function updated(options: ConnectionOpts, ...turns: Turn[]): Promise<[number, unknown]> {
    using server = await serve(...turns);
    const opts = { ...server.opts, transport, ...options };
    const ended = await Secret.update('s', 'v', opts).catch((error) => error);
    return [server.seen.length, ended];
  }

  test('each switch of the policy changes what is sent again', async () => {
    expect(await tried({}, 503, 200)).toMatchObject([2, { sandboxId: 'i1' }]);
    expect(await updated({}, 503, 200)).toEqual([2, SECRET]);
    expect(await updated({ trustServiceUnavailable: false }, 503, 200)).toEqual([1, expect.any(ServiceBusyError)]);
    expect((await updated({}, 502, 200))[0]).toBe(1);
    expect(await updated({ trustBadGateway: true }, 502, 200)).toEqual([2, SECRET]);
    expect((await tried({}, 504, 200))[0]).toBe(1);
    expect(await tried({ retryGatewayTimeout: true }, 504, 200)).toMatchObject([2, { sandboxId: 'i1' }]);
    expect((await tried({}, 408, 200))[0]).toBe(2);
    expect((await tried({ retryRequestTimeoutStatus: false }, 408, 200))[0]).toBe(1);
    expect((await updated({}, 425, 200))[0]).toBe(2);
    expect((await updated({ replayMisdirectedAndEarly: false }, 425, 200))[0]).toBe(1);
    expect(await tried({}, 429, 200)).toEqual([1, expect.any(RateLimitError)]);
    expect((await tried({ retryRateLimitWithoutHint: true }, 429, 200))[0]).toBe(2);
    const forbids = { status: 503, headers: { 'should-retry': 'false' } };
    expect((await tried({}, forbids, 200))[0]).toBe(1);
    expect((await tried({ honorShouldRetry: false }, forbids, 200))[0]).toBe(2);
    expect((await tried({}, 'cut', 200))[0]).toBe(2);
    expect((await tried({ repeatUnknown: 'never' }, 'cut', 200))[0]).toBe(1);
  });

  test('a preset is what the others are set over', async () => {
    const forbids = { status: 502, headers: { 'should-retry': 'false' } };
    expect((await updated({ preset: 'e2b_2_52' }, forbids, 200))[0]).toBe(2);
    expect((await updated({ preset: 'e2b_2_52', honorShouldRetry: true }, forbids, 200))[0]).toBe(1);
    expect((await updated({ preset: 'e2b_2_52', retries: 0 }, forbids, 200))[0]).toBe(1);
  });

  test('the numbers count, with the client and with the call', async () => {
    expect((await tried({ retries: 1 }, 503))[0]).toBe(2);
    using server = await serve('cut');
    const client = new E2B({ ...server.opts, transport, retries: 2 });
    await client.Sandbox.getInfo('i1').catch(() => {});
    expect(server.seen.length).toBe(3);
    await client.Sandbox.getInfo('i1', { retries: 0 }).catch(() => {});
    expect(server.seen.length).toBe(4);
  });

  test('an attempt that takes too long is given up, and the call is not', async () => {
    const [count, info] = await tried({ attemptTimeoutMs: 1_500 }, 'silent', 200);
    expect([count, info]).toMatchObject([2, { sandboxId: 'i1' }]);
  });

  test('an attempt of a create, too; and look-ups are as many as they may be', async () => {
    using server = await serve('silent', 404);
    const opts = { ...server.opts, transport, attemptTimeoutMs: 300, lookups: 0 };
    const error = await Sandbox.create(opts).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(error.message).toContain('look-ups used up (lookups)');
    expect(server.seen.map(({ method }) => method)).toEqual(['POST']);
  });

  test('headers go to the control plane, or everywhere', async () => {
    using server = await serve(200);
    const opts = { ...server.opts, transport, apiHeaders: { 'x-to': 'api' }, requestHeaders: { 'x-to': 'all' } };
    await Sandbox.getInfo('i1', opts);
    await Sandbox.getInfo('i1', { ...opts, apiHeaders: {} });
    await new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '1.0.0' }).isRunning();
    expect(server.seen.map(({ url, headers }) => [url, headers['x-to']])).toEqual([
      ['/sandboxes/i1', 'api'],
      ['/sandboxes/i1', 'all'],
      ['/health', 'all'],
    ]);
  });

  test('a header that is given twice, in letters of another size, is one', async () => {
    using server = await serve(200);
    const opts = { ...server.opts, transport, apiHeaders: { 'x-api-key': 'other', 'USER-AGENT': 'mine' } };
    await Sandbox.getInfo('i1', opts);
    expect(server.seen[0]?.headers).toMatchObject({ 'x-api-key': 'k', 'user-agent': 'mine' });
    const sandbox = { ...opts, requestHeaders: { 'e2b-sandbox-id': 'other' }, sandboxId: 'i1', envdVersion: '1.0.0' };
    await new Sandbox(sandbox).isRunning();
    expect(server.seen[1]?.headers).toMatchObject({ 'e2b-sandbox-id': 'i1' });
  });

  test('time and chance can be given', async () => {
    const waits: number[] = [];
    const sleep = async (ms: number) => void waits.push(ms);
    const [count] = await tried({ random: () => 0, sleep }, 503, 503, 200);
    expect([count, waits]).toEqual([3, [50, 100]]);
  });

  test('what is wrong is refused before anything is sent, with the option, the value and the rule', async () => {
    using server = await serve(200);
    const good = { ...server.opts, transport };
    const wrong: [Record<string, unknown>, string][] = [
      [{ preset: 'fast' }, 'preset: "fast" is not one of default, e2b_2_52, e2b_2_63'],
      [{ retries: -1 }, 'retries: -1 is not a whole number from 0 to 1000'],
      [{ retries: '3' }, 'retries: "3" is not a whole number'],
      [{ connectionRetries: 1.5 }, 'connectionRetries: 1.5 is not a whole number'],
      [{ retries: null }, 'retries: null is not'],
      [{ trustBadGateway: 1 }, 'trustBadGateway: 1 is not true or false'],
      [{ repeatUnknown: 'always' }, 'repeatUnknown: "always" is not one of never, safe, permitted'],
      [{ retryAfterJitter: Number.NaN }, 'retryAfterJitter: NaN is not a fraction from 0 to 1'],
      [{ lookups: -1 }, 'lookups: -1 is not a whole number'],
      [{ attemptTimeoutMs: Number.POSITIVE_INFINITY }, 'attemptTimeoutMs: Infinity is not a number of milliseconds'],
      [{ requestTimeoutMs: Number.NaN }, 'requestTimeoutMs: NaN is not a number of milliseconds'],
      [{ settleMs: -1 }, 'settleMs: -1 is not a number of milliseconds'],
      [{ readIdleTimeoutMs: '1s' }, 'readIdleTimeoutMs: "1s" is not a number of milliseconds'],
      [{ random: 4 }, 'random: 4 is not a function'],
      [{ signal: {} }, 'signal: [object Object] is not an AbortSignal'],
      [{ maxConnections: 0 }, 'maxConnections: 0 is not a whole number from 1'],
      [{ httpVersion: '3' }, 'httpVersion: "3" is not one of auto, 1.1, 2'],
      [{ connectTimeoutMs: -5 }, 'connectTimeoutMs: -5 is not a number of milliseconds'],
      [{ proxy: true }, "proxy: true is not a proxy's URL"],
      [{ rootCertificates: [] }, 'rootCertificates: [object Array] is not a text in PEM form'],
      [{ clientCertificate: { cert: 'x' } }, 'clientCertificate: [object Object] is not { cert, key }'],
      [{ transport: 'carrier pigeon' }, 'transport: "carrier pigeon" is not one of native, fetch'],
      [{ apiHeaders: 'x' }, 'apiHeaders: "x" is not an object of texts'],
      [{ conectionRetries: 3 }, 'conectionRetries: there is no such option; did you mean connectionRetries?'],
      [{ request_timeout_ms: 3 }, 'request_timeout_ms: there is no such option; did you mean requestTimeoutMs?'],
      [{ requestTimeout: 3 }, 'requestTimeout: there is no such option; did you mean requestTimeoutMs?'],
      [{ everything: 3 }, 'everything: there is no such option (there are preset, retries,'],
    ];
    for (const [options, message] of wrong) {
      const opts = { ...good, ...options } as ConnectionOpts;
      const calls: [string, () => unknown][] = [
        ['create', () => Sandbox.create(opts)],
        ['connect', () => Sandbox.connect('i1', opts)],
        ['kill', () => Sandbox.kill('i1', opts)],
        ['list', () => Sandbox.list(opts)],
        ['resolve', () => Sandbox.resolve('0'.repeat(32), opts)],
        ['E2B', () => new E2B(opts)],
        ['Sandbox', () => new Sandbox({ ...opts, sandboxId: 'i1', envdVersion: '1.0.0' })],
        ['secrets', () => Secret.getInfo('s', opts)],
        ['volumes', () => Volume.list(opts)],
        ['templates', () => Template.exists('t', opts)],
        ['build', () => Template.build(Template().fromBaseImage(), 't', opts)],
      ];
      for (const [name, call] of calls) {
        const error = await (async () => call())().then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        expect.soft(error, `${name} ${message}`).toBeInstanceOf(InvalidArgumentError);
        expect.soft(String(error), name).toContain(message);
      }
    }
    expect(server.seen).toEqual([]);
  });

  test("a call's own options are known to it alone", async () => {
    using server = await serve(200);
    const opts = { ...server.opts, transport };
    const refused = async (call: Promise<unknown>, message: string) =>
      expect(((await call.catch((error) => error)) as Error).message).toContain(message);
    await refused(Sandbox.create({ ...opts, metdata: {} } as never), 'did you mean metadata?');
    await refused(Sandbox.pause('i1', { ...opts, keepMemroy: true } as never), 'did you mean keepMemory?');
    await refused(Sandbox.kill('i1', { ...opts, metadata: {} } as never), 'metadata: there is no such option');
    await refused(Sandbox.connect('i1', { ...opts, timeoutMS: 5, envs: {} } as never), 'did you mean timeoutMs?');
    await refused(Template.build(Template().fromBaseImage(), 't', { ...opts, tag: [] } as never), 'did you mean tags?');
    expect(() => Sandbox.list({ ...opts, limt: 3 } as never)).toThrow('did you mean limit?');
    await refused(
      new Volume('v', 'n', 't', undefined, undefined, undefined, opts).list('/', { dept: 1 } as never),
      'depth',
    );
    expect(server.seen).toEqual([]);
  });
});

const NATIVE_ONLY: ConnectionOpts = {
  proxy: 'http://127.0.0.1:1',
  rootCertificates: 'x',
  clientCertificate: { cert: 'x', key: 'hunter2' },
  dangerAcceptInvalidCertificates: true,
  httpVersion: '2',
  maxConnections: 2,
  keepaliveExpiryMs: 5,
  initialStreams: 1,
  replayBufferLimit: 0,
  dnsTimeoutMs: 1,
  connectTimeoutMs: 1,
  tlsTimeoutMs: 1,
  proxyTimeoutMs: 1,
  maxConnectionAgeMs: 1,
  pingIntervalMs: 1,
  pingTimeoutMs: 1,
  tcpKeepaliveMs: 1,
  writeIdleTimeoutMs: 1,
  unixSocket: '/x',
  traceContext: true,
  seed: 1,
};

test('what only the native transport has is lost in silence over no other', () => {
  for (const [name, value] of Object.entries(NATIVE_ONLY)) {
    for (const other of [{ transport: 'fetch' as const }, { fetch: globalThis.fetch }]) {
      const open = () => new E2B({ apiKey: 'k', ...other, [name]: value });
      expect(open).toThrow(UnsupportedError);
      expect(open).toThrow(`${name}: only the native transport has this`);
      expect(open).not.toThrow('hunter2');
    }
  }
});

test('what the environment says is no demand: it holds where the native transport is used', () => {
  vi.stubEnv('E2B_MAX_CONNECTIONS', '5');
  vi.stubEnv('E2B_KEEPALIVE_EXPIRY', '5');
  vi.stubEnv('E2B_HTTP_VERSION', '1.1');
  new E2B({ apiKey: 'k', transport: 'fetch' });
  for (const [name, value, rule] of [
    ['E2B_MAX_CONNECTIONS', '0', 'a whole number from 1'],
    ['E2B_KEEPALIVE_EXPIRY', 'soon', 'a whole number from 0'],
    ['E2B_HTTP_VERSION', '3', 'one of 1.1, 2'],
    ['E2B_CONNECTION_RETRIES', '1001', 'a whole number from 0 to 1000'],
  ] as const) {
    vi.stubEnv(name, value);
    expect(() => new E2B({ apiKey: 'k', transport: 'fetch' })).toThrow(`${name}: "${value}" is not ${rule}`);
    vi.stubEnv(name, undefined);
  }
});

const { skip } = tools('sdk: options of the native transport', 'program', 'addon');

describe.skipIf(skip || !transports.includes('native'))('options of the native transport', () => {
  const reach = (server: FaultServer, options: ConnectionOpts) =>
    Sandbox.getInfo('i1', { apiUrl: server.url, apiKey: 'k', transport: 'native', retries: 0, ...options }).catch(
      (error) => error,
    );

  test('certificates, versions and limits of phases are used', async () => {
    await using server = await FaultServer.start({}, { tls: true });
    expect(await reach(server, { tlsTimeoutMs: 2000 })).toMatchObject({ outcome: { kind: 'not_sent', phase: 'tls' } });
    await reach(server, { rootCertificates: server.ca ?? '', httpVersion: '1.1' });
    await reach(server, { dangerAcceptInvalidCertificates: true, httpVersion: '2' });
    const used = (await server.stop()).connections.filter(({ heads }) => Number(heads) > 0);
    expect(used.map(({ version }) => version)).toEqual(['1.1', '2']);
  });

  test('so is what the environment says, and an option beats it', async () => {
    await using server = await FaultServer.start({}, { tls: true });
    vi.stubEnv('E2B_HTTP_VERSION', '1.1');
    await reach(server, { rootCertificates: [server.ca ?? ''] });
    await reach(server, { rootCertificates: [server.ca ?? ''], httpVersion: '2' });
    const used = (await server.stop()).connections.filter(({ heads }) => Number(heads) > 0);
    expect(used.map(({ version }) => version)).toEqual(['1.1', '2']);
  });

  test('what is in a certificate or a proxy is looked at before anything is sent', () => {
    const open = (options: ConnectionOpts) => () => new E2B({ apiKey: 'k', ...options });
    expect(open({ rootCertificates: 'nonsense' })).toThrow(InvalidArgumentError);
    expect(open({ proxy: 'ftp://me:hunter2@x' })).toThrow(InvalidArgumentError);
    expect(open({ proxy: 'ftp://me:hunter2@x' })).not.toThrow('hunter2');
    expect(open({ clientCertificate: { cert: 'x', key: 'y' } })).toThrow(InvalidArgumentError);
  });

  test('a trace is told where it is asked for', async () => {
    using server = await serve(200);
    await Sandbox.getInfo('i1', {
      ...server.opts,
      traceContext: true,
      seed: 1,
      pingIntervalMs: 500,
      tcpKeepaliveMs: 0,
    });
    await Sandbox.getInfo('i1', server.opts);
    const told = server.seen.map(({ headers }) => headers.traceparent);
    expect(told).toEqual([expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/), undefined]);
  });

  test('a fetch of openTransport has the rest of them', async () => {
    using server = await serve(200);
    const fetch = openTransport({ transport: 'native', proxy: false, readIdleTimeoutMs: 5000, pingIntervalMs: 1000 });
    expect(await Sandbox.getInfo('i1', { ...server.opts, fetch })).toMatchObject({ sandboxId: 'i1' });
  });
});
