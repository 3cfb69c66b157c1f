/** `spec/options.json` against the package: the names it has, the defaults, and what a wrong value says. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Creates } from '../../src/create/creates.ts';
import { ConnectionConfig, InvalidArgumentError, openTransport } from '../../src/index.ts';
import { loadEngine } from '../../src/policy/engine.ts';
import { Caller } from '../../src/retry/caller.ts';
import { DEFAULT_REQUEST_TIMEOUT_MS } from '../../src/retry/options.ts';
import { withRetry } from '../../src/retry.ts';
import { nativeOptionsOf } from '../../src/sdk/options.ts';
import { whyNotNative } from '../../src/transport.ts';

type Wrong = { value: unknown; error: string };
type Option = {
  name: string;
  kind: string;
  default?: unknown;
  typescript?: false | string | string[];
  wrong?: { typescript?: Wrong };
};
type Table = { kinds: Record<string, { typescript?: Wrong }>; sections: { id: string; options: Option[] }[] };

const FILE = fileURLToPath(new URL('../../../../spec/options.json', import.meta.url));
const table: Table = JSON.parse(readFileSync(FILE, 'utf8'));

/** The options of a section that are there in TypeScript, by their names there. */
function options(id: string): [string, Option][] {
  const all = table.sections.find((section) => section.id === id)?.options ?? [];
  return all.flatMap((option) => names(option).map((name): [string, Option] => [name, option]));
}

function names({ name, kind, typescript }: Option): string[] {
  if (typescript === false) return [];
  if (typescript !== undefined) return [typescript].flat();
  const camel = name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return [kind === 'time' ? `${camel}Ms` : camel];
}

const namesOf = (...ids: string[]): string[] => [...new Set(ids.flatMap((id) => options(id).map(([name]) => name)))];

/** What takes options, and throws what is wrong with them before anything is sent. */
const FRONTS: Record<string, (options: object) => unknown> = {
  client: (given) => new ConnectionConfig({ apiKey: 'k', ...given }),
  transport: (given) => openTransport(given),
  retry: (given) => withRetry(globalThis.fetch, given),
};

function thrown(front: string, given: object): Error {
  try {
    FRONTS[front]?.(given);
  } catch (error) {
    expect(error).toBeInstanceOf(front === 'client' ? InvalidArgumentError : TypeError);
    return error as Error;
  }
  throw new Error(`${JSON.stringify(given)} was taken`);
}

beforeEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith('E2B_')) vi.stubEnv(name, undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('names', () => {
  // What decides about repeats, and clocks for tests, are sections of their own.
  const SECTIONS = { client: ['client', 'policy', 'clock'], transport: ['transport'], retry: ['retry', 'policy'] };
  const CLOCK = ['random', 'sleep', 'now'];

  test.each(Object.entries(SECTIONS))('of %s are those that are taken', (front, sections) => {
    const [, told = ''] =
      thrown(front, { 'not at all what any of them is called': 1 }).message.match(/there are (.*)\)/) ?? [];
    const listed = [...namesOf(...sections), ...(sections.includes('clock') ? CLOCK : [])];
    // These two are looked at apart from the native transport's.
    const apart = front === 'transport' ? ['transport', 'fetch'] : [];
    expect([...told.split(', '), ...apart].sort()).toEqual([...new Set(listed)].sort());
  });
});

describe('defaults', () => {
  /** The table's, in milliseconds where it is a time. */
  const listed = (id: string) =>
    Object.fromEntries(
      options(id)
        .filter(([, option]) => option.default !== undefined)
        .map(([name, { kind, default: value }]) => [name, kind === 'time' ? (value as number) * 1000 : value]),
    );

  test('of clients', () => {
    const config = new ConnectionConfig({ apiKey: 'k' }) as unknown as Record<string, unknown>;
    const held = ['domain', 'debug', 'requestTimeoutMs', 'readIdleTimeoutMs', 'retries'];
    expect(Object.fromEntries(held.map((name) => [name, config[name]]))).toEqual(
      Object.fromEntries(held.map((name) => [name, listed('client')[name]])),
    );
  });

  test('of creates', () => {
    const creates = new Creates(new Caller(), () => new Request('http://x/') as never) as unknown as {
      options: object;
    };
    const held = Object.keys(creates.options);
    expect(held).toEqual(['idempotencyKeys', 'settleMs', 'cleanupTimeoutMs']);
    expect(creates.options).toEqual(Object.fromEntries(held.map((name) => [name, listed('client')[name]])));
  });

  test('of the policy', async () => {
    const { preset, ...others } = listed('policy');
    expect((await loadEngine()).preset(preset as 'default')).toEqual(others);
  });

  test('of withRetry', () => {
    expect(DEFAULT_REQUEST_TIMEOUT_MS).toBe(listed('retry').requestTimeoutMs);
  });

  test('of the native transport are left to Rust, where a test holds them', () => {
    expect(nativeOptionsOf({})).toEqual({});
  });
});

describe.each(Object.keys(FRONTS))('a wrong value of %s', (front) => {
  const sections = front === 'transport' ? ['transport'] : [front, 'policy'];
  const cases = sections.flatMap(options).flatMap(([name, option]) => {
    const wrong = option.wrong ? option.wrong.typescript : table.kinds[option.kind]?.typescript;
    return wrong ? [{ name, value: wrong.value, error: wrong.error.replace('{name}', name) }] : [];
  });

  test('there are some', () => {
    expect(cases.length).toBeGreaterThan(14);
  });

  // What only the addon can look at.
  const isForAddon = (name: string) => ['proxy', 'rootCertificates', 'clientCertificate'].includes(name);
  const [here, elsewhere] = [cases, cases].map((all, at) => all.filter(({ name }) => isForAddon(name) === (at === 1)));

  test.each(here ?? [])('$name', ({ name, value, error }) => {
    expect(thrown(front, { [name]: value }).message).toBe(error);
  });

  test.skipIf(whyNotNative() !== undefined).each(elsewhere ?? [])('$name', ({ name, value, error }) => {
    expect(thrown(front, { [name]: value }).message).toBe(error);
  });
});
