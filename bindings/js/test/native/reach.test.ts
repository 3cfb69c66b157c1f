import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { capabilities } from '../../src/index.ts';
import { native } from '../../src/native/index.ts';
import { addonPackages } from '../../src/native/load.ts';
import { carriesOutcome } from '../../src/native/protocol.ts';
import { FaultServer } from '../../src/testing.ts';
import { openTransport } from '../../src/transport.ts';
import { tools } from '../support/tools.ts';

const { skip } = tools('native transport: reach', 'program', 'addon');

afterEach(() => {
  vi.restoreAllMocks();
});

describe.skipIf(skip)('native transport: reach', () => {
  test('a certificate is trusted when it is given, and refused before anything is sent when it is not', async () => {
    await using server = await FaultServer.start({}, { tls: true });
    const trusting = native.open({ rootCertificates: server.ca, proxy: false });
    expect((await trusting(`${server.url}/`)).status).toBe(200);
    const outcome = await native
      .open({ proxy: false, connectTimeoutMs: 2000 })(`${server.url}/`, { headers: {} })
      .then(
        () => undefined,
        (error) => carriesOutcome(error) && error.outcome,
      );
    expect(outcome).toMatchObject({ kind: 'not_sent', phase: 'tls' });
    const report = await server.stop();
    expect(report.totals.heads).toBe(1);
    expect(report.connections.some((connection) => connection.version === '2')).toBe(true);
  });

  test('requests go through a proxy', async () => {
    const seen: (string | undefined)[] = [];
    const proxy = createServer((request, response) => {
      seen.push(request.url);
      forward(request.url ?? '', { method: request.method }, (answer) => answer.pipe(response)).end();
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    await using server = await FaultServer.start({});
    expect((await native.open({ proxy: address })(`${server.url}/through`)).status).toBe(200);
    expect((await native.open({ proxy: false })(`${server.url}/direct`)).status).toBe(200);
    expect(
      (await native.open({ proxy: { url: address, except: '127.0.0.0/8' } })(`${server.url}/excepted`)).status,
    ).toBe(200);
    expect(seen).toEqual([`${server.url}/through`]);
    proxy.closeAllConnections();
    proxy.close();
  });

  test('what cannot be is refused before any I/O', async () => {
    const options = (given: object) => () => native.open(given);
    expect(options({ httpVersoin: '2' })).toThrow('httpVersoin');
    expect(options({ connectTimeoutMs: -1 })).toThrow('connectTimeout');
    expect(options({ proxy: 'ftp://x' })).toThrow('proxy');
    expect(options({ rootCertificates: 'nonsense' })).toThrow('rootCertificates: it holds no certificate');
    const fetch = native.open({});
    const url = 'http://127.0.0.1:1/';
    await expect(fetch('ftp://x/')).rejects.toThrow('ftp:');
    await expect(fetch('http://user:secret@x/')).rejects.toThrow('credentials');
    await expect(fetch(url, { method: 'GET', body: 'x' })).rejects.toThrow('no body');
    await expect(fetch(url, { integrity: 'sha256-x' })).rejects.toThrow('integrity');
    await expect(fetch(url, { method: 'A B' })).rejects.toThrow('no method');
    // It would name another server, which would get the headers.
    await expect(fetch(url, { method: 'GET\nhttp://127.0.0.1:2/\nx-a' })).rejects.toThrow('no method');
    await expect(fetch(url, { method: 'trace' })).rejects.toThrow('forbids');
  });

  test('bodies and headers arrive as fetch sends them', async () => {
    const server = createServer(async (request, response) => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const { method, headers } = request;
      response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'], 'x-latin': 'caf\u00e9' });
      response.end(JSON.stringify({ method, headers, body: Buffer.concat(pieces).toString() }));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const fetch = native.open({ proxy: false });
    const echo = async (init: RequestInit, input: RequestInfo = url) => (await fetch(input, init)).json();
    expect(await echo({ method: 'post', body: 'h\u00e9' })).toMatchObject({
      method: 'POST',
      body: 'h\u00e9',
      headers: { 'content-type': 'text/plain;charset=UTF-8', 'content-length': '3', accept: '*/*' },
    });
    expect(await echo({ method: 'PUT', body: new URLSearchParams({ a: 'b c' }) })).toMatchObject({
      body: 'a=b+c',
      headers: { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' },
    });
    const form = new FormData();
    form.set('file', new Blob(['data']), 'f.txt');
    const sent = await echo({ method: 'POST', body: form });
    expect(sent.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(sent.body).toContain('data');
    const request = new Request(url, {
      method: 'PATCH',
      body: new Uint8Array([65, 66]),
      headers: { 'x-a': 'caf\u00e9' },
    });
    expect(await echo({}, request)).toMatchObject({ method: 'PATCH', body: 'AB', headers: { 'x-a': 'caf\u00e9' } });
    async function* pieces() {
      yield new TextEncoder().encode('one,');
      yield new TextEncoder().encode('two');
    }
    expect(await echo({ method: 'POST', body: pieces() as unknown as BodyInit })).toMatchObject({ body: 'one,two' });
    const response = await fetch(url);
    expect(response.url).toBe(url);
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(response.headers.get('x-latin')).toBe('caf\u00e9');
    await response.text();
    expect(await (await fetch(url, { method: 'HEAD' })).text()).toBe('');
    server.closeAllConnections();
    server.close();
  });

  test('native where it loads, fetch where it is asked for, and no option is lost in silence', async () => {
    expect(capabilities()).toMatchObject({
      transport: 'native',
      evidence: 'exact',
      replaysStreams: true,
      whyNotNative: undefined,
    });
    const global = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('global'));
    expect(await (await openTransport({ transport: 'fetch' })('http://x/')).text()).toBe('global');
    expect(global).toHaveBeenCalledOnce();
    expect(() => openTransport({ transport: 'fetch', proxy: 'http://p:1' })).toThrow(
      'proxy: only the native transport',
    );
    expect(() => openTransport({ fetch: globalThis.fetch, rootCertificates: 'x' })).toThrow(
      'rootCertificates: only the native transport',
    );
    expect(() => openTransport({ transport: 'fetch', requestTimeoutMs: 5 })).toThrow(
      'requestTimeoutMs: only the native',
    );
    expect(() => openTransport({ transport: 'other' as never })).toThrow('neither');
  });
});

test('each platform has a package of its own name', () => {
  expect(addonPackages('linux', 'x64')).toEqual(['oncebox-linux-x64-gnu', 'oncebox-linux-x64-musl']);
  expect(addonPackages('darwin', 'arm64')).toEqual(['oncebox-darwin-arm64']);
  expect(addonPackages('win32', 'x64')).toEqual(['oncebox-win32-x64-msvc']);
  expect(addonPackages('linux', 'riscv64')).toEqual([]);
});
