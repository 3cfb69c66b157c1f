/** Recipes, step by step. */

import { platform } from '#platform';
import { InvalidArgumentError, TemplateError } from '../errors.ts';
import { split } from '../git/credentials.ts';
import { hide } from '../runtime.ts';
import { quote } from '../shell.ts';
import { text, variables, whole } from '../validate.ts';
import { readDockerfile } from './dockerfile.ts';
import { type ReadyCmd, readyLine, waitForFile } from './ready.ts';
import {
  BASE_IMAGE,
  type CopyItem,
  copySteps,
  emptyRecipe,
  type PathLike,
  pathText,
  type Recipe,
  type Registry,
} from './recipe.ts';

/** Options of `Template()`. */
export interface TemplateOptions {
  /** The directory that `copy` copies from. Default: the process's own. */
  fileContextPath?: PathLike | undefined;
  /** Patterns of files to leave out, beside those of its `.dockerignore`. */
  fileIgnorePatterns?: string[] | undefined;
}

/** What a whole recipe has: nothing more can be added. */
export interface TemplateFinal {
  /** @internal */
  readonly recipe: Readonly<Recipe>;
}

/** Packages by name, in one text or several. */
export type Packages = string | string[];

type CopyOptions = Omit<CopyItem, 'src' | 'dest'>;

/** Steps of a recipe, shared by its states. Each method adds to the recipe and gives it back. */
export class TemplateBuilder implements TemplateFinal {
  /** @internal */
  readonly recipe: Recipe;

  constructor(options: TemplateOptions = {}) {
    const { fileContextPath, fileIgnorePatterns = [] } = options;
    const context = fileContextPath === undefined ? undefined : pathText('fileContextPath', fileContextPath);
    this.recipe = emptyRecipe(context, [...fileIgnorePatterns]);
    hide(this, 'recipe');
  }

  /** Copies files of this machine, relative to the context, into the template. Needs Node, Bun or Deno. */
  copy(src: PathLike | PathLike[], dest: PathLike, options: CopyOptions = {}): this {
    return this.copyItems([{ ...options, src, dest }]);
  }

  /** Copies several. */
  copyItems(items: CopyItem[]): this {
    for (const item of items) this.recipe.steps.push(...copySteps(this.recipe, item));
    return this;
  }

  /** Removes files or directories. */
  remove(path: PathLike | PathLike[], options: { force?: boolean; recursive?: boolean; user?: string } = {}): this {
    const flags = `${options.recursive ? ' -r' : ''}${options.force ? ' -f' : ''}`;
    return this.line(`rm${flags} ${paths('path', path)}`, options.user);
  }

  /** Moves a file or a directory. */
  rename(src: PathLike, dest: PathLike, options: { force?: boolean; user?: string } = {}): this {
    const flag = options.force ? ' -f' : '';
    return this.line(`mv${flag} ${paths('src', src)} ${paths('dest', dest)}`, options.user);
  }

  /** Makes directories, and those above them. */
  makeDir(path: PathLike | PathLike[], options: { mode?: number; user?: string } = {}): this {
    const { mode } = options;
    const bits = mode === undefined ? '' : ` -m ${whole('mode', mode, 0, 0o7777).toString(8).padStart(4, '0')}`;
    return this.line(`mkdir -p${bits} ${paths('path', path)}`, options.user);
  }

  /** Makes a symbolic link `dest` that leads to `src`. */
  makeSymlink(src: PathLike, dest: PathLike, options: { user?: string; force?: boolean } = {}): this {
    return this.line(`ln -s${options.force ? ' -f' : ''} ${paths('src', src)} ${paths('dest', dest)}`, options.user);
  }

  /** Runs a command line, or several in one step, each only if the one before succeeded. */
  runCmd(command: string | string[], options: { user?: string } = {}): this {
    const lines = (Array.isArray(command) ? command : [command]).map((each) => text('command', each));
    if (lines.length === 0) throw new InvalidArgumentError('commands: none is given');
    return this.line(lines.join(' && '), options.user);
  }

  /** Sets where later steps and the sandbox's commands run. */
  setWorkdir(workdir: PathLike): this {
    return this.step('WORKDIR', [pathText('workdir', workdir)]);
  }

  /** Sets as whom later steps and the sandbox's commands run. */
  setUser(user: string): this {
    return this.step('USER', [text('user', user)]);
  }

  /** Sets variables of later steps and of the sandbox's commands. */
  setEnvs(envs: Record<string, string>): this {
    const pairs = Object.entries(variables('envs', envs)).flat();
    return pairs.length === 0 ? this : this.step('ENV', pairs);
  }

  /** Installs Python packages, or what is in the working directory. `g`: for all, as root. Default: true. */
  pipInstall(packages?: Packages, { g = true }: { g?: boolean } = {}): this {
    const what = packages === undefined ? ' .' : words('packages', packages);
    return this.line(`pip install${g ? '' : ' --user'}${what}`, g ? 'root' : undefined);
  }

