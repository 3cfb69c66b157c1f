interface Globals {
  process?: { env?: Record<string, string | undefined> };
  Deno?: { env?: { get(name: string): string | undefined } };
}

/** A variable of the environment; absent where it is empty, not allowed to be read, or where there is no environment. */
export function env(name: string): string | undefined {
  const { process, Deno } = globalThis as unknown as Globals;
  try {
    return process?.env?.[name] || Deno?.env?.get(name) || undefined;
  } catch {
    // Deno, without the permission.
    return undefined;
  }
}
