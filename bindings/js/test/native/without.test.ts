import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { capabilities, openTransport } from '../../src/index.ts';

// Looked at once, when the first call needs to know.
const before = process.env.ONCEBOX_NATIVE;
process.env.ONCEBOX_NATIVE = 'off';
const OFF = 'ONCEBOX_NATIVE is "off"';

afterAll(() => {
  if (before === undefined) delete process.env.ONCEBOX_NATIVE;
  else process.env.ONCEBOX_NATIVE = before;
});

afterEach(() => {
  vi.restoreAllMocks();
});

test('without the addon requests go over fetch, and what is lost is told', async () => {
  expect(capabilities()).toEqual({
    runtime: 'node',
    transport: 'fetch',
    whyNotNative: OFF,
    evidence: 'by_error',
    replaysStreams: false,
    poolsConnections: false,
    configuresConnections: false,
    localFiles: true,
  });
  const global = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('global'));
  expect(await (await openTransport()('http://x/')).text()).toBe('global');
  expect(global).toHaveBeenCalledOnce();
});

test('what only the addon has is refused rather than lost', () => {
  expect(() => openTransport({ transport: 'native' })).toThrow(`transport: 'native' cannot be used: ${OFF}`);
  expect(() => openTransport({ rootCertificates: 'x' })).toThrow(
    `rootCertificates: only the native transport has this; it cannot be used: ${OFF}`,
  );
  expect(() => openTransport({ proxy: 'http://p:1' })).toThrow('proxy: only the native transport');
});
