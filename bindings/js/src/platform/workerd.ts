import type { Platform, Runtime } from './types.ts';

/** Cloudflare's runtime. */
export const platform: Platform = {
  runtime: (): Runtime => 'workerd',
};
