import { Buffer } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { native } from '../native/index.ts';
import { compileInlined } from '../policy/inlined.ts';
import type { Platform, Runtime } from './types.ts';

/** Node, and what loads Node's build: Bun and Deno. */
export const platform: Platform = {
  native,
  runtime: (): Runtime => {
    const { versions } = process as { versions: Record<string, string | undefined> };
    if (versions.bun !== undefined) return 'bun';
    if (versions.deno !== undefined) return 'deno';
    return 'node';
  },
  env: (name) => {
    try {
      return process.env[name];
    } catch {
      // Deno throws where it is not permitted to read it.
      return undefined;
    }
  },
  // Ten times as quick as `atob`, which is slow here.
  loadPolicy: () => compileInlined((base64) => new Uint8Array(Buffer.from(base64, 'base64'))),
  templateFiles: async () => (await import('../sdk/template/context.node.ts')).templateFiles,
  localFiles: async () => (await import('../sdk/files/local.node.ts')).localFiles,
  readTextIfFile: (path) => {
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile();
    return isFile ? readFileSync(path, 'utf8') : undefined;
  },
};
