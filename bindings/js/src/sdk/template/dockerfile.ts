/** Recipes from Dockerfiles, and as Dockerfiles. */

import { InvalidArgumentError } from '../errors.ts';
import { quote } from '../shell.ts';
import type { TemplateFromImage } from './builder.ts';
import { waitForTimeout } from './ready.ts';
import { copySteps, type Recipe } from './recipe.ts';

/** How long a Dockerfile's command has until it is taken for ready, in milliseconds (protocol fact). */
const START_TIME = 20_000;

/** Of no meaning to a sandbox. */
const IGNORED = ['EXPOSE', 'VOLUME', 'LABEL', 'MAINTAINER', 'STOPSIGNAL', 'HEALTHCHECK'];

interface Instruction {
  readonly line: number;
  readonly name: string;
  readonly flags: ReadonlyMap<string, string>;
  readonly rest: string;
}

/** Reads a Dockerfile into a recipe. */
export function readDockerfile(content: string, template: TemplateFromImage): void {
  const args = new Map<string, string>();
  let begun = false;
  let user = false;
  let workdir = false;
  let entrypoint: string | undefined;
  let command: string | undefined;
  for (const instruction of instructions(content)) {
    const { name, rest, line } = instruction;
    if (!begun && name !== 'FROM' && name !== 'ARG') throw wrong(line, `${name} stands before FROM`);
    switch (name) {
      case 'FROM': {
        if (begun) throw wrong(line, 'a second stage; a template has one');
        noFlags(instruction);
        // Where a Dockerfile begins (protocol fact).
        template
          .fromImage(filled(rest.split(/\s+/)[0] ?? '', args, line))
          .setUser('root')
          .setWorkdir('/');
        begun = true;
        break;
      }
      case 'ARG': {
        const pairs = split(rest, line).map((word) => pairOf(word));
        for (const [key, value] of pairs) args.set(key, value);
        if (begun) template.setEnvs(Object.fromEntries(pairs));
        break;
      }
      case 'RUN':
        noFlags(instruction);
        if (/<<-?['"]?\w/.test(rest)) throw wrong(line, 'here-documents are not supported');
        template.runCmd(commandLine(rest));
        break;
      case 'COPY':
      case 'ADD':
        copy(template, instruction);
        break;
      case 'WORKDIR':
        workdir = true;
        template.setWorkdir(rest);
        break;
      case 'USER':
        user = true;
        template.setUser(rest);
        break;
      case 'ENV':
        template.setEnvs(Object.fromEntries(environment(rest, line)));
        break;
      case 'CMD':
        command = commandLine(rest);
        break;
      case 'ENTRYPOINT':
        entrypoint = commandLine(rest);
        break;
      default:
        if (!IGNORED.includes(name)) throw wrong(line, `${name} has no place in a template`);
    }
  }
  if (!begun) throw new InvalidArgumentError('Dockerfile: it has no FROM');
  if (!user) template.setUser('user');
  if (!workdir) template.setWorkdir('/home/user');
  const start = [entrypoint, command].filter((each) => each !== undefined).join(' ');
  if (start !== '') template.setStartCmd(start, waitForTimeout(START_TIME));
}

/** Writes a recipe as a Dockerfile. */
export function writeDockerfile(recipe: Recipe): string {
  if (recipe.image === undefined) {
    throw new InvalidArgumentError('toDockerfile: it begins with a template, which no Dockerfile can name');
  }
  const lines = recipe.steps.map(({ type, args }) => {
    switch (type) {
      case 'COPY':
        return `COPY ${args[0]} ${args[1]}`;
      case 'RUN':
        return `RUN ${args[0]}`;
      case 'ENV':
        return `ENV ${args.flatMap((name, at) => (at % 2 === 0 ? [`${name}=${quote(args[at + 1] ?? '')}`] : [])).join(' ')}`;
      default:
        return `${type} ${args.join(' ')}`;
    }
  });
  const start = recipe.startCmd === undefined ? [] : [`ENTRYPOINT ${recipe.startCmd}`];
  return `${[`FROM ${recipe.image}`, ...lines, ...start].join('\n')}\n`;
}

/** Instructions, with lines that go on after a backslash joined, and comments left out. */
function* instructions(content: string): Generator<Instruction> {
  const lines = content.split(/\r?\n/);
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1;
    let all = (lines[at] ?? '').trimStart();
    if (all.trim() === '' || all.startsWith('#')) continue;
    while (/\\\s*$/.test(all) && at + 1 < lines.length) {
      at += 1;
      const next = lines[at] ?? '';
      if (!next.trimStart().startsWith('#')) all = all.replace(/\\\s*$/, '') + next;
    }
    const [, word = '', text = ''] = /^(\S+)\s*([\s\S]*)$/.exec(all.trim()) ?? [];
    const flags = new Map<string, string>();
    let rest = text;
    for (let flag = /^--([a-z-]+)(?:=(\S*))?\s+/.exec(rest); flag; flag = /^--([a-z-]+)(?:=(\S*))?\s+/.exec(rest)) {
      flags.set(flag[1] ?? '', flag[2] ?? '');
      rest = rest.slice(flag[0].length);
    }
    yield { line, name: word.toUpperCase(), flags, rest: rest.trim() };
  }
}

function copy(template: TemplateFromImage, { flags, rest, line }: Instruction): void {
  let user: string | undefined;
  let mode: number | undefined;
  for (const [flag, value] of flags) {
    if (flag === 'chown') user = value;
    else if (flag === 'chmod' && /^[0-7]{3,4}$/.test(value)) mode = Number.parseInt(value, 8);
    else if (flag === 'chmod') throw wrong(line, '--chmod wants digits, such as 755');
    else throw wrong(line, `--${flag} is not supported`);
  }
  const words = rest.startsWith('[') ? list(rest) : split(rest, line);
  const dest = words?.pop();
  if (words === undefined || dest === undefined || words.length === 0) throw wrong(line, 'it names no files');
  for (const source of words) {
    if (source.includes('://')) throw wrong(line, 'files are copied from here only, not from URLs');
    if (source.startsWith('<<')) throw wrong(line, 'here-documents are not supported');
    if (source.includes('$') || dest.includes('$')) throw wrong(line, 'variables are not filled in in paths');
    // A leading slash is the context's in a Dockerfile.
    const src = source.replace(/^\/+/, '') || '.';
    try {
      template.recipe.steps.push(...copySteps(template.recipe, { src, dest, user, mode }));
    } catch (error) {
      throw wrong(line, error instanceof Error ? error.message : String(error));
    }
  }
}

function noFlags({ flags, line }: Instruction): void {
  for (const flag of flags.keys()) throw wrong(line, `--${flag} is not supported`);
}

function list(text: string): string[] | undefined {
  try {
    const words = JSON.parse(text) as unknown;
    return Array.isArray(words) && words.every((each) => typeof each === 'string') ? words : undefined;
  } catch {
    return undefined;
  }
}

/** A command as a line for the shell. */
function commandLine(text: string): string {
  const words = text.startsWith('[') ? list(text) : undefined;
  return words === undefined ? text : words.map(quote).join(' ');
}

function environment(text: string, line: number): [string, string][] {
  const first = text.split(/\s/)[0] ?? '';
  // `ENV NAME some value`, the old form.
  if (!first.includes('=')) return [[first, text.slice(first.length).trim()]];
  return split(text, line).map((word) => {
    if (!word.includes('=')) throw wrong(line, 'a variable has no value');
    return pairOf(word);
  });
}

function pairOf(word: string): [string, string] {
  const at = word.indexOf('=');
  return at < 0 ? [word, ''] : [word.slice(0, at), word.slice(at + 1)];
}

/** Words as a shell splits them, without anything filled in. */
function split(text: string, line: number): string[] {
  const words: string[] = [];
  const part = /\s+|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+)/y;
  let word: string | undefined;
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (found === null) throw wrong(line, 'a quote is not closed');
    const [all, single, double, escaped, plain] = found;
    const content = single ?? double?.replaceAll(/\\(["\\$`])/g, '$1') ?? escaped ?? plain;
    if (content !== undefined) word = (word ?? '') + content;
    else if (/^\s/.test(all) && word !== undefined) {
      words.push(word);
      word = undefined;
    }
  }
  if (word !== undefined) words.push(word);
  return words;
}

/** Fills ARGs in. */
function filled(text: string, args: ReadonlyMap<string, string>, line: number): string {
  return text.replaceAll(/\$(?:\{([^}]*)\}|(\w+))/g, (_, braced: string | undefined, plain: string | undefined) => {
    const name = braced ?? plain ?? '';
    const value = args.get(name);
    if (!value) throw wrong(line, `\${${name}} has no ARG with a default`);
    return value;
  });
}

function wrong(line: number, why: string): InvalidArgumentError {
  return new InvalidArgumentError(`Dockerfile: line ${line}: ${why}`);
}
