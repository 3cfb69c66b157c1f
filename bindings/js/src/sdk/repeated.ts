/** What callers give that may be secret, and that a server may repeat where it refuses it. */

import { CreateNotDone } from '../create/errors.ts';
import { CommandExitError } from './errors.ts';
import { masked, without } from './masked.ts';

/** What is shorter is no secret, but a word such as "test", which is part of many others. */
const SHORTEST = 8;

/** The texts in values that may be secret, however deep: the longest first, since one may be a part of another. */
export function secretsIn(...values: readonly unknown[]): readonly string[] {
  const texts = new Set(values.flatMap((value) => [...textsIn(value)]));
  return [...texts].filter((each) => [...each].length >= SHORTEST).sort((one, other) => other.length - one.length);
}

/** A text without any of some secrets. */
export function maskedAll(text: string, secrets: readonly string[]): string {
  return masked(text, secrets);
}

/** An error in which none of some secrets is told. */
export function withoutAll(error: unknown, secrets: readonly string[]): unknown {
  return without(error instanceof CommandExitError ? exitWithout(error, secrets) : error, secrets);
}

/** Anew, for its message is the end of what the command wrote: of a secret that was cut nobody knows that it is one. */
function exitWithout({ exitCode, error, stdout, stderr }: CommandExitError, secrets: readonly string[]): Error {
  const [shownOut, shownErr] = [maskedAll(stdout, secrets), maskedAll(stderr, secrets)];
  const words = error === undefined ? undefined : maskedAll(error, secrets);
  return new CommandExitError({ exitCode, error: words, stdout: shownOut, stderr: shownErr });
}

/** What may be secret in a network as it is sent: its proxy's password, and the headers that its rules set. */
export function ofNetwork(network: unknown): readonly unknown[] {
  const { egressProxy, rules } = (network ?? {}) as { egressProxy?: { password?: unknown }; rules?: object };
  return [egressProxy?.password, rules];
}

/** How a create ended, whose server may have repeated what it was sent: variables, a configuration, what a network has secret. */
export function withoutSent(error: unknown, body: Record<string, unknown>): unknown {
  if (!(error instanceof CreateNotDone) || error.answer?.body === undefined) return error;
  const told = new TextDecoder().decode(error.answer.body);
  const shown = maskedAll(told, secretsIn(body.envVars, body.mcp, ofNetwork(body.network)));
  if (shown === told) return error;
  return Object.assign(error, { answer: { ...error.answer, body: new TextEncoder().encode(shown) } });
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) yield* textsIn(each);
}
