/** Signatures of file URLs. */

import { ENVD_PORT, query } from '../endpoints.ts';
import type { Identity } from '../envd/envd.ts';
import { InvalidArgumentError, UnsupportedError } from '../errors.ts';
import { whole } from '../validate.ts';
import type { SandboxUrlOpts } from './types.ts';

/** What is signed. */
export interface SignatureOpts {
  /** As it is given, unresolved. */
  path: string;
  /** Whether the file is downloaded or uploaded. */
  operation: 'read' | 'write';
  /** As whom; `undefined`: the template's user. */
  user: string | undefined;
  /** For how many **seconds** it holds; absent: for ever. */
  expirationInSeconds?: number | undefined;
  /** The sandbox's token. */
  envdAccessToken?: string | undefined;
}

/**
 * Signs a file's URL.
 *
 * @returns the signature, and when it ends in unix seconds (`null`: never).
 * @throws InvalidArgumentError without a token; UnsupportedError where there is no `crypto.subtle`: insecure pages have none.
 */
export async function getSignature(opts: SignatureOpts): Promise<{ signature: string; expiration: number | null }> {
  const { path, operation, user, expirationInSeconds, envdAccessToken } = opts;
  if (!envdAccessToken) throw new InvalidArgumentError('envdAccessToken: without it nothing can be signed');
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) throw new UnsupportedError('this runtime has no crypto.subtle, which signatures need');
  const expiration =
    expirationInSeconds === undefined
      ? null
      : Math.floor(Date.now() / 1000) + whole('useSignatureExpiration', expirationInSeconds, 1);
  const end = expiration === null ? '' : `:${expiration}`;
  const signed = `${path}:${operation}:${user ?? ''}:${envdAccessToken}${end}`;
  const hash = await subtle.digest('SHA-256', new TextEncoder().encode(signed));
  const base64 = btoa(String.fromCharCode(...new Uint8Array(hash))).replace(/=+$/, '');
  return { signature: `v1_${base64}`, expiration };
}

/** A URL of a file, signed where the sandbox has a token. */
export async function fileUrl(
  identity: Identity,
  operation: 'read' | 'write',
  path: string | undefined,
  opts: SandboxUrlOpts,
): Promise<string> {
  const { user, useSignatureExpiration: expirationInSeconds } = opts;
  const { config, sandboxId, sandboxDomain, envdAccessToken } = identity;
  const base = config.getSandboxDirectUrl(sandboxId, { sandboxDomain, envdPort: ENVD_PORT });
  if (envdAccessToken === undefined) {
    if (expirationInSeconds === undefined) return `${base}/files${query({ path, username: user })}`;
    throw new InvalidArgumentError('useSignatureExpiration: this sandbox has no token, so that nothing can be signed');
  }
  const signing = { path: path ?? '', operation, user, expirationInSeconds, envdAccessToken };
  const { signature, expiration } = await getSignature(signing);
  const signed = { signature, signature_expiration: expiration ?? undefined };
  return `${base}/files${query({ path, username: user, ...signed })}`;
}
