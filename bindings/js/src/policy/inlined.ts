import { POLICY_BASE64 } from './bytes.generated.ts';

/** Compiles the module from the bytes that are part of the package's text, so that nothing has to be found or fetched. */
export function compileInlined(): Promise<WebAssembly.Module> {
  const bytes = Uint8Array.from(atob(POLICY_BASE64), (character) => character.charCodeAt(0));
  return WebAssembly.compile(bytes);
}
