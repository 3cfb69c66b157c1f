/** Building a template, and watching a build. */

import { platform } from '#platform';
import { callApi, required } from '../api/control-plane.ts';
import { failed, refused } from '../api/failure.ts';
import type { ConnectionConfig } from '../config.ts';
import { query, segment } from '../endpoints.ts';
import {
  AuthenticationError,
  BuildError,
  FileUploadError,
  InvalidArgumentError,
  NotFoundError,
  TemplateError,
  UnsupportedError,
} from '../errors.ts';
import { sleep } from '../runtime.ts';
import { sendNoted } from '../trail.ts';
import { whole } from '../validate.ts';
import type { FoundFiles } from './context-types.ts';
import {
  LogEntry,
  LogEntryEnd,
  LogEntryStart,
  statusOf,
  type TemplateBuildStatusResponse,
  type WireStatus,
} from './logs.ts';
import { buildBody, type Copy, type Recipe, secretsOf } from './recipe.ts';
import type { BuildOptions } from './template.ts';

/** How often a build is asked how far it is, in milliseconds. */
const POLL_EVERY = 200;

/** How many polls may fail in a row, and the longest wait between two, in milliseconds. */
const MAX_FAILED_POLLS = 16;
const MAX_POLL_WAIT = 5_000;

/** Lines of the log in one answer. */
const PAGE = 100;

/** How long files may be on their way, in milliseconds. */
const UPLOAD_TIMEOUT = 3_600_000;

/** A build that was begun. */
export interface BuildInfo {
  /** @deprecated Its name. */
  alias: string;
  /** The template's name, as it was given. */
  name: string;
  /** The build's tags. */
  tags: string[];
  /** The template's id. */
  templateId: string;
  /** The build's id. */
  buildId: string;
}

/** The hashes of a recipe's files, by step. */
export async function hashesOf(recipe: Readonly<Recipe>): Promise<(string | undefined)[]> {
  return (await findAll(recipe)).map((files) => files?.hash);
}

/** Sends a recipe and its files. */
export async function startBuild(
  config: ConnectionConfig,
  recipe: Readonly<Recipe>,
  name: string,
  options: Omit<BuildOptions, 'alias'>,
): Promise<BuildInfo> {
  const { tags, cpuCount, memoryMB, minFreeDiskMb, skipCache = false, onBuildLogs } = options;
  for (const tag of tags ?? []) {
    if (typeof tag !== 'string' || tag === '' || /[:/\s]/.test(tag)) {
      throw new InvalidArgumentError(`tags: ${JSON.stringify(tag)} is no tag`);
    }
  }
  const json = {
    name,
    ...(tags === undefined || tags.length === 0 ? {} : { tags }),
    ...(cpuCount === undefined ? {} : { cpuCount: whole('cpuCount', cpuCount, 1) }),
    ...(memoryMB === undefined ? {} : { memoryMB: whole('memoryMB', memoryMB, 1) }),
    ...(minFreeDiskMb === undefined ? {} : { minFreeDiskMb: whole('minFreeDiskMb', minFreeDiskMb, 0) }),
  };
  const found = await findAll(recipe);
  const say = (message: string) => onBuildLogs?.(new LogEntry(new Date(), 'info', message));
  onBuildLogs?.(new LogEntryStart(new Date(), 'Build started'));
  const action = `build template ${name}`;
  const classes = { notFound: NotFoundError, other: BuildError };
  const request = { action, method: 'POST', path: '/v3/templates', json, classes } as const;
  const made = await callApi<{ templateID?: string; buildID?: string; tags?: string[] }>(config, request);
  const templateId = required(action, 'templateID', made.templateID);
  const buildId = required(action, 'buildID', made.buildID);
  for (const [at, files] of found.entries()) {
    const copy = recipe.steps[at]?.copy;
    if (files !== undefined && copy !== undefined) await upload(config, templateId, copy, files, say);
  }
  const body = buildBody(
    recipe,
    found.map((files) => files?.hash),
    skipCache,
  );
  const path = `/v2/templates/${segment(templateId)}/builds/${segment(buildId)}`;
  const secrets = secretsOf(recipe.registry);
  await callApi(config, { action, method: 'POST', path, json: body, classes, secrets });
  return { alias: name, name, tags: made.tags ?? tags ?? [], templateId, buildId };
}

