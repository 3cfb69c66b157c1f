/** Recipes from Dockerfiles, and as Dockerfiles. */

import { InvalidArgumentError } from '../errors.ts';
import { quote } from '../shell.ts';
import type { TemplateFromImage } from './builder.ts';
import { waitForTimeout } from './ready.ts';
import { copySteps, type Recipe } from './recipe.ts';

/** How long a Dockerfile's command has until it is taken for ready, in milliseconds (protocol fact). */
const START_TIME = 20_000;

/** As whom a template's steps run where nothing was said (protocol fact). */
const DEFAULT_USER = 'user';

/** Of no meaning to a sandbox. */
const IGNORED = ['EXPOSE', 'VOLUME', 'LABEL', 'MAINTAINER', 'STOPSIGNAL', 'HEALTHCHECK'];

/** What ADD unpacks where it is a file of the context. */
const ARCHIVE = /\.(tar(\.(gz|bz2|xz|zst))?|tgz|tbz2|txz)$/i;

interface Instruction {
  readonly line: number;
  readonly name: string;
  readonly flags: ReadonlyMap<string, string>;
  readonly rest: string;
  readonly escaping: Escape;
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
    const { name, rest, line, escaping } = instruction;
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
        const pairs = split(rest, line, escaping).map((word) => pairOf(word));
        for (const [key, value] of pairs) args.set(key, value);
        if (begun) template.setEnvs(Object.fromEntries(pairs));
        break;
      }
      case 'RUN':
        noFlags(instruction);
        if (execForm(rest) === undefined && hasHereDocument(rest))
          throw wrong(line, 'here-documents are not supported');
        template.runCmd(commandLine(rest));
        break;
      case 'COPY':
      case 'ADD':
        copy(template, instruction);
        break;
      case 'WORKDIR':
        workdir = true;
        template.setWorkdir(unquoted(rest, line, escaping));
        break;
      case 'USER':
        user = true;
        template.setUser(unquoted(rest, line, escaping));
        break;
      case 'ENV':
        template.setEnvs(Object.fromEntries(environment(rest, line, escaping)));
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
  if (!user) template.setUser(DEFAULT_USER);
  if (!workdir) template.setWorkdir('/home/user');
  const start = [entrypoint, command].filter((each) => each !== undefined).join(' ');
  if (start !== '') template.setStartCmd(start, waitForTimeout(START_TIME));
}

/** Writes a recipe as a Dockerfile. */
export function writeDockerfile(recipe: Recipe): string {
  if (recipe.image === undefined) {
    throw new InvalidArgumentError('toDockerfile: it begins with a template, which no Dockerfile can name');
  }
  let user = DEFAULT_USER;
  const lines = recipe.steps.flatMap(({ type, args }) => {
    for (const arg of type === 'RUN' ? args.slice(1) : args) refuseLineBreak(type, arg);
    const [first = '', other = user] = args;
    switch (type) {
      case 'RUN': {
        const run = `RUN ${written(first)}`;
        return other === user ? [run] : [userLine(other), run, userLine(user)];
      }
      case 'COPY':
        return [copyLine(args)];
      case 'ENV':
        return [
          `ENV ${args.flatMap((name, at) => (at % 2 === 0 ? [`${name}=${quote(args[at + 1] ?? '')}`] : [])).join(' ')}`,
        ];
      case 'USER':
        user = first;
        return [userLine(user)];
      default:
        return [`${type} ${word(type, first)}`];
    }
  });
  const start = recipe.startCmd === undefined ? [] : [`ENTRYPOINT ${written(recipe.startCmd)}`];
  return `${[`FROM ${recipe.image}`, ...lines, ...start].join('\n')}\n`;
}

