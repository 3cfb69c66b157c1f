import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Sandbox } from '../../src/index.ts';
import { FaultServer, LocalServer, useServer } from '../../src/testing.ts';
import { built } from '../support/built.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('testing kit', 'program');

const headers = { 'x-api-key': 'local', 'content-type': 'application/json' };
const create = (url: string, intent: string) => {
  const body = JSON.stringify({ templateID: 'base', metadata: { 'oncebox.intent': intent } });
  return fetch(`${url}/sandboxes`, { method: 'POST', headers: { ...headers, 'idempotency-key': intent }, body });
};

describe.skipIf(skip)('testing kit', () => {
  const server = useServer({ before: beforeAll, after: afterAll }, { isolation: false });

  test('it misbehaves as it is told, and counts what really happened', async () => {
    await server().misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
    await expect(create(server().url, 'a'.repeat(32))).rejects.toThrow('fetch failed');
    const { counts, doubled, effects } = await server().effects();
    expect(Object.values(counts)).toEqual([1]);
    expect(doubled).toEqual({});
    expect(effects.length).toBe(1);
    expect((await create(server().url, 'b'.repeat(32))).status).toBe(201);
    await server().reset();
    expect((await server().effects()).effects).toEqual([]);
    expect(server().env).toEqual({ E2B_API_URL: server().url, E2B_SANDBOX_URL: server().url, E2B_API_KEY: 'local' });
  });

  test('a program that says what is no JSON is no server, and nobody else is disturbed', async () => {
    for (const startTimeout of [undefined, Number.POSITIVE_INFINITY]) {
      const start = LocalServer.start({ program: '/bin/echo', startTimeout });
      await expect(start).rejects.toThrow('its first line is no JSON');
    }
  });

  // As in docs/javascript.md.
  test('a create whose answer is lost is one sandbox', async () => {
    await server().misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
    await Sandbox.create({ apiUrl: server().url, sandboxUrl: server().url, apiKey: 'local' });
    const { counts, doubled } = await server().effects();
    expect([counts.createSandbox, doubled]).toEqual([1, {}]);
    await server().reset();
  });

  test('a mistake in a document is refused with its place', async () => {
    const wrong = server().misbehave({ rules: [{ on: ['creat'], fault: { cut: {} } }] });
    await expect(wrong).rejects.toThrow('rules[0].on[0]');
  });

  test('a peer that stands before a server reports what it passed on', async () => {
    await using peer = await FaultServer.start(
      { rules: [{ at: 'received', when: { count: 1 }, do: [{ answer: { status: 503 } }] }] },
      { to: server().url },
    );
    const list = () => fetch(`${peer.url}/sandboxes`, { headers });
    expect([(await list()).status, (await list()).status]).toEqual([503, 200]);
    expect((await peer.stop()).totals.heads).toBe(2);
  });

  test('what cannot start says why', async () => {
    await expect(LocalServer.start({ program: '/nowhere/oncebox' })).rejects.toThrow('/nowhere/oncebox is no program');
    await expect(FaultServer.start('no-such-script')).rejects.toThrow('no-such-script');
    await expect(LocalServer.start({ args: ['--no-such-option'] })).rejects.toThrow('no-such-option');
    const never = () => useServer({ before: () => {}, after: () => {} })();
    expect(never).toThrow('has not started');
  });

  test('it stops with its process, also where that is killed', async () => {
    await using code = await built(
      ['LocalServer'],
      '../../src/testing.ts',
      `const server = await LocalServer.start({ isolation: false }); console.log(server.url); setInterval(() => {}, 1000);`,
    );
    const child = spawn(process.execPath, [code.file], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [url] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
    expect((await fetch(`${url.trim()}/health`)).status).toBeLessThan(500);
    child.kill('SIGKILL');
    const isGone = () =>
      fetch(`${url.trim()}/health`).then(
        () => false,
        () => true,
      );
    await expect.poll(isGone, { timeout: 20_000 }).toBe(true);
  });

  test('node:test runs with it, and its process ends by itself', async () => {
    await using code = await built(
      ['useServer'],
      '../../src/testing.ts',
      `
        import { after, before, test } from 'node:test';
        const server = useServer({ before, after }, { isolation: false });
        test('serves', async () => {
          const { counts } = await server().effects();
          if (Object.keys(counts).length > 0) throw new Error('counted');
        });
      `,
    );
    const { stdout } = await promisify(execFile)(process.execPath, ['--test', code.file], { timeout: 25_000 });
    expect(stdout).toContain('# pass 1');
  });
});
