/** Patterns of paths: `*`, `**`, `?`, `[…]`, `{a,b}`, and `\` before what is meant as it is. */

import { InvalidArgumentError } from '../errors.ts';

/** A pattern as an expression of whole paths with slashes. */
export function globExpression(pattern: string): RegExp {
  let source = '';
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const c = pattern[at] as string;
    if (c === '*') {
      const many = pattern[at + 1] === '*';
      const whole = many && (at === 0 || pattern[at - 1] === '/');
      if (whole && pattern[at + 2] === '/') {
        // Any directories, also none.
        source += '(?:.*/)?';
        at += 2;
      } else if (many) {
        source += '.*';
        at += 1;
      } else {
        source += '[^/]*';
      }
    } else if (c === '?') {
      source += '[^/]';
    } else if (c === '[') {
      const end = pattern.indexOf(']', at + 2);
      if (end < 0) throw new InvalidArgumentError(`${JSON.stringify(pattern)} is no pattern: [ is not closed`);
      const inside = pattern
        .slice(at + 1, end)
        .replaceAll(/[\\[\]]/g, '\\$&')
        .replace(/^!/, '^');
      source += `(?!/)[${inside}]`;
      at = end;
    } else if (c === '{') {
      source += '(?:';
      depth += 1;
    } else if (c === '}' && depth > 0) {
      source += ')';
      depth -= 1;
    } else if (c === ',' && depth > 0) {
      source += '|';
    } else {
      if (c === '\\' && at + 1 < pattern.length) at += 1;
      // Not a hyphen: outside of brackets no expression of Unicode may have it escaped.
      source += (pattern[at] as string).replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
    }
  }
  if (depth > 0) throw new InvalidArgumentError(`${JSON.stringify(pattern)} is no pattern: { is not closed`);
  try {
    return new RegExp(`^${source}$`, 'su');
  } catch (cause) {
    // Such as a range whose ends are the wrong way round.
    throw new InvalidArgumentError(`${JSON.stringify(pattern)} is no pattern`, { cause });
  }
}

/** A path of the context without what has no meaning there; empty: all of it. */
export function plainPath(path: string): string {
  return path
    .replaceAll('\\', '/')
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/');
}

/** A path, and the directories above it. */
export function* itselfAndParents(path: string): Generator<string> {
  for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1)) yield path.slice(0, end);
}