/** A COPY. Paths that words could not hold are written in the JSON form. */
function copyLine([src = '', dest = '', owner = '', mode = '']: readonly string[]): string {
  const paths = [src, dest];
  for (const path of paths) {
    refuseEscape('COPY', path);
    if (path.includes('$')) throw unwritable(path, 'holds a $, which a Dockerfile takes for a variable');
  }
  if (src.includes('://')) throw unwritable(src, 'would be read as a URL');
  if (/[\s"'\\$]/.test(owner)) throw unwritable(owner, 'is no owner that a Dockerfile can name');
  const isPlain = paths.every((path) => !/^(?:\[|--|<<)|[\s"'\\]/.test(path));
  return [
    'COPY',
    ...(owner === '' ? [] : [`--chown=${owner}`]),
    ...(mode === '' ? [] : [`--chmod=${mode}`]),
    ...(isPlain ? paths : [JSON.stringify(paths)]),
  ].join(' ');
}

function userLine(user: string): string {
  return `USER ${word('USER', user)}`;
}

/** An instruction's one argument: as it is, or in quotes where it would be read as something else. */
function word(type: string, text: string): string {
  refuseEscape(type, text);
  if (text.trim() === text && !/^--|["'\\]/.test(text)) return text;
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}

/** Where a command would not be read as it is: it is of several lines, goes on, or begins as something else does. */
const NO_LINE = /[\n\r]|\\\s*$|^\s*(?:\[|--|#)|<</;

/** A command as an instruction has it. What would be read as something else is given to the shell by its words. */
function written(command: string): string {
  return NO_LINE.test(command) ? JSON.stringify(['/bin/sh', '-c', command]) : command;
}

function refuseLineBreak(type: string, arg: string): void {
  if (!/[\n\r]/.test(arg)) return;
  // Not the value: it may be a secret.
  throw new InvalidArgumentError(`toDockerfile: ${type} holds a line break, which a line of a Dockerfile cannot hold`);
}

/** Refuses what ends with the escape character, in every form alike: as it is, the next line would be a part of it. */
function refuseEscape(type: string, text: string): void {
  if (!/\\\s*$/.test(text)) return;
  const what = `${type} ${JSON.stringify(text)}`;
  throw new InvalidArgumentError(`toDockerfile: ${what} ends with the sign that lets a line go on`);
}

function unwritable(text: string, why: string): InvalidArgumentError {
  return new InvalidArgumentError(`toDockerfile: ${JSON.stringify(text)} ${why}`);
}

/** What the directives at the top of a Dockerfile look like. */
const DIRECTIVE = /^\s*#\s*([a-z][a-z0-9]*)\s*=\s*(.+?)\s*$/i;

/** The character that lets a line go on, and takes the meaning from the one behind it. */
type Escape = '\\' | '`';

/** What the directives say. They end at the first line that is none: a comment, an empty line, an instruction. */
function escapeOf(lines: readonly string[]): Escape {
  let escaping: Escape | undefined;
  for (const [at, line] of lines.entries()) {
    const [, name, value] = DIRECTIVE.exec(line) ?? [];
    if (name === undefined) break;
    if (name.toLowerCase() !== 'escape') continue;
    if (escaping !== undefined) throw wrong(at + 1, 'a second escape directive');
    if (value !== '\\' && value !== '`') throw wrong(at + 1, `escape is \` or \\, not ${JSON.stringify(value)}`);
    escaping = value;
  }
  return escaping ?? '\\';
}

/**
 * Instructions, with lines that go on joined as Docker joins them: comments and empty lines within are no part of an
 * instruction and do not end it, and an escape character that is doubled does not let a line go on.
 */
function* instructions(content: string): Generator<Instruction> {
  const lines = content.split(/\r?\n/);
  const escaping = escapeOf(lines);
  const onward = escaping === '`' ? /(^|[^`])`[ \t]*$/ : /(^|[^\\])\\[ \t]*$/;
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1;
    const first = (lines[at] ?? '').trimStart();
    if (first.startsWith('#')) continue;
    let all = '';
    for (let part = first; ; part = lines[at] ?? '') {
      const within = at + 1 > line && (part.trim() === '' || part.trimStart().startsWith('#'));
      if (!within) all += part.replace(onward, '$1');
      if ((!within && !onward.test(part)) || at + 1 >= lines.length) break;
      at += 1;
    }
    all = all.trim();
    if (all === '') continue;
    const [, word = '', text = ''] = /^(\S+)\s*([\s\S]*)$/.exec(all) ?? [];
    const flags = new Map<string, string>();
    let rest = text;
    for (let flag = /^--([a-z-]+)(?:=(\S*))?\s+/.exec(rest); flag; flag = /^--([a-z-]+)(?:=(\S*))?\s+/.exec(rest)) {
      flags.set(flag[1] ?? '', flag[2] ?? '');
      rest = rest.slice(flag[0].length);
    }
    yield { line, name: word.toUpperCase(), flags, rest: rest.trim(), escaping };
  }
}

function copy(template: TemplateFromImage, { name, flags, rest, line, escaping }: Instruction): void {
  let user: string | undefined;
  let mode: number | undefined;
  for (const [flag, value] of flags) {
    if (flag === 'chown') user = value;
    else if (flag === 'chmod' && /^[0-7]{3,4}$/.test(value)) mode = Number.parseInt(value, 8);
    else if (flag === 'chmod') throw wrong(line, '--chmod wants digits, such as 755');
    else throw wrong(line, `--${flag} is not supported`);
  }
  const isList = rest.startsWith('[');
  const words = isList ? list(rest) : split(rest, line, escaping);
  const dest = words?.pop();
  if (words === undefined || dest === undefined || words.length === 0) throw wrong(line, 'it names no files');
  for (const source of words) {
    if (source.includes('://')) throw wrong(line, 'files are copied from here only, not from URLs');
    if (!isList && source.startsWith('<<')) throw wrong(line, 'here-documents are not supported');
    if (source.includes('$') || dest.includes('$')) throw wrong(line, 'variables are not filled in in paths');
    if (name === 'ADD' && ARCHIVE.test(source)) {
      const instead = 'COPY copies it as it is, and RUN can unpack it';
      throw wrong(line, `ADD would unpack ${JSON.stringify(source)}, and a template does not; ${instead}`);
    }
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

/** What is none of a shell line's operators: arithmetic, in which `<<` shifts, and what is quoted. */
const NO_OPERATOR = /\$\(\([\s\S]*?\)\)|'[^']*(?:'|$)|"(?:[^"\\]|\\[\s\S])*(?:"|$)|\\[\s\S]/g;

/** Whether one of a line's words begins a here-document, as Docker looks for them. `<<<` begins none. */
function hasHereDocument(line: string): boolean {
  const words = line.replaceAll(NO_OPERATOR, 'q').split(/\s+/);
  return words.some((word) => /^\d*<<-?[^<]+$/.test(word));
}

/** The words of a command that is no line for a shell. */
function execForm(text: string): string[] | undefined {
  return text.startsWith('[') ? list(text) : undefined;
}

/** A command as a line for the shell. */
function commandLine(text: string): string {
  const words = execForm(text);
  return words === undefined ? text : words.map(quote).join(' ');
}

function environment(text: string, line: number, escaping: Escape): [string, string][] {
  const first = text.split(/\s/)[0] ?? '';
  // `ENV NAME some value`, the old form.
  if (!first.includes('=')) return [[first, text.slice(first.length).trim()]];
  return split(text, line, escaping).map((word) => {
    if (!word.includes('=')) throw wrong(line, 'a variable has no value');
    return pairOf(word);
  });
}

function pairOf(word: string): [string, string] {
  const at = word.indexOf('=');
  return at < 0 ? [word, ''] : [word.slice(0, at), word.slice(at + 1)];
}

/** One word, which may have blanks in it, without its quotes. */
function unquoted(text: string, line: number, escaping: Escape): string {
  return split(text, line, escaping, true).join('');
}

/** Words as a shell splits them, without anything filled in; `isOne`: what is between them is part of the one that all is. */
function split(text: string, line: number, escaping: Escape, isOne = false): string[] {
  const words: string[] = [];
  const [part, quoted] =
    escaping === '`'
      ? [/\s+|'([^']*)'|"((?:[^"`]|`[\s\S])*)"|`([\s\S])|([^\s'"`]+)/y, /`(["`$])/g]
      : [/\s+|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+)/y, /\\(["\\$`])/g];
  let word: string | undefined;
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (found === null) throw wrong(line, 'a quote is not closed');
    const [all, single, double, escaped, plain] = found;
    const content = single ?? double?.replaceAll(quoted, '$1') ?? escaped ?? plain ?? (isOne ? all : undefined);
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
