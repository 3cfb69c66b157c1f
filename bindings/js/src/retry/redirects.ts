/**
 * Redirects, followed here rather than by `fetch`: what that throws does not say whether an answer had come before. A POST that was
 * carried out and answered by a redirect to where nobody listens would look as if it had not been sent.
 */

import { platform } from '#platform';
import { type Attempt, attemptsOf, withHistory } from './history.ts';
import { type FetchInput, isRequest, type Repeatable } from './request.ts';

/** Fetch Standard, HTTP-redirect fetch. */
const MOST_REDIRECTS = 20;
const STATUSES = [301, 302, 303, 307, 308];
const OF_BODIES = ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length'];
const OF_ORIGINS = ['authorization', 'proxy-authorization', 'cookie', 'host'];

/** A request, as it is given to `fetch`. */
export type Given = readonly [input: FetchInput, init: RequestInit | undefined];

/**
 * Whether redirects of a request are followed here. Browsers and Workers show none, and none of their errors is taken for proof
 * that nothing was sent.
 */
export function isFollowedHere([input, init]: Given): boolean {
  const mode = init?.redirect ?? (isRequest(input) ? (input as Request).redirect : undefined) ?? 'follow';
  return mode === 'follow' && ['node', 'bun', 'deno'].includes(platform.runtime());
}

/** A request whose redirects are shown. */
export function shownRedirects([input, init]: Given): Given {
  return [input, { ...init, redirect: 'manual' }];
}

/**
 * The request that an answer redirects to; undefined: it redirects to none.
 *
 * @param hops how many redirects were followed before
 * @throws TypeError where `fetch` would.
 */
export async function redirected(
  [input, init]: Given,
  sent: Pick<Repeatable, 'method' | 'url' | 'headers' | 'body' | 'content'>,
  response: Response,
  hops: number,
): Promise<Given | undefined> {
  const location = STATUSES.includes(response.status) ? response.headers.get('location') : null;
  if (location === null) return undefined;
  const fail = (why: string): never => {
    throw new TypeError('fetch failed', { cause: new Error(`redirected by ${response.status}: ${why}`) });
  };
  if (hops >= MOST_REDIRECTS) fail(`more than ${MOST_REDIRECTS} times`);
  const from = new URL(sent.url);
  const to = URL.canParse(location, from) ? new URL(location, from) : fail('its Location is no URL');
  if (to.protocol !== 'http:' && to.protocol !== 'https:') fail(`${to.protocol} is not followed`);
  if (to.hash === '') to.hash = from.hash;
  const becomesGet =
    response.status === 303
      ? sent.method !== 'GET' && sent.method !== 'HEAD'
      : response.status <= 302 && sent.method === 'POST';
  if (!becomesGet && sent.body === 'stream') fail('its body is a stream, which is sent once');
  const headers = new Headers(sent.headers);
  for (const name of becomesGet ? OF_BODIES : []) headers.delete(name);
  for (const name of to.origin === from.origin ? [] : OF_ORIGINS) headers.delete(name);
  const next: RequestInit = { ...init, headers, method: becomesGet ? 'GET' : sent.method };
  if (isRequest(input)) next.signal = init?.signal === undefined ? input.signal : init.signal;
  delete next.body;
  if (!becomesGet && sent.body !== 'none') {
    next.body = sent.content ?? (await (input as Request).clone().arrayBuffer());
  }
  return [to.href, next];
}

/** What came of a redirected request, with the history of all that led to it. */
export function withEarlier<T>(value: T, earlier: readonly Attempt[], seconds: number, own = true): T {
  const later = attemptsOf(value).map((attempt) => ({
    ...attempt,
    number: earlier.length + attempt.number,
    started: attempt.started + seconds,
    ended: attempt.ended + seconds,
  }));
  return withHistory(value, Object.freeze([...earlier, ...later]), own);
}
