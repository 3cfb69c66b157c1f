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
  let reads = new Reads(text);
  // The longest first, however deep it is escaped: what is part of another one leaves no rest of that.
  for (const spelling of spellings(secrets)) {
    for (let depth = 0; depth <= ESCAPED; depth++) {
      const read = reads.at(depth);
      if (read === undefined) break;
      const rest = taken(reads.text, spelling, read);
      if (rest !== reads.text) reads = new Reads(rest);
    }
  }
  return reads.text;
}

/** A text, and how it reads without its escapes, and without theirs. Each is made once, and when it is asked for. */
class Reads {
  private readonly all: Read[];

  constructor(readonly text: string) {
    this.all = [{ text }];
  }

  /** Absent: nothing is escaped so often. */
  at(depth: number): Read | undefined {
    for (let last = this.all.at(-1); this.all.length <= depth; last = this.all.at(-1)) {
      if (!last?.text.includes('\\')) return undefined;
      this.all.push(unescaped(last));
    }
    return this.all[depth];
  }
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
  readonly at?: Uint32Array;
}

const ESCAPE = /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([\s\S]))/giy;

const LETTERS: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '0': '\0' };

/** A text without its escapes, as JSON and most languages have them. */
function unescaped({ text, at }: Read): Read {
  const parts: string[] = [];
  // No escape is shorter than what it stands for.
  const places = new Uint32Array(text.length + 1);
  let length = 0;
  const take = (part: string, from: number, step: 0 | 1): void => {
    for (let unit = 0; unit < part.length; unit++, length++) {
      const place = from + unit * step;
      places[length] = at?.[place] ?? place;
    }
    parts.push(part);
  };
  for (let index = 0; index < text.length; ) {
    const next = text.indexOf('\\', index);
    const plain = text.slice(index, next < 0 ? text.length : next);
    take(plain, index, 1);
    index += plain.length;
    if (next < 0) break;
    ESCAPE.lastIndex = index;
    // A text may end with the sign alone.
    const [all = '\\', braced, four, two, letter = all] = ESCAPE.exec(text) ?? [];
    const code = Number.parseInt(braced ?? four ?? two ?? '', 16);
    take(code <= 0x10ffff ? String.fromCodePoint(code) : (LETTERS[letter] ?? letter), index, 0);
    index += all.length;
  }
  places[length] = at?.[text.length] ?? text.length;
  return { text: parts.join(''), at: places };
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
    if (!isTelling && (isWord(charBefore(plain, found)) || isWord(charAt(plain, end)))) continue;
    out += text.slice(done, from) + MASK;
    done = to;
  }
  return out + text.slice(done);
}

/** The character that ends there, of one or two units. */
function charBefore(text: string, end: number): string | undefined {
  return [...text.slice(Math.max(0, end - 2), end)].at(-1);
}

/** The character that begins there. */
function charAt(text: string, begin: number): string | undefined {
  return [...text.slice(begin, begin + 2)][0];
}
