import { compileInlined } from '../policy/inlined.ts';
import type { Platform, Runtime } from './types.ts';

/** Browsers, and every runtime that names no condition of its own. */
export const platform: Platform = {
  runtime: (): Runtime => ('document' in globalThis || 'WorkerGlobalScope' in globalThis ? 'browser' : 'unknown'),
  env: () => undefined,
  loadPolicy: compileInlined,
};
