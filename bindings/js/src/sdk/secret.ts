/** Secrets: values that sandboxes can use and nobody can read. */

import { callApi, callUnless, required } from './api/control-plane.ts';
import { ConnectionConfig, type ConnectionOpts } from './config.ts';
import { segment } from './endpoints.ts';
import { InvalidArgumentError, SecretError, SecretNotFoundError } from './errors.ts';
import { without } from './masked.ts';
import { ClientFactory, Paginator } from './paginator.ts';
import type { SandboxIamToken } from './sandbox/network.ts';
import { date } from './sandbox/wire.ts';
import { text, texts } from './validate.ts';

const CLASSES = { notFound: SecretNotFoundError, other: SecretError };

/** A secret, without its value. */
export interface SecretInfo {
  /** Its id. */
  secretId: string;
  /** Its name, in lower case. */
  name: string;
  /** The version that is used where none is named. */
  version: number;
  /** The texts that were given with it. */
  metadata: Record<string, string>;
  /** When it was made. */
  createdAt: Date;
  /** When it got its last value. */
  updatedAt: Date;
}

/** Options of `create`. */
export interface SecretCreateOpts extends ConnectionOpts {
  /** At most 32 texts. */
  metadata?: Record<string, string> | undefined;
}

/** Options of `update`. */
export interface SecretUpdateOpts extends ConnectionOpts {
  /** Takes the place of all that was there. */
  metadata?: Record<string, string> | undefined;
}

/** Options of `list`. */
export interface SecretListOpts extends Omit<ConnectionOpts, 'signal'> {
  /** How many on a page, from 1 to 100. Default of the service: 100. */
  limit?: number | undefined;
  /** Where an earlier list ended. */
  nextToken?: string | undefined;
}

/** Options of `getInfo`. */
export type SecretGetInfoOpts = ConnectionOpts;
/** Options of `exists`. */
export type SecretExistsOpts = ConnectionOpts;
/** Options of `destroy`. */
export type SecretDestroyOpts = ConnectionOpts;

interface WireSecret {
  secretID?: string;
  name?: string;
  currentVersion?: number;
  metadata?: Record<string, string> | null;
  createdAt?: string;
  updatedAt?: string;
}

/** Secrets, page by page. */
export class SecretPaginator extends Paginator<SecretInfo> {
  constructor(opts: SecretListOpts = {}) {
    const { limit, nextToken, ...rest } = opts;
    super(rest, limit, nextToken, ['limit', 'nextToken']);
  }

  async nextItems(opts?: ConnectionOpts): Promise<SecretInfo[]> {
    const request = { action: 'list secrets', path: '/secrets', classes: CLASSES };
    return (await this.page<WireSecret>(request, {}, opts)).map(infoOf);
  }
}

/** Secrets of a team, by id or name. */
export class Secret extends ClientFactory {
  /**
   * Makes a secret.
   *
   * @param name letters, digits, `_` and `-`, at most 128; kept in lower case.
   * @throws OutcomeUnknownError where the answer was lost: it is not made again by itself.
   */
  static async create(name: string, value: string, opts: SecretCreateOpts = {}): Promise<SecretInfo> {
    const { metadata, ...rest } = opts;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['metadata']);
    const json = { name: checkName(name), ...body(value, metadata) };
    const request = {
      action: `create secret ${name}`,
      method: 'POST',
      path: '/secrets',
      json,
      classes: CLASSES,
      secrets: [value],
    } as const;
    return infoOf(await told(value, callApi<WireSecret>(config, request)));
  }

  /**
   * Gives a secret another value, as a new version.
   *
   * @throws SecretNotFoundError; OutcomeUnknownError where the answer was lost: it is not done again by itself.
   */
  static async update(secret: string, value: string, opts: SecretUpdateOpts = {}): Promise<SecretInfo> {
    const { metadata, ...rest } = opts;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['metadata']);
    const json = body(value, metadata);
    const path = pathOf(secret);
    const action = `update secret ${secret}`;
    const request = { action, method: 'POST', path, json, classes: CLASSES, secrets: [value] } as const;
    return infoOf(await told(value, callApi<WireSecret>(config, request)));
  }

  /**
   * Describes a secret.
   *
   * @throws SecretNotFoundError
   */
  static async getInfo(secret: string, opts?: SecretGetInfoOpts): Promise<SecretInfo> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const request = {
      action: `describe secret ${secret}`,
      method: 'GET',
      path: pathOf(secret),
      classes: CLASSES,
    } as const;
    return infoOf(await callApi<WireSecret>(config, request));
  }

  /** Lists secrets. */
  static list(opts?: SecretListOpts): SecretPaginator {
    return new SecretPaginator(this.resolveOpts(opts));
  }

  /** Whether there is such a secret. */
  static async exists(secret: string, opts?: SecretExistsOpts): Promise<boolean> {
    try {
      await this.getInfo(secret, opts);
      return true;
    } catch (error) {
      if (error instanceof SecretNotFoundError) return false;
      throw error;
    }
  }

  /**
   * Destroys a secret.
   *
   * @returns `false` where there is no such secret.
   */
  static async destroy(secret: string, opts?: SecretDestroyOpts): Promise<boolean> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const path = pathOf(secret);
    return callUnless(config, 404, { action: `destroy secret ${secret}`, method: 'DELETE', path, classes: CLASSES });
  }

  /** A placeholder for rules of a sandbox's network, in whose place the value goes on its way out. */
  static fill(secret: string): string {
    return `\${e2b.secrets.${checkName(secret)}}`;
  }

  /** A token of a sandbox's identity, for `iam`. */
  static iamToken(token: SandboxIamToken): SandboxIamToken {
    return { audience: text('audience', token.audience), tokenType: text('tokenType', token.tokenType) };
  }
}

/** What came of a request with a value, which a server may quote where it refuses it. */
async function told<T>(value: string, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw without(error, value);
  }
}

function checkName(name: string): string {
  if (typeof name === 'string' && /^[a-zA-Z0-9_-]{1,128}$/.test(name)) return name;
  throw new InvalidArgumentError('name: a secret is named by 1 to 128 letters, digits, underscores and hyphens');
}

function body(value: string, metadata: Record<string, string> | undefined): Record<string, unknown> {
  // The value stays out of the message.
  if (typeof value !== 'string') throw new InvalidArgumentError('value: it is no text');
  return metadata === undefined ? { value } : { value, metadata: texts('metadata', metadata) };
}

function pathOf(secret: string): string {
  return `/secrets/${segment(text('secret', secret))}`;
}

function infoOf(wire: WireSecret): SecretInfo {
  const action = 'read what the server says of a secret';
  return {
    secretId: required(action, 'secretID', wire?.secretID),
    name: wire.name ?? '',
    version: wire.currentVersion ?? 0,
    metadata: wire.metadata ?? {},
    createdAt: date(action, 'createdAt', wire.createdAt),
    updatedAt: date(action, 'updatedAt', wire.updatedAt),
  };
}
