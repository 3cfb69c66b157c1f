/** What errors say of answers. */

import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { InvalidArgumentError, RateLimitError } from '../../src/sdk/errors.ts';
import { masked, without } from '../../src/sdk/masked.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { Secret } from '../../src/sdk/secret.ts';
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
  ['ä?', 'ä', '…?'],
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
