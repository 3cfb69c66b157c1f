/** What a template is built from: a base, and steps. */

import { toBase64 } from '../envd/base64.ts';
import { InvalidArgumentError } from '../errors.ts';

/** The image of templates that name no other. */
export const BASE_IMAGE = 'e2bdev/base';

/** A path, or the URL of a file. */
export type PathLike = string | URL;

/** One of the files to copy. */
export interface CopyItem {
  /** Relative to the context; a pattern is allowed. */
  src: PathLike | PathLike[];
  /** In the template. */
  dest: PathLike;
  /** Sends them although the server has them. */
  forceUpload?: true | undefined;
  /** Whose they are. */
  user?: string | undefined;
  /** Permission bits, such as 0o755. */
  mode?: number | undefined;
  /** Copies what links lead to. Default: false. */
  resolveSymlinks?: boolean | undefined;
  /** Sends them compressed. Default: true. */
  gzip?: boolean | undefined;
}

/** Files that one step copies. */
export interface Copy {
  readonly src: string;
  readonly dest: string;
  readonly forceUpload: boolean;
  readonly resolveSymlinks: boolean;
  readonly gzip: boolean;
}

/** One step. */
export interface Step {
  readonly type: 'COPY' | 'RUN' | 'WORKDIR' | 'USER' | 'ENV';
  readonly args: readonly string[];
  readonly force: boolean;
  /** Of COPY. */
  readonly copy?: Copy;
}

/** How an image's registry is logged in to. */
export type Registry =
  | { readonly type: 'registry'; readonly username: string; readonly password: string }
  | {
      readonly type: 'aws';
      readonly awsAccessKeyId: string;
      readonly awsSecretAccessKey: string;
      readonly awsRegion: string;
    }
  | { readonly type: 'gcp'; readonly serviceAccountJson: string };

/** Names of what is secret in a service account, or in what else logs in at Google. */
const OF_ACCOUNT = ['private_key', 'client_secret', 'refresh_token'];

/** What of it no error and no log may tell, also where a server writes it in another form. */
export function secretsOf(registry: Registry | undefined): string[] {
  // What was given is not always what its type says.
  return valuesOf(registry).filter((each) => typeof each === 'string');
}

function valuesOf(registry: Registry | undefined): string[] {
  switch (registry?.type) {
    case 'registry': {
      const { username, password } = registry;
      // As it is sent to registries.
      return [password, toBase64(new TextEncoder().encode(`${username}:${password}`))];
    }
    case 'aws':
      return [registry.awsSecretAccessKey];
    case 'gcp':
      return ofAccount(registry.serviceAccountJson);
    default:
      return [];
  }
}

function ofAccount(json: string): string[] {
  let account: unknown;
  try {
    account = JSON.parse(json);
  } catch {
    return [json];
  }
  const held = Object.entries(account ?? {}).filter(([name]) => OF_ACCOUNT.includes(name));
  const values = held.map(([, value]) => value).filter((value) => typeof value === 'string');
  // A key has several lines, which logs have one by one. The first and the last are in every key.
  const lines = values.flatMap((value) => value.split('\n')).filter((line) => line.length > 8 && !/^-----/.test(line));
  return [json, JSON.stringify(account), ...values, ...lines];
}

/** A whole recipe. */
export interface Recipe {
  image: string | undefined;
  template: string | undefined;
  registry: Registry | undefined;
  steps: Step[];
  startCmd: string | undefined;
  readyCmd: string | undefined;
  /** All steps are made anew. */
  force: boolean;
  /** Steps from here on are made anew. */
  forceNext: boolean;
  context: string | undefined;
  ignored: readonly string[];
}

/** A recipe without steps. */
export function emptyRecipe(context: string | undefined, ignored: readonly string[]): Recipe {
  return {
    image: BASE_IMAGE,
    template: undefined,
    registry: undefined,
    steps: [],
    startCmd: undefined,
    readyCmd: undefined,
    force: false,
    forceNext: false,
    context,
    ignored,
  };
}

/** A path as text. */
export function pathText(option: string, path: PathLike): string {
  const value = path instanceof URL ? decodeURIComponent(path.pathname) : path;
  if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
    throw new InvalidArgumentError(`${option}: ${JSON.stringify(value)} is no path`);
  }
  return value;
}

/** Steps that copy files, one for each source. */
export function copySteps(recipe: Recipe, item: CopyItem): Step[] {
  const { user = '', mode, forceUpload = false, resolveSymlinks = false, gzip = true } = item;
  const dest = pathText('dest', item.dest);
  if (mode !== undefined && !(Number.isInteger(mode) && mode >= 0 && mode <= 0o7777)) {
    throw new InvalidArgumentError(`mode: ${mode} are no permission bits, such as 0o755`);
  }
  return (Array.isArray(item.src) ? item.src : [item.src]).map((source) => {
    const src = pathText('src', source);
    if (/^[/\\]|^[A-Za-z]:/.test(src) || src.split(/[/\\]/).includes('..')) {
      throw new InvalidArgumentError(
        `src: ${JSON.stringify(src)} leads outside of the context; set fileContextPath, or move the files`,
      );
    }
    const bits = mode === undefined ? '' : mode.toString(8).padStart(4, '0');
    const copy = { src, dest, forceUpload, resolveSymlinks, gzip };
    return { type: 'COPY', args: [src, dest, user, bits], force: recipe.forceNext || forceUpload, copy };
  });
}

/** A recipe as it is sent. */
export function buildBody(
  recipe: Recipe,
  hashes: readonly (string | undefined)[],
  force: boolean,
): Record<string, unknown> {
  const { image, template, registry, startCmd, readyCmd } = recipe;
  return {
    ...(startCmd === undefined ? {} : { startCmd }),
    ...(readyCmd === undefined ? {} : { readyCmd }),
    steps: recipe.steps.map(({ type, args, force, copy }, at) => ({
      type,
      args,
      force,
      ...(copy?.forceUpload ? { forceUpload: true } : {}),
      ...(hashes[at] === undefined ? {} : { filesHash: hashes[at] }),
    })),
    force: force || recipe.force,
    ...(template === undefined ? { fromImage: image } : { fromTemplate: template }),
    ...(registry === undefined ? {} : { fromImageRegistry: registry }),
  };
}