/** How far a build is. Secrets of it that the caller knows are not told. */
export async function getStatus(
  config: ConnectionConfig,
  build: Pick<BuildInfo, 'templateId' | 'buildId'>,
  logsOffset: number,
  secrets: readonly string[] = [],
): Promise<TemplateBuildStatusResponse> {
  const at = `/templates/${segment(build.templateId)}/builds/${segment(build.buildId)}/status`;
  const path = `${at}${query({ logsOffset, limit: PAGE })}`;
  const action = 'ask how far the build is';
  const classes = { notFound: TemplateError, other: BuildError };
  return statusOf(await callApi<WireStatus>(config, { action, method: 'GET', path, classes, secrets }), secrets);
}

/** Follows a build to its end. What it is made of may be repeated by the server: its secrets are not told. */
export async function watchBuild(
  config: ConnectionConfig,
  build: BuildInfo,
  told: BuildOptions['onBuildLogs'],
  secrets: readonly string[],
): Promise<void> {
  let offset = 0;
  for (;;) {
    const status = await poll(config, build, offset, secrets);
    offset += status.logEntries.length;
    for (const entry of status.logEntries) told?.(entry);
    // There may be more of its log. Of a build that is over all is asked for, as by the official SDK.
    const isOver = status.status === 'ready' || status.status === 'error';
    if (status.logEntries.length >= PAGE || (isOver && status.logEntries.length > 0)) continue;
    if (status.status === 'ready') {
      told?.(new LogEntryEnd(new Date(), 'Build finished'));
      return;
    }
    if (status.status === 'error') {
      const { step, message = 'the server gives no reason' } = status.reason ?? {};
      told?.(new LogEntryEnd(new Date(), 'Build failed'));
      throw new BuildError(
        `could not build template ${build.name}: ${step === undefined ? '' : `step ${step}: `}${message}`,
      );
    }
    await sleep(POLL_EVERY, config.signal);
  }
}

/** A build goes on while nobody can be asked: that ends the watching only after a while. */
async function poll(
  config: ConnectionConfig,
  build: BuildInfo,
  offset: number,
  secrets: readonly string[],
): Promise<TemplateBuildStatusResponse> {
  for (let failures = 0; ; failures++) {
    try {
      return await getStatus(config, build, offset, secrets);
    } catch (error) {
      if (config.signal?.aborted) throw config.signal.reason;
      const final = [InvalidArgumentError, AuthenticationError, TemplateError, UnsupportedError];
      if (failures === MAX_FAILED_POLLS || final.some((each) => error instanceof each)) throw error;
      config.logger?.debug?.(`asking again how far the build is: ${error}`);
      await sleep(Math.min(POLL_EVERY * 2 ** failures, MAX_POLL_WAIT), config.signal);
    }
  }
}

async function findAll(recipe: Readonly<Recipe>): Promise<(FoundFiles | undefined)[]> {
  if (!recipe.steps.some((step) => step.copy)) return recipe.steps.map(() => undefined);
  const load = platform.templateFiles;
  if (load === undefined) {
    throw new UnsupportedError('copy: this runtime reads no files; build the template in Node, Bun or Deno');
  }
  const files = await load();
  const found: (FoundFiles | undefined)[] = [];
  for (const { copy } of recipe.steps) {
    found.push(copy === undefined ? undefined : await files.find(recipe.context, recipe.ignored, copy));
  }
  return found;
}

async function upload(
  config: ConnectionConfig,
  templateId: string,
  copy: Copy,
  files: FoundFiles,
  say: (message: string) => void,
): Promise<void> {
  const action = `send the files of ${JSON.stringify(copy.src)}`;
  const classes = { notFound: TemplateError, other: FileUploadError };
  const path = `/templates/${segment(templateId)}/files/${files.hash}`;
  const request = { action, method: 'GET', path, classes } as const;
  const link = await callApi<{ present?: boolean; url?: string; headers?: Record<string, string> }>(config, request);
  if (link.present && !copy.forceUpload) {
    say(`The files of ${copy.src} are there already`);
    return;
  }
  const url = new URL(required(action, 'url', link.url));
  await files.pack(copy.gzip, async (archive) => {
    say(`Sending the files of ${copy.src}, ${archive.size} bytes`);
    const call = {
      plane: 'other',
      method: 'PUT',
      base: url.origin,
      path: `${url.pathname}${url.search}`,
      headers: { ...config.userAgent, ...link.headers },
      body: archive,
      read: 'whole',
      requestTimeoutMs: UPLOAD_TIMEOUT,
      policy: config.policy,
      log: config.log,
      signal: config.signal,
    } as const;
    let answer: Awaited<ReturnType<typeof sendNoted>>;
    try {
      answer = await sendNoted(config.sender, call, config.trail);
    } catch (error) {
      throw failed(action, error, config.signal);
    }
    if (answer.status < 200 || answer.status > 299)
      throw await refused(action, answer, { other: FileUploadError }, config.secrets);
  });
}
