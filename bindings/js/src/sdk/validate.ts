import { InvalidArgumentError } from './errors.ts';

/** The longest time a timer can be set for, in milliseconds (2^31 − 1, as setTimeout has it). */
const LONGEST = 2 ** 31 - 1;

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

/** A number of milliseconds, 0 or more. */
export function milliseconds(option: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
    throw new InvalidArgumentError(`${option}: ${shown(value)} is no number of milliseconds, 0 or more`);
  }
  return Math.min(value, LONGEST);
}

/** A whole number within bounds. */
export function whole(option: string, value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least || value > most) {
    const bounds = most === Number.MAX_SAFE_INTEGER ? `of ${least} or more` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`${option}: ${shown(value)} is no whole number ${bounds}`);
  }
  return value;
}

/** A text that is not empty and can be sent. */
export function text(option: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') {
    throw new InvalidArgumentError(`${option}: ${shown(value)} is no text, or an empty one`);
  }
  if (value.includes('\0')) throw new InvalidArgumentError(`${option}: it holds a NUL character`);
  return value;
}

/** A sandbox's id, as it may stand in a path, a header and a host name. */
export function sandboxId(value: unknown): string {
  const id = text('sandboxId', value);
  if (!/^[A-Za-z0-9_-]+$/.test(id)) {
    throw new InvalidArgumentError(`sandboxId: ${JSON.stringify(id)} is no sandbox id: letters, digits and hyphens`);
  }
  return id;
}

/** Headers together; of one name, however its letters are written, the last counts. */
export function merged(...all: (Readonly<Record<string, string>> | undefined)[]): Record<string, string> {
  const by = new Map<string, [string, string]>();
  for (const headers of all) {
    for (const [name, value] of Object.entries(headers ?? {})) by.set(name.toLowerCase(), [name, value]);
  }
  return Object.fromEntries(by.values());
}

/** Texts by name. */
export function texts(option: string, value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidArgumentError(`${option}: it is no object of texts`);
  }
  for (const [name, each] of Object.entries(value)) {
    if (typeof each !== 'string') {
      throw new InvalidArgumentError(`${option}: ${JSON.stringify(name)} is ${shown(each)}, which is no text`);
    }
  }
  return value as Record<string, string>;
}

/** Variables of an environment: names without `=` and NUL, values without NUL. */
export function variables(option: string, value: unknown): Record<string, string> {
  const envs = texts(option, value);
  for (const [name, each] of Object.entries(envs)) {
    if (name === '' || /[=\0]/.test(name)) {
      throw new InvalidArgumentError(`${option}: ${JSON.stringify(name)} is no name of a variable`);
    }
    if (each.includes('\0')) throw new InvalidArgumentError(`${option}: the value of ${name} holds a NUL character`);
  }
  return envs;
}

/** Seconds, rounded up, as the control plane counts. */
export function seconds(option: string, ms: unknown): number {
  return Math.ceil(milliseconds(option, ms) / 1000);
}
