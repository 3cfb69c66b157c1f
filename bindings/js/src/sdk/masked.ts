/** Secrets that somebody else may have repeated. */

/** Secrets of so many characters are taken out wherever they stand. */
const TELLING = 4;

const MASK = '…';

/**
 * A text without a secret. One of a few characters is part of many words that have nothing to do with it: it is taken out where
 * it stands for itself, so that the rest can be read.
 */
export function masked(text: string, secret: string): string {
  if (secret === '') return text;
  const parts = text.split(secret);
  if ([...secret].length >= TELLING) return parts.join(MASK);
  const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{Alphabetic}\p{N}]/u.test(char);
  let [out, at] = ['', 0];
  for (const [index, part] of parts.entries()) {
    out += part;
    at += part.length;
    if (index === parts.length - 1) break;
    const [before, after] = [[...text.slice(0, at)].at(-1), [...text.slice(at + secret.length)].at(0)];
    out += isWord(before) || isWord(after) ? secret : MASK;
    at += secret.length;
  }
  return out;
}

/** An error in which a secret is not told: not in its message, nor by its stack or its cause, which may hold the same. */
export function without(error: unknown, secret: string): unknown {
  if (!(error instanceof Error)) return error;
  const told = error.message;
  const message = masked(told, secret);
  if (message === told) return error;
  const { stack } = error;
  error.message = message;
  // It begins with the message, and is what is printed.
  if (typeof stack === 'string') error.stack = stack.replaceAll(told, () => message);
  delete error.cause;
  return error;
}
