/** Templates: built from recipes, found, tagged. */

import { callApi } from '../api/control-plane.ts';
import { ConnectionConfig, type ConnectionOpts } from '../config.ts';
import { segment } from '../endpoints.ts';
import { InvalidArgumentError, type OnceboxError, TemplateError } from '../errors.ts';
import { date } from '../sandbox/wire.ts';
import { through } from '../trail.ts';
import { text, whole } from '../validate.ts';
import { type BuildInfo, getStatus, hashesOf, startBuild, watchBuild } from './build.ts';
import { type TemplateFinal, TemplateFromImage, type TemplateOptions } from './builder.ts';
import { writeDockerfile } from './dockerfile.ts';
import type { LogEntry, TemplateBuildStatusResponse } from './logs.ts';
import { buildBody, secretsOf } from './recipe.ts';

/** Any recipe. */
export type TemplateClass = TemplateFinal;

/** Options of a build, beside the connection's. */
export interface BasicBuildOptions {
  /** @deprecated Its name. */
  alias: string;
  /** Tags of this build, beside the one in its name. */
  tags?: string[] | undefined;
  /** Processors of its sandboxes. Default of the service: 2. */
  cpuCount?: number | undefined;
  /** Memory of its sandboxes, in MiB. Default of the service: 1024. */
  memoryMB?: number | undefined;
  /** Free disk space of its sandboxes, in MiB. */
  minFreeDiskMb?: number | undefined;
  /** Makes every step anew. Default: false. */
  skipCache?: boolean | undefined;
  /** Gets the build's log. */
  onBuildLogs?: ((logEntry: LogEntry) => void) | undefined;
}

/** Options of a build. */
export type BuildOptions = ConnectionOpts & BasicBuildOptions;

/** Options of `getBuildStatus`. */
export type GetBuildStatusOptions = ConnectionOpts & {
  /** Where in the log to begin. Default: 0. */
  logsOffset?: number | undefined;
};

/** A tag of a template. */
export interface TemplateTag {
  /** Its name. */
  tag: string;
  /** The build that it names. */
  buildId: string;
  /** When it was assigned. */
  createdAt: Date;
}

/** What tags were assigned to. */
export interface TemplateTagInfo {
  /** The build that they name. */
  buildId: string;
  /** All that were assigned. */
  tags: string[];
}

/** What a build is given besides. */
const OF_BUILD = Object.keys({
  alias: true,
  tags: true,
  cpuCount: true,
  memoryMB: true,
  minFreeDiskMb: true,
  skipCache: true,
  onBuildLogs: true,
} satisfies Record<keyof BasicBuildOptions, true>);

const CLASSES = { other: TemplateError };

/** A recipe with its base still to be chosen, and what can be done with recipes and templates. */
export class TemplateBase extends TemplateFromImage {
  /** Options under those of each call. */
  protected static readonly boundOpts?: Omit<ConnectionOpts, 'signal'>;

  /** A recipe as JSON, as it is sent, without the registry's credentials. `computeHashes`: with those of its files. */
  static async toJSON(template: TemplateClass, computeHashes = true): Promise<string> {
    const hashes = computeHashes ? await hashesOf(template.recipe) : [];
    return JSON.stringify(buildBody({ ...template.recipe, registry: undefined }, hashes, false), undefined, 2);
  }

  /**
   * A recipe as a Dockerfile.
   *
   * @throws InvalidArgumentError of one that begins with a template.
   */
  static toDockerfile(template: TemplateClass): string {
    return writeDockerfile(template.recipe);
  }

  /**
   * Builds a template, and waits for it.
   *
   * @param name such as `my-template` or `my-template:v1`
   * @throws BuildError with the step that failed; FileUploadError
   */
  static build(template: TemplateClass, name: string, options?: Omit<BuildOptions, 'alias'>): Promise<BuildInfo>;
  static build(template: TemplateClass, options: BuildOptions): Promise<BuildInfo>;
  static async build(
    template: TemplateClass,
    nameOrOptions: string | BuildOptions,
    more: Omit<BuildOptions, 'alias'> = {},
  ): Promise<BuildInfo> {
    const [name, options] = named(nameOrOptions, more);
    const config = new ConnectionConfig(this.resolveOpts(options), OF_BUILD);
    // As they are sent: the recipe may be changed meanwhile.
    const secrets = secretsOf(template.recipe.registry);
    return through(config, async (noting) => {
      const build = await startBuild(noting, template.recipe, name, options);
      await watchBuild(noting, build, options.onBuildLogs, secrets);
      return build;
    });
  }

  /** Builds a template, and does not wait: see {@link TemplateBase.getBuildStatus}. */
  static buildInBackground(
    template: TemplateClass,
    name: string,
    options?: Omit<BuildOptions, 'alias'>,
  ): Promise<BuildInfo>;
  static buildInBackground(template: TemplateClass, options: BuildOptions): Promise<BuildInfo>;
  static async buildInBackground(
    template: TemplateClass,
    nameOrOptions: string | BuildOptions,
    more: Omit<BuildOptions, 'alias'> = {},
  ): Promise<BuildInfo> {
    const [name, options] = named(nameOrOptions, more);
    const config = new ConnectionConfig(this.resolveOpts(options), OF_BUILD);
    return through(config, (noting) => startBuild(noting, template.recipe, name, options));
  }

