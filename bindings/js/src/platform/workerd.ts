import module from '../policy/policy.wasm';
import type { Platform, Runtime } from './types.ts';

/** Cloudflare's runtime. */
export const platform: Platform = {
  runtime: (): Runtime => 'workerd',
  env: () => undefined,
  // This runtime compiles no bytes: the module is imported.
  loadPolicy: () => Promise.resolve(module),
};
