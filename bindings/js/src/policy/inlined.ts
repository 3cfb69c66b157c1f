import { POLICY_BASE64 } from './bytes.generated.ts';

/**
 * Compiles the module from the bytes that are part of the package's text, so that nothing has to be found or fetched.
 * @param decode reads base64
 */
export function compileInlined(decode: (base64: string) => Uint8Array<ArrayBuffer>): Promise<WebAssembly.Module> {
  return WebAssembly.compile(decode(POLICY_BASE64));
}
