/** Secrets that somebody else may have repeated. */

import { segment } from './endpoints.ts';

/** Secrets of so many characters are taken out wherever they stand. */
const TELLING = 4;

const MASK = '…';

/** How often what was escaped may have been escaped again: JSON in a text of JSON. */
const ESCAPED = 3;

/** How deep an error's causes are looked into. */
const DEEP = 8;

/** What is not to be told: one text, or several. */
export type Secrets = string | readonly string[];

/**
 * A text without secrets, also where it is escaped: a value of several lines is one line in JSON, and a password in a URL has
 * signs of its own. One of a few characters is part of many words that have nothing to do with it: it is taken out where it
 * stands for itself, so that the rest can be read.
 *
 * What is cut or changed must be masked before: of what is left of a secret then nobody knows that it is one.
 */
export function masked(text: string, secrets: Secrets): string {
  let rest = text;
  for (const spelling of spellings(secrets)) {
    for (let depth = 0; depth <= ESCAPED; depth++) {
      let read: Read = { text: rest };
      for (let level = 0; level < depth; level++) read = unescaped(read);
      rest = taken(rest, spelling, read);
      if (!read.text.includes('\\')) break;
    }
  }
  return rest;
}

/** An error in which secrets are not told: not in its message, its stack and what else it holds, nor by its cause. */
export function without(error: unknown, secret: Secrets): unknown {
  if (!(error instanceof Error)) return error;
  const { message: told, stack } = error;
  const message = masked(told, secret);
  if (message !== told) {
    error.message = message;
    // It begins with the message, and is what is printed.
    if (typeof stack === 'string') error.stack = stack.replaceAll(told, () => message);
  }
  // What a command wrote, and how a server calls its error.
  const held = error as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(held)) {
    if (name === 'result' && typeof value === 'object') held[name] = withoutIn(value ?? {}, secret);
    else if (name !== 'name' && tells(value, secret) && typeof value === 'string') held[name] = masked(value, secret);
  }
  if (message !== told || tells(error.cause, secret)) delete error.cause;
  return error;
}

function withoutIn(result: object, secret: Secrets): object {
  const texts = Object.entries(result).map(([name, value]) => [
    name,
    typeof value === 'string' ? masked(value, secret) : value,
  ]);
  return Object.fromEntries(texts);
}

/** Whether a value, or what is in it, tells a secret. */
function tells(value: unknown, secret: Secrets, depth = 0): boolean {
  if (typeof value === 'string') return masked(value, secret) !== value;
  if (typeof value !== 'object' || value === null || depth === DEEP) return false;
  const names = Object.getOwnPropertyNames(value);
  return names.some((name) => tells((value as Record<string, unknown>)[name], secret, depth + 1));
}

/** How secrets may be written, the longest first. */
function spellings(secrets: Secrets): readonly string[] {
  const all = typeof secrets === 'string' ? spellingsOf(secrets) : secrets.flatMap(spellingsOf);
  return [...new Set(all)].filter((each) => each !== '').sort((one, other) => other.length - one.length);
}

function spellingsOf(secret: string): string[] {
  const all = [secret, secret.trim()];
  // Of half a character there is no URL.
  if (!/\p{Surrogate}/u.test(secret)) {
    for (const encoded of [encodeURIComponent(secret), segment(secret)]) {
      all.push(
        encoded,
        encoded.replace(/%../g, (sign) => sign.toLowerCase()),
      );
    }
  }
  return all;
}

/** A text as it reads, and where each of its characters begins in the one that it was read from. */
interface Read {
  readonly text: string;
  /** One more than there are characters: the last is the end. Absent: it is as it was written. */
  readonly at?: readonly number[];
}

const ESCAPE = /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([\s\S]))/giy;

const LETTERS: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '0': '\0' };

/** A text without its escapes, as JSON and most languages have them. */
function unescaped(read: Read): Read {
  const { text, at } = read;
  let out = '';
  const places: number[] = [];
  for (let index = 0; index < text.length; ) {
    ESCAPE.lastIndex = index;
    const found = text[index] === '\\' ? ESCAPE.exec(text) : null;
    const [all = text[index] ?? '', braced, four, two, letter = ''] = found ?? [];
    const code = Number.parseInt(braced ?? four ?? two ?? '', 16);
    const isCode = found !== null && code <= 0x10ffff;
    const char = found === null ? all : isCode ? String.fromCodePoint(code) : (LETTERS[letter] ?? letter);
    for (let unit = 0; unit < char.length; unit++) places.push(at?.[index] ?? index);
    out += char;
    index += all.length;
  }
  places.push(at?.[text.length] ?? text.length);
  return { text: out, at: places };
}

/** A text without a secret that can be read in it. */
function taken(text: string, secret: string, read: Read): string {
  const isTelling = [...secret].length >= TELLING;
  const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{Alphabetic}\p{N}]/u.test(char);
  const { text: plain, at } = read;
  let [out, done] = ['', 0];
  for (let found = plain.indexOf(secret); found >= 0; found = plain.indexOf(secret, found + secret.length)) {
    const end = found + secret.length;
    const [from, to] = [at?.[found] ?? found, at?.[end] ?? end];
    if (!isTelling && (isWord([...plain.slice(0, found)].at(-1)) || isWord([...plain.slice(end)].at(0)))) continue;
    out += text.slice(done, from) + MASK;
    done = to;
  }
  return out + text.slice(done);
}
