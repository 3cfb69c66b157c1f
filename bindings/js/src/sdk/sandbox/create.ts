/** Making sandboxes. */

import type { ConnectionConfig, ConnectionOpts } from '../config.ts';
import { InvalidArgumentError } from '../errors.ts';
import { seconds, text, texts, variables } from '../validate.ts';
import { defined, iamBody, networkBody } from './network.ts';
import { type Created, checkIntent, createOnce } from './once.ts';
import type { SandboxLifecycle, SandboxOpts } from './types.ts';
import { type Access, accessOf, type WireSandbox } from './wire.ts';

const ACTION = 'create a sandbox';

/** What a create is given besides the options of its connection. */
export const OF_CREATE = Object.keys({
  template: true,
  metadata: true,
  envs: true,
  timeoutMs: true,
  secure: true,
  allowInternetAccess: true,
  mcp: true,
  network: true,
  iam: true,
  volumeMounts: true,
  lifecycle: true,
  intent: true,
  idempotencyKey: true,
} satisfies Record<Exclude<keyof SandboxOpts, keyof ConnectionOpts>, true>);

/** What of a sandbox's options is sent. All of it is checked. */
export function createBody(template: string, opts: SandboxOpts): Record<string, unknown> {
  for (const name of Object.keys(texts('metadata', opts.metadata ?? {}))) {
    if (name.startsWith('oncebox.')) {
      throw new InvalidArgumentError(
        `metadata: ${JSON.stringify(name)} begins with "oncebox.", which is this package's own`,
      );
    }
  }
  const timeout = opts.timeoutMs === undefined ? undefined : seconds('timeoutMs', opts.timeoutMs);
  if (timeout === 0) throw new InvalidArgumentError('timeoutMs: a sandbox that lives for 0 ms would be none');
  return defined({
    templateID: text('template', template),
    timeout,
    metadata: opts.metadata,
    envVars: opts.envs === undefined ? undefined : variables('envs', opts.envs),
    allow_internet_access: opts.allowInternetAccess,
    network: opts.network === undefined ? undefined : networkBody(opts.network, opts.iam),
    iam: opts.iam === undefined ? undefined : iamBody(opts.iam),
    mcp: opts.mcp,
    volumeMounts: opts.volumeMounts === undefined ? undefined : mounts(opts.volumeMounts),
    ...lifecycle(opts.lifecycle),
  });
}

/** A sandbox that was made, and what became of it since. */
export interface Made extends Access {
  readonly fate?: Created['fate'] | undefined;
}

/** Makes a sandbox, once. */
export async function createSandbox(config: ConnectionConfig, template: string, opts: SandboxOpts): Promise<Made> {
  const created = await createOnce(config, {
    body: createBody(template, opts),
    intent: opts.intent === undefined ? undefined : checkIntent(opts.intent),
    idempotencyKey: opts.idempotencyKey === undefined ? undefined : idempotencyKey(opts.idempotencyKey),
  });
  // Without `resolve` there is no end without a sandbox.
  return madeOf(created as Created);
}

/** Finds out what became of an intent; `undefined`: no sandbox carries it. */
export async function resolveIntent(config: ConnectionConfig, intent: string): Promise<Made | undefined> {
  const found = await createOnce(config, { intent: checkIntent(intent), resolve: true, body: {} });
  return found === undefined ? undefined : madeOf(found);
}

function madeOf({ sandbox, fate }: Created): Made {
  return { ...accessOf(ACTION, sandbox as WireSandbox), fate };
}

function idempotencyKey(key: string): string {
  if (/^[a-z0-9-]{1,255}$/.test(key)) return key;
  throw new InvalidArgumentError(
    `idempotencyKey: ${JSON.stringify(key)} is not made of 1 to 255 lower-case letters, digits and hyphens`,
  );
}

function mounts(volumes: NonNullable<SandboxOpts['volumeMounts']>): { name: string; path: string }[] {
  return Object.entries(volumes).map(([path, volume]) => {
    if (!path.startsWith('/'))
      throw new InvalidArgumentError(`volumeMounts: ${JSON.stringify(path)} is no absolute path`);
    return { name: text('volumeMounts', typeof volume === 'string' ? volume : volume.name), path };
  });
}

function lifecycle(lifecycle: SandboxLifecycle | undefined): Record<string, unknown> {
  if (lifecycle === undefined) return {};
  const { onTimeout, autoResume } = lifecycle;
  const action = typeof onTimeout === 'string' ? onTimeout : onTimeout?.action;
  if (action !== 'pause' && action !== 'kill') {
    throw new InvalidArgumentError(`lifecycle.onTimeout: ${JSON.stringify(action)} is neither pause nor kill`);
  }
  const keepMemory = typeof onTimeout === 'object' && onTimeout.action === 'pause' ? onTimeout.keepMemory : undefined;
  if (autoResume && action !== 'pause') {
    throw new InvalidArgumentError('lifecycle.autoResume: only what was paused can be resumed; set onTimeout to pause');
  }
  if (autoResume && keepMemory === false) {
    throw new InvalidArgumentError(
      'lifecycle.autoResume: it needs what is in memory; leave keepMemory or autoResume out',
    );
  }
  return defined({
    autoPause: action === 'pause' ? true : undefined,
    autoPauseMemory: keepMemory === false ? false : undefined,
    autoResume: autoResume === undefined ? undefined : { enabled: autoResume },
  });
}