  /** Installs npm packages, or what `package.json` names. `g`: for all, as root; `dev`: for development. */
  npmInstall(packages?: Packages, options: { g?: boolean; dev?: boolean } = {}): this {
    return this.node('npm install', '--save-dev', packages, options);
  }

  /** Installs packages by Bun, or what `package.json` names. `g`: for all, as root; `dev`: for development. */
  bunInstall(packages?: Packages, options: { g?: boolean; dev?: boolean } = {}): this {
    return this.node('bun install', '--dev', packages, options);
  }

  /** Installs packages of Debian or Ubuntu, as root. */
  aptInstall(packages: Packages, options: { noInstallRecommends?: boolean; fixMissing?: boolean } = {}): this {
    const flags = `${options.noInstallRecommends ? ' --no-install-recommends' : ''}${options.fixMissing ? ' --fix-missing' : ''}`;
    const install = `DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y${flags}`;
    return this.line(`apt-get update && ${install}${words('packages', packages)}`, 'root');
  }

  /**
   * Fetches MCP servers.
   *
   * @throws TemplateError unless it begins with the template `mcp-gateway`.
   */
  addMcpServer(servers: Packages): this {
    this.mustBegin('mcp-gateway', 'addMcpServer');
    return this.line(`mcp-gateway pull${words('servers', servers)}`, 'root');
  }

  /**
   * Clones a repository, whose URL is part of the step.
   *
   * @throws InvalidArgumentError where a password or a token is in the URL.
   */
  gitClone(url: string, path?: PathLike, options: { branch?: string; depth?: number; user?: string } = {}): this {
    const { branch, depth } = options;
    const line = [
      `git clone ${quote(withoutCredentials(text('url', url)))}`,
      ...(branch === undefined ? [] : [`--branch ${quote(text('branch', branch))} --single-branch`]),
      ...(depth === undefined ? [] : [`--depth ${whole('depth', depth, 1)}`]),
      ...(path === undefined ? [] : [paths('path', path)]),
    ];
    return this.line(line.join(' '), options.user);
  }

  /** Makes all steps from here on anew, whatever was built before. */
  skipCache(): this {
    this.recipe.forceNext = true;
    return this;
  }

  /** Sets what runs in each sandbox from its start on, and what tells that it is ready. */
  setStartCmd(startCommand: string, readyCommand: string | ReadyCmd): TemplateFinal {
    this.recipe.startCmd = text('startCommand', startCommand);
    return this.setReadyCmd(readyCommand);
  }

  /** Sets what tells that a sandbox is ready. */
  setReadyCmd(readyCommand: string | ReadyCmd): TemplateFinal {
    this.recipe.readyCmd = readyLine(readyCommand);
    return this;
  }

  /**
   * Builds a dev container's image ahead.
   *
   * @throws TemplateError unless it begins with the template `devcontainer`.
   */
  betaDevContainerPrebuild(devcontainerDirectory: string): this {
    this.mustBegin('devcontainer', 'betaDevContainerPrebuild');
    return this.line(
      `devcontainer build --workspace-folder ${paths('devcontainerDirectory', devcontainerDirectory)}`,
      'root',
    );
  }

  /**
   * Starts a dev container in each sandbox.
   *
   * @throws TemplateError unless it begins with the template `devcontainer`.
   */
  betaSetDevContainerStart(devcontainerDirectory: string): TemplateFinal {
    this.mustBegin('devcontainer', 'betaSetDevContainerStart');
    const folder = paths('devcontainerDirectory', devcontainerDirectory);
    const start = [
      `sudo devcontainer up --workspace-folder ${folder}`,
      `sudo /prepare-exec.sh ${folder} | sudo tee /devcontainer.sh > /dev/null`,
      'sudo chmod +x /devcontainer.sh',
      'sudo touch /devcontainer.up',
    ];
    return this.setStartCmd(start.join(' && '), waitForFile('/devcontainer.up'));
  }

  private node(
    install: string,
    devFlag: string,
    packages: Packages | undefined,
    { g = false, dev = false }: { g?: boolean; dev?: boolean },
  ): this {
    const flags = `${g ? ' -g' : ''}${dev ? ` ${devFlag}` : ''}`;
    return this.line(
      `${install}${flags}${packages === undefined ? '' : words('packages', packages)}`,
      g ? 'root' : undefined,
    );
  }

  private mustBegin(template: string, method: string): void {
    if (this.recipe.template === template) return;
    throw new TemplateError(`${method}: the template must begin with fromTemplate(${JSON.stringify(template)})`);
  }

  private line(command: string, user: string | undefined): this {
    return this.step('RUN', user === undefined ? [command] : [command, text('user', user)]);
  }

  private step(type: 'RUN' | 'WORKDIR' | 'USER' | 'ENV', args: string[]): this {
    this.recipe.steps.push({ type, args, force: this.recipe.forceNext });
    return this;
  }
}

/** A recipe whose base is still to be chosen; without a choice it is `fromBaseImage`. */
export class TemplateFromImage extends TemplateBuilder {
  /** Debian. */
  fromDebianImage(variant = 'stable'): TemplateBuilder {
    return this.fromImage(`debian:${variant}`);
  }

