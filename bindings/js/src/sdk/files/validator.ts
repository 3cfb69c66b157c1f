/** How it is told that a file is still the same one, so that the rest of it may be asked for. */

/** How much older than the answer's `Date` a time has to be, in milliseconds (RFC 9110 §8.8.2.2, RFC 7232: 60 s). */
const OLD_ENOUGH = 60_000;

/** What tells files apart; or why nothing does. */
export type Validator =
  | { readonly kind: 'tag'; readonly value: string }
  | { readonly kind: 'time'; readonly value: string }
  | { readonly kind: 'none'; readonly why: string };

/** What an answer tells its file apart by. */
export function validatorOf(headers: Headers): Validator {
  const tag = headers.get('etag');
  if (tag?.startsWith('"')) return { kind: 'tag', value: tag };
  const time = headers.get('last-modified');
  const [modified, now] = [httpDate(time), httpDate(headers.get('date'))];
  if (time === null || modified === undefined || now === undefined) {
    return { kind: 'none', why: 'the server gave neither a strong entity tag nor times to tell whether it changed' };
  }
  if (now - modified < OLD_ENOUGH) {
    return { kind: 'none', why: 'it had changed within a minute before, and has no strong entity tag' };
  }
  return { kind: 'time', value: time };
}

/** Whether a part is of the file that the validator is of. */
export function isSame(validator: Validator, headers: Headers): boolean {
  switch (validator.kind) {
    case 'tag': {
      // A part that names no tag is of the one that was asked for.
      const now = headers.get('etag');
      return now === null || now === validator.value;
    }
    case 'time':
      return headers.get('last-modified') === validator.value;
    default:
      return false;
  }
}

/** The first byte of a part, and the size of the whole where it is told. */
export function contentRange(headers: Headers): { first: number; total?: number } | undefined {
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range')?.trim() ?? '');
  if (range === null) return undefined;
  const [, first, total] = range;
  return total === '*' ? { first: Number(first) } : { first: Number(first), total: Number(total) };
}

function httpDate(value: string | null): number | undefined {
  if (value === null || !/^[A-Za-z]{3,9},? .*\d{4}|GMT$/.test(value)) return undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : at;
}
