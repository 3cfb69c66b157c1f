import { platform } from '#platform';

/** A variable of the environment; absent where it is empty, not allowed to be read, or where there is no environment. */
export function env(name: string): string | undefined {
  return platform.env(name) || undefined;
}
