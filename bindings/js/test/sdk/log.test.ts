import { afterEach, describe, expect, test, vi } from 'vitest';
import { type ConnectionOpts, type LogEvent, OutcomeUnknownError, Sandbox, Secret } from '../../src/index.ts';
import { withRetry } from '../../src/retry.ts';
import { openTransport } from '../../src/transport.ts';
import { serve } from './scripted.ts';
import { freePort, transports, until } from './server.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

/** What an event says, shortly. */
const short = (event: LogEvent) => {
  if (event.kind === 'end') return [event.operation, 'end', event.end, event.status ?? event.error, event.attempts];
  const { purpose, outcome, verdict } = event.attempt;
  const status = outcome.kind === 'responded' ? outcome.status : outcome.kind;
  const then =
    verdict.kind === 'retry' ? [verdict.reason, verdict.wait] : verdict.kind === 'return' ? [verdict.reason] : [];
  return [event.operation, purpose, status, verdict.kind, ...then];
};

describe.each(transports)('the log over %s', (transport) => {
  const logged = async (call: (opts: ConnectionOpts) => Promise<unknown>, opts: ConnectionOpts) => {
    const events: LogEvent[] = [];
    const ended = await call({ ...opts, transport, log: (event) => events.push(event) }).catch((error) => error);
    return { events, told: events.map(short), ended };
  };

  test('is told of waits, replays, retries, refusals and the end', async () => {
    using server = await serve({ status: 503, headers: { 'retry-after': '0' } }, 425, 'cut', 200);
    const { told, events } = await logged((opts) => Sandbox.getInfo('i1', opts), server.opts);
    expect(told).toEqual([
      ['getSandbox', 'call', 503, 'retry', 'status', 'retry_after'],
      ['getSandbox', 'call', 425, 'retry', 'refused', expect.any(String)],
      ['getSandbox', 'call', 'sent_unknown', 'retry', 'permitted', 'backoff'],
      ['getSandbox', 'call', 200, 'return', 'success'],
      ['getSandbox', 'end', 'answered', 200, 4],
    ]);
    expect(events.at(-1)).toMatchObject({
      method: 'GET',
      url: `${server.opts.apiUrl}/sandboxes/i1`,
      reason: 'success',
    });
  });

  test('is told of what failed: nothing sent, unknown, aborted, too late', async () => {
    const nobody = { apiUrl: `http://127.0.0.1:${await freePort()}`, apiKey: 'k', connectionRetries: 0 };
    expect((await logged((opts) => Secret.update('s', 'v', opts), nobody)).events).toMatchObject([
      { kind: 'attempt', attempt: { outcome: { kind: 'not_sent' }, verdict: { reason: 'connection_retries_used' } } },
      { kind: 'end', end: 'failed', reason: 'connection_retries_used', mayHaveBeenProcessed: false, attempts: 1 },
    ]);
    using server = await serve('cut', 'silent');
    expect((await logged((opts) => Secret.update('s', 'v', opts), server.opts)).events).toMatchObject([
      { kind: 'attempt', attempt: { outcome: { kind: 'sent_unknown' }, verdict: { reason: 'no_permit' } } },
      { kind: 'end', end: 'failed', reason: 'no_permit', mayHaveBeenProcessed: true },
    ]);
    const control = new AbortController();
    const aborting = logged((opts) => Secret.update('s', 'v', opts), { ...server.opts, signal: control.signal });
    await until(() => server.seen.length === 2);
    control.abort(new DOMException('late', 'TimeoutError'));
    const gone = (await aborting).events.at(-1);
    expect(gone).toMatchObject({ kind: 'end', end: 'aborted', error: 'TimeoutError', mayHaveBeenProcessed: true });
    const late = { ...server.opts, requestTimeoutMs: 1_500 };
    const over = (await logged((opts) => Secret.update('s', 'v', opts), late)).events.at(-1);
    expect(over).toMatchObject({ kind: 'end', end: 'failed', error: 'TimeoutError', mayHaveBeenProcessed: true });
  });

  test('is told of a create, and of how it was found out what became of it', async () => {
    using server = await serve('cut', 404);
    const opts = { ...server.opts, lookups: 1, settleMs: 200, idempotencyKeys: 'ignored' as const };
    const { told, ended } = await logged((each) => Sandbox.create(each), opts);
    expect(ended).toBeInstanceOf(OutcomeUnknownError);
    expect(told).toEqual([
      ['createSandbox', 'call', 'sent_unknown', 'reconcile'],
      ['listSandboxes', 'look_up', 404, 'return', expect.any(String)],
      ['createSandbox', 'end', 'failed', 'CreateUnknown', 2],
    ]);
  });

  test('a logger is told in words and in fields, and what it throws is ignored', async () => {
    using server = await serve(503, 200);
    const lines: unknown[][] = [];
    const logger = {
      debug: (...line: unknown[]) => {
        lines.push(line);
        throw new Error('of the logger');
      },
    };
    await Sandbox.getInfo('i1', { ...server.opts, transport, logger });
    expect(lines.map(([text]) => text)).toEqual([
      expect.stringMatching(
        /^GET http.*\/sandboxes\/i1, attempt 1 at .* answered 503; sent again: this status is retried/,
      ),
      expect.stringMatching(/attempt 2 at .* answered 200; ended: success$/),
      expect.stringMatching(/^GET http.*\/sandboxes\/i1: answered 200 after 2 attempts, \d+\.\d+ s$/),
    ]);
    expect(lines[0]?.[1]).toMatchObject({ kind: 'attempt', attempt: { number: 1 } });
  });

  test('is told nothing that is secret', async () => {
    vi.stubEnv('E2B_API_KEY', 'hunter2-env');
    using server = await serve('cut', 503, 200, 'cut', 'cut', 404);
    const nobody = await freePort();
    const secrets = {
      apiHeaders: { 'X-Own': 'hunter2-header' },
      requestHeaders: { Cookie: 'hunter2-cookie' },
      apiUrl: server.opts.apiUrl,
      sandboxUrl: server.opts.apiUrl,
      lookups: 1,
      settleMs: 200,
    };
    const calls: [(opts: ConnectionOpts) => Promise<unknown>, ConnectionOpts][] = [
      [(opts) => Sandbox.getInfo('i1', opts), secrets],
      [(opts) => Secret.create('s', 'hunter2-value', opts), { ...secrets, apiUrl: `http://127.0.0.1:${nobody}` }],
      [(opts) => Sandbox.create({ ...opts, envs: { A: 'hunter2-envs' } }), secrets],
    ];
    const all: LogEvent[] = [];
    for (const [call, opts] of calls) all.push(...(await logged(call, { ...opts, connectionRetries: 1 })).events);
    const send = withRetry(openTransport({ transport }), { retries: 1, log: (event) => all.push(event) });
    const headers = { Authorization: 'Bearer hunter2-bearer' };
    for (const at of [`${server.opts.apiUrl}/x`, `http://127.0.0.1:${nobody}/x`, 'http://127.0.0.1:1/']) {
      await send(`${at}?token=hunter2-query#hunter2-hash`, { method: 'PUT', body: 'hunter2-body', headers }).catch(
        () => {},
      );
    }
    expect(all.length).toBeGreaterThan(15);
    expect(JSON.stringify(all)).not.toMatch(/hunter2/);
  });
});

test('a URL in the words of an error is told without its query', async () => {
  const events: LogEvent[] = [];
  const words = 'error sending request for url (http://me:hunter2@127.0.0.1:1/x?token=hunter2#hunter2)';
  const fetch = async () => {
    throw new TypeError(words);
  };
  await withRetry(fetch, { retries: 0, log: (event) => events.push(event) })('http://127.0.0.1:1/x').catch(() => {});
  expect(JSON.stringify(events)).not.toMatch(/hunter2/);
  expect(JSON.stringify(events)).toContain('for url (http://127.0.0.1:1/x)');
});
