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
      for (let way = 0; way <= WAYS.length; way++) {
        const read = reads.at(depth, way);
        if (read === undefined) continue;
        const rest = taken(reads.text, spelling, read);
        if (rest !== reads.text) reads = new Reads(rest);
      }
      if (depth < ESCAPED && reads.at(depth + 1, 0) === undefined) break;
    }
  }
  return reads.text;
}

/**
 * A text, and how it reads without its escapes, and without theirs; each of them as it is, and in the {@link WAYS} of URLs, forms
 * and HTML. Each is made once, and when it is asked for.
 */
class Reads {
  private readonly all: Read[];
  private readonly others = new Map<number, Read | undefined>();

  constructor(readonly text: string) {
    this.all = [{ text }];
  }

  /** Absent: nothing is escaped so often, or so. */
  at(depth: number, way: number): Read | undefined {
    for (let last = this.all.at(-1); this.all.length <= depth; last = this.all.at(-1)) {
      if (!last?.text.includes('\\')) return undefined;
      this.all.push(decoded(last, ESCAPES));
    }
    const plain = this.all[depth];
    const coding = WAYS[way - 1];
    if (plain === undefined || coding === undefined) return plain;
    const key = depth * (WAYS.length + 1) + way;
    if (!this.others.has(key)) this.others.set(key, decodedIfAny(plain, coding));
    return this.others.get(key);
  }
}

/** Absent where it is as it was. */
function decodedIfAny(read: Read, coding: Coding): Read | undefined {
  if (read.text.search(coding.sign) < 0) return undefined;
  const other = decoded(read, coding);
  return other.text === read.text ? undefined : other;
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

/** How signs may be written in others. What they are written in is never shorter. */
interface Coding {
  /** What each of them begins with. */
  readonly sign: RegExp;
  /** What stands there for others, and what that is. */
  readonly decode: (text: string, at: number) => readonly [all: string, read: string];
}

const LETTERS: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '0': '\0' };

/** As JSON and most languages have them. */
const ESCAPES = /* @__PURE__ */ coding(
  /\\/g,
  /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([\s\S]))/iy,
  ([all = '', braced, four, two, letter = all]) =>
    fromCode(Number.parseInt(braced ?? four ?? two ?? '', 16)) ?? LETTERS[letter] ?? letter,
);

/** One character in the bytes of its UTF-8. */
const PERCENT =
  /%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}|\+/iy;

function character([all = '']: readonly (string | undefined)[]): string {
  try {
    return decodeURIComponent(all);
  } catch {
    return all;
  }
}

const NAMES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** In URLs, of which each part has signs of its own that need none; in forms; and in HTML. */
const WAYS: readonly Coding[] = [
  /* @__PURE__ */ coding(/%/g, PERCENT, character),
  /* @__PURE__ */ coding(/[%+]/g, PERCENT, (found) => (found[0] === '+' ? ' ' : character(found))),
  /* @__PURE__ */ coding(
    /&/g,
    /&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#x([0-9a-f]{1,6}));/iy,
    ([all = '', name, ten, sixteen]) =>
      NAMES[name?.toLowerCase() ?? ''] ??
      fromCode(ten === undefined ? Number.parseInt(sixteen ?? '', 16) : Number(ten)) ??
      all,
  ),
];

function fromCode(code: number): string | undefined {
  return code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
}

function coding(sign: RegExp, all: RegExp, read: (found: readonly (string | undefined)[]) => string): Coding {
  return {
    sign,
    decode: (text, at) => {
      all.lastIndex = at;
      const found = all.exec(text);
      return found === null ? [text[at] ?? '', text[at] ?? ''] : [found[0], read(found)];
    },
  };
}

/** A text without what stands in it for others. */
function decoded({ text, at }: Read, { sign, decode }: Coding): Read {
  const parts: string[] = [];
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
    sign.lastIndex = index;
    const next = sign.exec(text)?.index ?? text.length;
    take(text.slice(index, next), index, 1);
    if (next === text.length) break;
    const [all, read] = decode(text, next);
    take(read, next, 0);
    index = next + all.length;
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
