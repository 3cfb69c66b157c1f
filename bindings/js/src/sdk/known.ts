/** Names of options of what is done inside a sandbox: other spellings are refused, and what nobody knows is told of. */

import { nearly, show } from '../retry/options.ts';
import { InvalidArgumentError } from './errors.ts';
import { connectionNames, type Logger } from './options.ts';

/** Names that some method knows. Objects are made for several calls, and those of one are no mistake in another. */
const known = new Set<string>(connectionNames);

/** The names of the options of a method: all of a type's. */
export function namesOf<T>(names: Record<keyof T & string, true>): readonly string[] {
  const all = Object.keys(names);
  for (const name of all) known.add(name);
  return all;
}

/** What a logger has been told. */
const told = new WeakMap<Logger, Set<string>>();

/**
 * Checks the names of options; their values are checked where they are used.
 *
 * @param method whose they are, as `files.read`
 * @throws InvalidArgumentError for another spelling of a name that the method has. Any other name that no method has is told
 * to the logger once, since it does nothing: the official SDK takes objects that hold more.
 */
export function checkNames(
  method: string,
  options: unknown,
  names: readonly string[],
  logger: Logger | undefined,
): void {
  if (options === undefined) return;
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError(`${method}: its options are ${show(options)}, which is no object`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || known.has(name)) continue;
    const meant = nearly(name, names);
    if (meant !== undefined) {
      throw new InvalidArgumentError(`${name}: ${method} has no such option; did you mean ${meant}?`);
    }
    if (logger !== undefined) warn(logger, `${method}: there is no option ${show(name)}, which does nothing`);
  }
}

function warn(logger: Logger, line: string): void {
  const lines = told.get(logger) ?? new Set();
  told.set(logger, lines);
  if (lines.has(line)) return;
  lines.add(line);
  logger.warn?.(line);
}
