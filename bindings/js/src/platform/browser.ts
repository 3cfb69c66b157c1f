import { compileInlined } from '../policy/inlined.ts';
import type { Platform, Runtime } from './types.ts';

/** Browsers, and every runtime that names no condition of its own. */
export const platform: Platform = {
  runtime: (): Runtime => ('document' in globalThis || 'WorkerGlobalScope' in globalThis ? 'browser' : 'unknown'),
  env: () => undefined,
  loadPolicy: () => compileInlined(decode),
};

function decode(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}
