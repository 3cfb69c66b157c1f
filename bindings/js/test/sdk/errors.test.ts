/** What errors say of answers. */

import { expect, test } from 'vitest';
import { RateLimitError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
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