  /** Ubuntu. */
  fromUbuntuImage(variant = 'latest'): TemplateBuilder {
    return this.fromImage(`ubuntu:${variant}`);
  }

  /** Fedora. */
  fromFedoraImage(variant = '44'): TemplateBuilder {
    return this.fromImage(`fedora:${variant}`);
  }

  /** Alpine. */
  fromAlpineImage(variant = '3.24'): TemplateBuilder {
    return this.fromImage(`alpine:${variant}`);
  }

  /** Arch Linux. */
  fromArchImage(variant = 'latest'): TemplateBuilder {
    return this.fromImage(`archlinux:${variant}`);
  }

  /** Debian with Python. */
  fromPythonImage(version = '3'): TemplateBuilder {
    return this.fromImage(`python:${version}`);
  }

  /** Debian with Node. */
  fromNodeImage(variant = 'lts'): TemplateBuilder {
    return this.fromImage(`node:${variant}`);
  }

  /** Debian with Bun. */
  fromBunImage(variant = 'latest'): TemplateBuilder {
    return this.fromImage(`oven/bun:${variant}`);
  }

  /** The service's own image. */
  fromBaseImage(): TemplateBuilder {
    return this.fromImage(BASE_IMAGE);
  }

  /** Any image, of a registry that is logged in to where credentials are given. */
  fromImage(baseImage: string, credentials?: { username: string; password: string }): TemplateBuilder {
    if (credentials === undefined) return this.begin(baseImage, undefined);
    const { username, password } = credentials;
    return this.begin(baseImage, { type: 'registry', username: text('username', username), password });
  }

  /** An image of Amazon's registry. */
  fromAWSRegistry(
    image: string,
    credentials: { accessKeyId: string; secretAccessKey: string; region: string },
  ): TemplateBuilder {
    const { accessKeyId, secretAccessKey, region } = credentials;
    return this.begin(image, {
      type: 'aws',
      awsAccessKeyId: text('accessKeyId', accessKeyId),
      awsSecretAccessKey: secretAccessKey,
      awsRegion: text('region', region),
    });
  }

  /** An image of Google's registry. `serviceAccountJSON`: an object, its JSON, or the path of a file with it. */
  fromGCPRegistry(image: string, credentials: { serviceAccountJSON: string | object }): TemplateBuilder {
    const { serviceAccountJSON: given } = credentials;
    const json =
      typeof given === 'string' ? (fileOf(given, (all) => all.startsWith('{')) ?? given) : JSON.stringify(given);
    return this.begin(image, { type: 'gcp', serviceAccountJson: json });
  }

  /** Another template. */
  fromTemplate(template: string): TemplateBuilder {
    this.recipe.template = text('template', template);
    this.recipe.image = undefined;
    return this;
  }

  /**
   * A Dockerfile: its text, or the path of one. It may have one stage.
   *
   * @throws InvalidArgumentError, with the line, where it has what a template cannot have.
   */
  fromDockerfile(dockerfileContentOrPath: string): TemplateBuilder {
    const given = text('dockerfile', dockerfileContentOrPath);
    const content = fileOf(given, (all) => /\n|^\s*(FROM|ARG|#)/i.test(all)) ?? given;
    readDockerfile(content, this);
    return this;
  }

  private begin(image: string, registry: Registry | undefined): TemplateBuilder {
    const name = text('image', image).trim();
    if (name === '' || name.endsWith(':') || /\s/.test(name)) {
      throw new InvalidArgumentError(`image: ${JSON.stringify(name)} is no image's name, such as debian:stable`);
    }
    Object.assign(this.recipe, { image: name, template: undefined, registry });
    return this;
  }
}

/** What a file holds, where the text is a file's path; a runtime without files takes all for content. */
function fileOf(given: string, isContent: (given: string) => boolean): string | undefined {
  return isContent(given.trim()) ? undefined : platform.readTextIfFile?.(given);
}

/** A URL, which is not shown where it is refused. */
function withoutCredentials(url: string): string {
  let isPlain: boolean;
  try {
    isPlain = split(url).credentials === undefined;
  } catch {
    isPlain = false;
  }
  if (isPlain) return url;
  throw new InvalidArgumentError(
    "url: it holds, or may hold, a password or a token, which would be kept in the template's steps and shown in the build's " +
      'log; `runCmd` runs such a line where that is meant',
  );
}

function paths(option: string, given: PathLike | PathLike[]): string {
  const all = Array.isArray(given) ? given : [given];
  if (all.length === 0) throw new InvalidArgumentError(`${option}: none is given`);
  return all.map((each) => quote(pathText(option, each))).join(' ');
}

function words(option: string, given: Packages): string {
  const all = (Array.isArray(given) ? given : [given]).flatMap((each) => text(option, each).trim().split(/\s+/));
  if (all.length === 0) throw new InvalidArgumentError(`${option}: none is named`);
  return all.map((each) => ` ${quote(each)}`).join('');
}
