/** Downloads that are cut and gone on with, by the answers alone. */

import { expect, test } from 'vitest';
import { CannotResumeError, ServiceBusyError } from '../../src/sdk/errors.ts';
import { type Get, readWhole } from '../../src/sdk/files/download.ts';

const OLD = { 'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT', date: 'Wed, 01 Jan 2025 00:00:00 GMT' };
const OPTS = { action: 'read the file f', gzip: false, idleMs: 0 };

/** Answers one after the other, and what was asked for. */
function answers(...all: (Response | Error)[]): { get: Get; asked: (string | undefined)[] } {
  const asked: (string | undefined)[] = [];
  const get: Get = async (headers) => {
    const answer = all[asked.length];
    asked.push(headers.Range);
    if (answer === undefined) throw new Error('nothing more is answered');
    if (answer instanceof Error) throw answer;
    return { headers: answer.headers, status: answer.status, response: answer };
  };
  return { get, asked };
}

/** The first five bytes of ten, and the cut of a connection. */
function half(): Response {
  let told = false;
  const body = new ReadableStream({
    pull(controller) {
      if (told) controller.error(new Error('reset'));
      else controller.enqueue(new TextEncoder().encode('01234'));
      told = true;
    },
  });
  return new Response(body, { headers: { ...OLD, 'content-length': '10' } });
}

const part = (range: string, text: string, headers: Record<string, string> = OLD) =>
  new Response(text, { status: 206, headers: { ...headers, 'content-range': `bytes ${range}/10` } });

test('what was told apart by its time is asked for once more at the end', async () => {
  const { get, asked } = answers(half(), part('5-9', '56789'), part('0-0', '0'));
  expect(new TextDecoder().decode(await readWhole(get, OPTS))).toBe('0123456789');
  expect(asked).toEqual([undefined, 'bytes=5-', 'bytes=0-0']);
});

test('where that cannot be asked, nothing is handed out as the same file', async () => {
  const busy = new ServiceBusyError('busy');
  const { get, asked } = answers(half(), part('5-9', '56789'), busy);
  await expect(readWhole(get, OPTS)).rejects.toBe(busy);
  expect(asked).toEqual([undefined, 'bytes=5-', 'bytes=0-0']);
});

test('where it changed meanwhile, it is read anew', async () => {
  const changed = { ...OLD, 'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT' };
  const whole = new Response('abcdefghij', { headers: { ...changed, 'content-length': '10' } });
  const { get } = answers(half(), part('5-9', '56789'), part('0-0', 'a', changed), whole);
  expect(new TextDecoder().decode(await readWhole(get, OPTS))).toBe('abcdefghij');
  const always = answers(...Array.from({ length: 6 }, () => [half(), new Response('all of it')]).flat());
  await expect(readWhole(always.get, OPTS)).rejects.toBeInstanceOf(CannotResumeError);
});