  /** How far a build is. */
  static async getBuildStatus(
    data: Pick<BuildInfo, 'templateId' | 'buildId'>,
    options: GetBuildStatusOptions = {},
  ): Promise<TemplateBuildStatusResponse> {
    const { logsOffset = 0, ...rest } = options;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['logsOffset']);
    return getStatus(config, data, whole('logsOffset', logsOffset, 0));
  }

  /** Whether there is a template of this name, also of others. */
  static async exists(name: string, options?: ConnectionOpts): Promise<boolean> {
    const config = new ConnectionConfig(this.resolveOpts(options));
    const path = `/templates/aliases/${segment(text('name', name))}`;
    try {
      await callApi(config, { action: `look for template ${name}`, method: 'GET', path, classes: CLASSES });
      return true;
    } catch (error) {
      const { statusCode } = error as OnceboxError;
      if (statusCode === 404) return false;
      // It is there, and is somebody else's (protocol fact).
      if (statusCode === 403) return true;
      throw error;
    }
  }

  /** @deprecated The same as {@link TemplateBase.exists}. */
  static aliasExists(alias: string, options?: ConnectionOpts): Promise<boolean> {
    return this.exists(alias, options);
  }

  /** Gives a build more tags. `targetName`: `name:tag`. */
  static async assignTags(
    targetName: string,
    tags: string | string[],
    options?: ConnectionOpts,
  ): Promise<TemplateTagInfo> {
    const config = new ConnectionConfig(this.resolveOpts(options));
    const json = { target: text('targetName', targetName), tags: list(tags) };
    const request = {
      action: `tag ${targetName}`,
      method: 'POST',
      path: '/templates/tags',
      json,
      classes: CLASSES,
    } as const;
    const told = await callApi<{ buildID?: string; tags?: string[] }>(config, request);
    return { buildId: told.buildID ?? '', tags: told.tags ?? [] };
  }

  /** Takes tags away. */
  static async removeTags(name: string, tags: string | string[], options?: ConnectionOpts): Promise<void> {
    const config = new ConnectionConfig(this.resolveOpts(options));
    const json = { name: text('name', name), tags: list(tags) };
    const request = { method: 'DELETE', path: '/templates/tags', json, classes: CLASSES } as const;
    await callApi(config, { action: `take tags from ${name}`, ...request });
  }

  /** A template's tags. */
  static async getTags(templateId: string, options?: ConnectionOpts): Promise<TemplateTag[]> {
    const config = new ConnectionConfig(this.resolveOpts(options));
    const action = `list the tags of ${templateId}`;
    const path = `/templates/${segment(text('templateId', templateId))}/tags`;
    const request = { action, method: 'GET', path, classes: CLASSES } as const;
    const tags = await callApi<{ tag?: string; buildID?: string; createdAt?: string }[] | undefined>(config, request);
    return (tags ?? []).map(({ tag = '', buildID = '', createdAt }) => ({
      tag,
      buildId: buildID,
      createdAt: date(action, 'createdAt', createdAt),
    }));
  }

  /** Options of a call over those that are bound. */
  protected static resolveOpts<T extends ConnectionOpts>(opts?: T): T | undefined {
    return ConnectionConfig.mergeOpts(this.boundOpts, opts);
  }
}

/** A class that is also a function which makes its instances. */
export type CallableTemplate = typeof TemplateBase & ((options?: TemplateOptions) => TemplateFromImage);

/** Makes a template's class callable. */
export function callable(base: typeof TemplateBase): CallableTemplate {
  return new Proxy(base, {
    apply: (target, _, [options]: [TemplateOptions?]) => new target(options),
  }) as CallableTemplate;
}

/**
 * Templates: `Template()` begins a recipe, `Template.build(recipe, name)` builds it.
 *
 * ```ts
 * const recipe = Template().fromPythonImage('3.12').pipInstall('numpy');
 * await Template.build(recipe, 'my-template');
 * ```
 */
export const Template: CallableTemplate = /* @__PURE__ */ callable(TemplateBase);

function named(
  nameOrOptions: string | BuildOptions,
  more: Omit<BuildOptions, 'alias'>,
): [string, Omit<BuildOptions, 'alias'>] {
  const name = typeof nameOrOptions === 'string' ? nameOrOptions : nameOrOptions?.alias;
  if (typeof name !== 'string' || name.trim() === '' || /\s/.test(name)) {
    throw new InvalidArgumentError(`name: ${JSON.stringify(name)} is no template's name, such as my-template:v1`);
  }
  return [name, typeof nameOrOptions === 'string' ? more : nameOrOptions];
}

function list(tags: string | string[]): string[] {
  const all = Array.isArray(tags) ? tags : [tags];
  if (all.length === 0) throw new InvalidArgumentError('tags: none is named');
  return all.map((tag) => text('tags', tag));
}
