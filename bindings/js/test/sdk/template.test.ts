import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { E2B } from '../../src/sdk/client.ts';
import { BuildError, InvalidArgumentError, TemplateError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { quote } from '../../src/sdk/shell.ts';
import { templateFiles } from '../../src/sdk/template/context.node.ts';
import { globExpression } from '../../src/sdk/template/glob.ts';
import { defaultBuildLogger, LogEntry, LogEntryEnd, LogEntryStart } from '../../src/sdk/template/logs.ts';
import { waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } from '../../src/sdk/template/ready.ts';
import { Template } from '../../src/sdk/template/template.ts';
import { available, until, useServer } from './server.ts';

let folder = '';
let trees = 0;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'oncebox-js-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function tree(files: Record<string, string>): string {
  const root = join(folder, `tree-${trees++}`);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  return root;
}

const copy = (src: string) => ({ src, dest: '/to', forceUpload: false, resolveSymlinks: false, gzip: true });
const find = (root: string, src: string, ignored: string[] = []) => templateFiles.find(root, ignored, copy(src));

/** What `tar` finds in what was packed. */
async function packed(root: string, src: string, gzip = true, ignored: string[] = []): Promise<string[]> {
  return (await find(root, src, ignored)).pack(gzip, async (archive) => {
    const file = join(folder, 'packed.tar');
    writeFileSync(file, new Uint8Array(await archive.arrayBuffer()));
    return execFileSync('tar', ['-tf', file, '--quoting-style=literal'], { encoding: 'utf8' }).trimEnd().split('\n');
  });
}

interface Sent {
  fromImage?: string;
  startCmd?: string;
  readyCmd?: string;
  steps: { type: string; args: string[]; force: boolean }[];
}

async function sent(template: Parameters<typeof Template.toJSON>[0]): Promise<Sent> {
  return JSON.parse(await Template.toJSON(template, false)) as Sent;
}

test('a URL without a password is cloned as it is', async () => {
  const urls = ['https://me@h/a', 'ssh://git@h/a', 'git@h:a', '/srv/a', './a'];
  const recipe = urls.reduce((all, url) => all.gitClone(url), Template().fromImage('x'));
  expect((await sent(recipe)).steps.map(({ args }) => args)).toEqual(urls.map((url) => [`git clone ${url}`]));
});

test('steps are sent as the official SDK sends them', async () => {
  const recipe = Template()
    .fromPythonImage()
    .pipInstall()
    .pipInstall(['a', 'b>=1'], { g: false })
    .npmInstall('x', { dev: true })
    .npmInstall(['x', 'y'], { g: true })
    .bunInstall()
    .aptInstall(['a', 'b'], { noInstallRecommends: true, fixMissing: true })
    .gitClone('https://x/y z', '/p q', { branch: 'b', depth: 1, user: 'root' })
    .makeDir(['/a', '/b c'], { mode: 0o755, user: 'root' })
    .makeSymlink('/a b', '/c', { force: true })
    .remove('/x')
    .remove(['/x', '/y'], { force: true, recursive: true, user: 'root' })
    .rename('/a', '/b', { force: true })
    .runCmd(['a', 'b'], { user: 'root' })
    .setEnvs({ A: 'b', C: "it's" })
    .setUser('u')
    .skipCache()
    .setWorkdir('/w')
    .setStartCmd('start', waitForPort(80));
  const { fromImage, startCmd, readyCmd, steps } = await sent(recipe);
  expect([fromImage, startCmd, readyCmd]).toEqual(['python:3', 'start', '[ -n "$(ss -Htuln sport = :80)" ]']);
  const apt = 'DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y';
  expect(steps.map(({ type, args }) => [type, ...args])).toEqual([
    ['RUN', 'pip install .', 'root'],
    ['RUN', "pip install --user a 'b>=1'"],
    ['RUN', 'npm install --save-dev x'],
    ['RUN', 'npm install -g x y', 'root'],
    ['RUN', 'bun install'],
    ['RUN', `apt-get update && ${apt} --no-install-recommends --fix-missing a b`, 'root'],
    ['RUN', "git clone 'https://x/y z' --branch b --single-branch --depth 1 '/p q'", 'root'],
    ['RUN', "mkdir -p -m 0755 /a '/b c'", 'root'],
    ['RUN', "ln -s -f '/a b' /c"],
    ['RUN', 'rm /x'],
    ['RUN', 'rm -r -f /x /y', 'root'],
    ['RUN', 'mv -f /a /b'],
    ['RUN', 'a && b', 'root'],
    ['ENV', 'A', 'b', 'C', "it's"],
    ['USER', 'u'],
    ['WORKDIR', '/w'],
  ]);
  expect(steps.map((step) => step.force).lastIndexOf(false)).toBe(steps.length - 2);
  for (const [template, image] of [
    [Template().fromDebianImage(), 'debian:stable'],
    [Template().fromUbuntuImage('24.04'), 'ubuntu:24.04'],
    [Template().fromFedoraImage(), 'fedora:44'],
    [Template().fromAlpineImage(), 'alpine:3.24'],
    [Template().fromArchImage(), 'archlinux:latest'],
    [Template().fromNodeImage(), 'node:lts'],
    [Template().fromBunImage(), 'oven/bun:latest'],
    [Template().fromImage('x', { username: 'a', password: 'hunter2' }), 'x'],
    [Template().fromAWSRegistry('y', { accessKeyId: 'a', secretAccessKey: 'hunter2', region: 'c' }), 'y'],
    [Template().fromGCPRegistry('z', { serviceAccountJSON: { key: 'hunter2' } }), 'z'],
    [Template(), 'e2bdev/base'],
  ] as const) {
    const json = await Template.toJSON(template, false);
    expect((JSON.parse(json) as Sent).fromImage).toBe(image);
    expect(json).not.toMatch(/hunter2/);
  }
  expect((await sent(Template().fromTemplate('mcp-gateway').addMcpServer(['exa', 'brave']))).steps[0]?.args).toEqual([
    'mcp-gateway pull exa brave',
    'root',
  ]);
  const container = Template()
    .fromTemplate('devcontainer')
    .betaDevContainerPrebuild('/d')
    .betaSetDevContainerStart('/d');
  expect((await sent(container)).readyCmd).toBe('[ -f /devcontainer.up ]');
});

test('what tells that a sandbox is ready', () => {
  expect(waitForFile("a b'c").getCmd()).toBe(`[ -f 'a b'\\''c' ]`);
  expect(waitForProcess('x; rm -r /').getCmd()).toBe("pgrep 'x; rm -r /' > /dev/null");
  expect([waitForTimeout(10).getCmd(), waitForTimeout(2500).getCmd()]).toEqual(['sleep 1', 'sleep 2']);
  expect(waitForURL('http://x/?a&b', 404).getCmd()).toMatch(/'http:\/\/x\/\?a&b' \| grep -q "404"$/);
});

test.each([
  ...['https://me:hunter2@h/a', 'https://:hunter2@h/a', 'https://me:hun#ter2@h/a', 'https://me:hun/ter2@h/a'],
  ...['https://ghp_hunter20123456789ab@h/a', 'ssh://me:hunter2@h/a', 'ftp://me:hunter2@h/a'],
])("a password in %s, which is cloned, is in no step of a template's", (url) => {
  const clone = () => Template().fromImage('x').gitClone(url);
  expect(clone).toThrow(InvalidArgumentError);
  expect(clone).toThrow(/^url: it holds, or may hold, a password or a token,.*`runCmd`/);
  expect(clone).not.toThrow(/hun|ter2/);
});

test('a Dockerfile becomes steps, and steps a Dockerfile', async () => {
  const text = [
    '# comment',
    'ARG V=12',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a Dockerfile's
    'FROM debian:${V}-slim AS base',
    'ARG NAME=x',
    'ENV A=1 B="two words"',
    'ENV OLD some value',
    'ENV PATH=/opt/bin:$PATH',
    'WORKDIR /app',
    'COPY --chown=app --chmod=755 a.txt b/ /dst/',
    'ADD / /all',
    'RUN apt-get update && \\',
    '    # a comment within',
    '    apt-get install -y jq',
    'RUN ["echo", "a b"]',
    'EXPOSE 80',
    'USER app',
    'CMD ["serve", "-p", "8 0"]',
    '',
  ].join('\n');
  const { fromImage, startCmd, readyCmd, steps } = await sent(Template().fromDockerfile(text));
  expect([fromImage, startCmd, readyCmd]).toEqual(['debian:12-slim', "serve -p '8 0'", 'sleep 20']);
  expect(steps.map(({ type, args }) => [type, ...args])).toEqual([
    ['USER', 'root'],
    ['WORKDIR', '/'],
    ['ENV', 'NAME', 'x'],
    ['ENV', 'A', '1', 'B', 'two words'],
    ['ENV', 'OLD', 'some value'],
    ['ENV', 'PATH', '/opt/bin:$PATH'],
    ['WORKDIR', '/app'],
    ['COPY', 'a.txt', '/dst/', 'app', '0755'],
    ['COPY', 'b/', '/dst/', 'app', '0755'],
    ['COPY', '.', '/all', '', ''],
    ['RUN', 'apt-get update &&     apt-get install -y jq'],
    ['RUN', "echo 'a b'"],
    ['USER', 'app'],
  ]);
  const root = tree({ 'my.Dockerfile': 'FROM a\n' });
  const fromFile = await sent(Template().fromDockerfile(join(root, 'my.Dockerfile')));
  expect(fromFile.steps.slice(2).map(({ args }) => args[0])).toEqual(['user', '/home/user']);
  const recipe = Template().fromImage('debian:12').setEnvs({ A: "it's" }).copy('x', '/x').runCmd('echo $A | wc -c');
  const written = Template.toDockerfile(recipe);
  expect((await sent(Template().fromDockerfile(written))).steps.slice(2, -2)).toEqual((await sent(recipe)).steps);
  for (const [wrong, words] of [
    ['FROM a\nFROM b', /line 2: a second stage/],
    ['FROM --platform=x a', /line 1: --platform/],
    ['FROM $X', /\$\{X\} has no ARG/],
    ['FROM a\nCOPY --from=b /x /y', /line 2: --from/],
    ['FROM a\nCOPY ../x /y', /leads outside/],
    ['FROM a\nADD https://e.com/x /y', /not from URLs/],
    ['FROM a\nONBUILD RUN x', /line 2: ONBUILD/],
    ["FROM a\nENV A='b", /a quote is not closed/],
    ['FROM a\nRUN <<EOF\nx\nEOF', /here-documents/],
    ['RUN x\nFROM a', /stands before FROM/],
  ] as const) {
    expect(() => Template().fromDockerfile(wrong), wrong).toThrow(words);
    expect(() => Template().fromDockerfile(wrong), wrong).toThrow(InvalidArgumentError);
  }
});

test.each([
  'echo one\ntwo',
  'echo one\r\ntwo',
  'echo one \\',
  'echo one \\ ',
  '[ -f /x ] && rm /x',
  ' [ -f /x ]',
  '--mount=type=cache true',
  '# nothing',
  'cat <<EOF\nx\nEOF',
  'cat <<<"a"',
])('a command that a line of a Dockerfile would not hold is written by its words: %j', (command) => {
  const words = JSON.stringify(['/bin/sh', '-c', command]);
  const recipe = Template().fromImage('debian:12').runCmd(command).setStartCmd(command, 'true');
  const file = Template.toDockerfile(recipe);
  expect(file).toBe(`FROM debian:12\nRUN ${words}\nENTRYPOINT ${words}\n`);
  const line = `/bin/sh -c ${quote(command)}`;
  const { steps, startCmd } = Template().fromDockerfile(file).recipe;
  expect([steps[2]?.args, startCmd]).toEqual([[line], line]);
});

test.each(['echo a # b', 'echo "[a]"', 'test 1 -lt 2 && echo \\a', 'git log -- x'])(
  'a command that a line holds is written as it is: %j',
  (command) => {
    const recipe = Template().fromImage('debian:12').runCmd(command).setStartCmd(command, 'true');
    expect(Template.toDockerfile(recipe)).toBe(`FROM debian:12\nRUN ${command}\nENTRYPOINT ${command}\n`);
  },
);

test('what a line of a Dockerfile cannot hold is refused, and its value is not told', () => {
  const recipe = () => Template().fromImage('debian:12');
  for (const refused of [
    () => recipe().setEnvs({ A: 'hunter2\nB' }),
    () => recipe().setEnvs({ 'A\nhunter2': 'B' }),
    () => recipe().copy('a\nhunter2', '/b'),
    () => recipe().copy('a', '/b\nhunter2'),
    () => recipe().setWorkdir('/a\r\nhunter2'),
    () => recipe().setUser('me\nhunter2'),
    () => recipe().setWorkdir('/a\\'),
    () => recipe().copy('a', '/b\\'),
  ]) {
    expect(() => Template.toDockerfile(refused()), String(refused)).toThrow(InvalidArgumentError);
    expect(() => Template.toDockerfile(refused()), String(refused)).toThrow(/^(?!.*hunter2)toDockerfile: /s);
  }
  // Its quote ends the line.
  expect(Template.toDockerfile(recipe().setEnvs({ A: 'b\\' }))).toBe("FROM debian:12\nENV A='b\\'\n");
});

test("a Dockerfile keeps COPY's owners, permissions and blanks, and what a folder and a user are called", async () => {
  const recipe = Template()
    .fromImage('debian:12')
    .copy('x', '/x')
    .copy('x', '/owned/', { user: 'me:us', mode: 0o4755 })
    .copy('my files', '/a b/', { user: '1000' })
    .copy('it\'s "it"', '/a\tb', { mode: 0o600 })
    .copy('a\\b', '/x')
    .copy('[x]', '/x')
    .copy('--x', '/<<x')
    .copy('<<x', '#x')
    .setWorkdir('/w')
    .setWorkdir('/a b/ ')
    .setWorkdir('/it\'s "it" \\ $A')
    .setWorkdir("'/a'")
    .setWorkdir('--a b')
    .setUser('us')
    .setUser('"me"')
    .setUser('me');
  const file = Template.toDockerfile(recipe);
  expect(file.split('\n').slice(1, 5)).toEqual([
    'COPY x /x',
    'COPY --chown=me:us --chmod=4755 x /owned/',
    'COPY --chown=1000 ["my files","/a b/"]',
    String.raw`COPY --chmod=0600 ["it's \"it\"","/a\tb"]`,
  ]);
  expect((await sent(Template().fromDockerfile(file))).steps.slice(2)).toEqual((await sent(recipe)).steps);
});

test('a command of another user is that of the Dockerfile, too, and what follows is not', () => {
  const recipe = Template().fromImage('debian:12').runCmd('a', { user: 'root' }).runCmd('b', { user: 'user' });
  recipe.runCmd('c').setUser('me').runCmd('d', { user: 'me' }).runCmd('e', { user: 'you "2"' }).copy('x', '/x');
  const lines = [
    'FROM debian:12',
    // Where nothing was said, steps are the sandboxes' user's.
    ...['USER root', 'RUN a', 'USER user', 'RUN b', 'RUN c', 'USER me', 'RUN d'],
    ...['USER "you \\"2\\""', 'RUN e', 'USER me', 'COPY x /x', ''],
  ];
  expect(Template.toDockerfile(recipe)).toBe(lines.join('\n'));
});

test('what a Dockerfile would take for a variable, a URL or another owner is not written', () => {
  const recipe = () => Template().fromImage('debian:12');
  for (const [refused, words] of [
    [recipe().copy('$x', '/x'), 'toDockerfile: "$x" holds a $, which a Dockerfile takes for a variable'],
    [recipe().copy('x', '/a$b'), 'toDockerfile: "/a$b" holds a $, which a Dockerfile takes for a variable'],
    [recipe().copy('ab://c', '/x'), 'toDockerfile: "ab://c" would be read as a URL'],
    [recipe().copy('x\\', '/x'), 'toDockerfile: COPY "x'],
    [recipe().runCmd('x', { user: 'me\\' }), 'toDockerfile: USER'],
    [recipe().runCmd('x', { user: 'a\nb' }), 'toDockerfile: RUN holds a line break'],
    ...['a b', 'a"b', "a'b", 'a\\b', 'a$b'].map((user) => {
      const words = `toDockerfile: ${JSON.stringify(user)} is no owner that a Dockerfile can name`;
      return [recipe().copy('x', '/x', { user }), words] as const;
    }),
  ] as const) {
    expect(() => Template.toDockerfile(refused), words).toThrow(InvalidArgumentError);
    expect(() => Template.toDockerfile(refused), words).toThrow(words);
  }
});

test.each(['<<EOF', '<<.e', 'cat <<\\EOF', '<<-EOF cat', "3<<'E O F' cat", '<<"E" cat', 'cat <<-"E"x > /y'])(
  'a here-document of a Dockerfile is refused: %j',
  (rest) => {
    expect(() => Template().fromDockerfile(`FROM a\nRUN ${rest}\nx`)).toThrow(/line 2: here-documents/);
  },
);

test.each([
  'cat <<<foo',
  'cat <<< foo',
  'echo $((1<<x)) $((1 <<x))',
  'echo "a<<b" "<<b" \'<<EOF\'',
  'echo "a \\" <<b"',
  'echo \\<<EOF',
  'let x=1<<2',
  'echo << a',
])('what only looks like a here-document is a command: %j', async (command) => {
  expect(await runs('FROM a', `RUN ${command}`)).toEqual([command]);
});

test.each(['x.tar', 'd/x.tar.gz', 'x.tgz', 'x.tar.bz2', 'x.tbz2', 'x.tar.xz', 'x.txz', '/x.tar.zst', '*.TAR.GZ'])(
  'ADD of %s, which Docker would unpack, is not copied as it is',
  async (archive) => {
    for (const add of [
      `ADD ${archive} /y`,
      `ADD a.txt "${archive}" /y/`,
      `ADD ["${archive}", "/y"]`,
      `add ${archive} /y`,
    ]) {
      const read = () => Template().fromDockerfile(`FROM a\nRUN x\n${add}`);
      expect(read, add).toThrow(/^Dockerfile: line 3: ADD would unpack /);
      expect(read, add).toThrow(InvalidArgumentError);
    }
    const { steps } = await sent(Template().fromDockerfile(`FROM a\nCOPY ${archive} /y\nADD x.tar.txt tar gz /y/`));
    expect(steps.filter(({ type }) => type === 'COPY')).toHaveLength(4);
  },
);

test("quotes around a Dockerfile's WORKDIR and USER are no part of the path and the name", async () => {
  const lines = [
    'WORKDIR "/a b"',
    "WORKDIR '/c'",
    'WORKDIR /d e',
    'WORKDIR /f"g"\\ h',
    'USER "me"',
    "USER 'me':x",
    'USER me',
  ];
  const { steps } = await sent(Template().fromDockerfile(['FROM a', ...lines].join('\n')));
  const read = steps.slice(2).map(({ args }) => args[0]);
  expect(read).toEqual(['/a b', '/c', '/d e', '/fg h', 'me', 'me:x', 'me']);
  // Of Windows' paths alone does a backslash stay.
  const windows = await sent(Template().fromDockerfile('# escape=`\nFROM a\nWORKDIR "C:\\a b"'));
  expect(windows.steps[2]?.args).toEqual(['C:\\a b']);
  expect(() => Template().fromDockerfile('FROM a\nWORKDIR "/a')).toThrow(/line 2: a quote is not closed/);
});

/** The commands of a Dockerfile's RUN lines. */
async function runs(...lines: string[]): Promise<(string | undefined)[]> {
  const { steps } = await sent(Template().fromDockerfile(lines.join('\n')));
  return steps.filter(({ type }) => type === 'RUN').map(({ args }) => args[0]);
}

test('a comment or an empty line within a RUN does not end it, and is no part of it', async () => {
  expect(
    await runs('FROM a', 'RUN one \\', '', '  # why', '   ', '  && two \\  ', '# why', '\t&& three', 'USER x'),
  ).toEqual(['one   && two \t&& three']);
  expect(await runs('FROM a', 'RUN one \\', '', '# the end', '')).toEqual(['one']);
  // What is doubled is the character itself, and a comment goes on nowhere.
  expect(await runs('FROM a', 'RUN echo \\\\', '# not \\', 'RUN echo "# kept"')).toEqual([
    'echo \\\\',
    'echo "# kept"',
  ]);
});

test('the escape directive at the top of a Dockerfile says how lines go on', async () => {
  const run = ['RUN dir C:\\', 'RUN a `  ', '', ' b', 'ENV A=x`"y B="`"z"'];
  const text = ['# Syntax = x', '#escape=`', 'FROM a', ...run].join('\n');
  const { steps } = await sent(Template().fromDockerfile(text));
  expect(steps.slice(2, 5).map(({ args }) => args)).toEqual([['dir C:\\'], ['a  b'], ['A', 'x"y', 'B', '"z']]);
  for (const before of ['# a comment', '', 'ARG X=1']) {
    expect(await runs(before, '# escape=`', 'FROM a', 'RUN a `', 'RUN b \\', ' c')).toEqual(['a `', 'b  c']);
  }
  expect(() => Template().fromDockerfile('# escape=x\nFROM a')).toThrow(/line 1: escape is ` or \\, not "x"/);
  expect(() => Template().fromDockerfile('# escape=`\n# escape=`\nFROM a')).toThrow(/line 2: a second escape/);
});

test('patterns match paths as they do in .dockerignore', () => {
  for (const [pattern, matching, other] of [
    ['*.txt', ['a.txt'], ['d/a.txt', 'a.txt2']],
    ['**/*.txt', ['a.txt', 'd/e/a.txt'], ['a.md']],
    ['d/**', ['d/a', 'd/e/f'], ['e/a']],
    ['a?c', ['abc'], ['ac', 'a/c']],
    ['[a-c]x', ['bx'], ['dx']],
    ['[!a]x', ['bx'], ['ax', '/x']],
    ['{a,b}.js', ['a.js', 'b.js'], ['c.js']],
    ['a.b+(c)', ['a.b+(c)'], ['axb+(c)']],
    ['*-lock.json', ['package-lock.json'], ['package_lock.json']],
    ['a-b/^$|', ['a-b/^$|'], ['a-b']],
    ['\\*', ['*'], ['a']],
  ] as const) {
    for (const path of matching) expect(globExpression(pattern).test(path), `${pattern} ${path}`).toBe(true);
    for (const path of other) expect(globExpression(pattern).test(path), `${pattern} ${path}`).toBe(false);
  }
  for (const pattern of ['[a', '{a', '[z-a]']) expect(() => globExpression(pattern)).toThrow(InvalidArgumentError);
});

test('what matches is packed with all below it, and what is ignored is left out', async () => {
  const plain = tree({ 'a.txt': '1', 'b.rs': '2', 'd/a.txt': '3', 'd/e/f': '4' });
  expect(await packed(plain, 'a.txt')).toEqual(['a.txt']);
  expect(await packed(plain, './d/', false)).toEqual(['d', 'd/a.txt', 'd/e', 'd/e/f']);
  expect(await packed(plain, '**/*.txt')).toEqual(['a.txt', 'd/a.txt']);
  await expect(find(plain, 'none')).rejects.toThrow(/matches "none"/);
  const ignoring = tree({
    '.dockerignore': '# comment\n\n.dockerignore\n*.log\n/d/\n!d/keep\n',
    'x.log': '',
    y: '',
    'd/a': '',
    'd/keep': '',
    'n/x.log': '',
  });
  // As in Docker, `*.log` is of the root only, and a kept file's directory goes without saying.
  expect(await packed(ignoring, '.')).toEqual(['d/keep', 'n', 'n/x.log', 'y']);
  expect(await packed(ignoring, '.', true, ['**/*.log', 'd'])).toEqual(['n', 'y']);
  const long = `${'long/'.repeat(40)}ä${'x'.repeat(120)}`;
  expect(await packed(tree({ [long]: 'x'.repeat(1000) }), '**')).toContain(long);
});

test('a hash tells names, modes, contents and targets apart, and is the official one', async () => {
  const hash = async (root: string, src: string) => (await find(root, src)).hash;
  const one = tree({ a: '1' });
  const before = await hash(one, 'a');
  expect(before).toMatch(/^[0-9a-f]{64}$/);
  expect(await hash(one, 'a')).toBe(before);
  expect(await hash(tree({ a: '2' }), 'a')).not.toBe(before);
  expect(await hash(tree({ b: '1' }), 'b')).not.toBe(before);
  chmodSync(join(one, 'a'), 0o700);
  expect(await hash(one, 'a')).not.toBe(before);
  symlinkSync('x', join(one, 'l'));
  // What the official SDK says of the same.
  const same = tree({ f: 'x' });
  chmodSync(join(same, 'f'), 0o644);
  symlinkSync('f', join(same, 'l'));
  const to = async (src: string, dest: string) => (await templateFiles.find(same, [], { ...copy(src), dest })).hash;
  expect(await to('f', '/d')).toBe('df080d951e3e01c2c81756643758bc30b8c39eaa5fa1f368832a3b02d741993a');
  expect(await to('l', '/x')).toBe('d6550c45c7033ea58ac383a94615b0ecc66224b41ac620c44c2b551d7f282beb');
  const toX = await hash(one, 'l');
  rmSync(join(one, 'l'));
  symlinkSync('y', join(one, 'l'));
  expect(await hash(one, 'l')).not.toBe(toX);
  await new Promise<void>((resolve) => {
    const socket = createServer().listen(join(one, 's'), () => {
      find(one, 's')
        .then(
          () => expect.unreachable(),
          (error) => expect(String(error)).toMatch(/neither a file/),
        )
        .finally(() => socket.close(() => resolve()));
    });
  });
});

test('a file that changes after it was hashed is not sent under the old hash', async () => {
  const root = tree({ a: 'same', b: 'before', c: 'same' });
  for (const [change, words] of [
    [() => writeFileSync(join(root, 'b'), 'behind'), /copy: .*\/b changed/],
    [() => writeFileSync(join(root, 'b'), 'b'), /copy: .*\/b became shorter/],
    [() => rmSync(join(root, 'b')), /copy: .*\/b/],
  ] as const) {
    writeFileSync(join(root, 'b'), 'before');
    const files = await find(root, '*');
    expect(await files.pack(false, async (archive) => archive.size)).toBeGreaterThan(0);
    change();
    let used = false;
    const packing = files.pack(true, async () => {
      used = true;
    });
    const error: unknown = await packing.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(String(error)).toMatch(words);
    expect(used).toBe(false);
  }
  // What was written behind what was hashed is no part of either.
  writeFileSync(join(root, 'b'), 'before');
  const grown = await find(root, '*');
  writeFileSync(join(root, 'b'), 'before and after');
  expect(await grown.pack(false, (archive) => archive.text())).not.toContain('after');
});

test('bad input is refused before anything is sent', async () => {
  for (const refused of [
    () => Template().fromImage('a b'),
    () => Template().fromImage('a:'),
    () => Template().fromTemplate(''),
    () => Template().copy('/etc/passwd', '/x'),
    () => Template().copy('../x', '/x'),
    () => Template().copy('x', '/x', { mode: 0o17777 }),
    () => Template().runCmd(''),
    () => Template().runCmd([]),
    () => Template().setEnvs({ 'A=B': 'x' }),
    () => Template().aptInstall([]),
    () => Template().setStartCmd('x', ''),
    () => Template.toDockerfile(Template().fromTemplate('x')),
  ]) {
    expect(refused, String(refused)).toThrow(InvalidArgumentError);
  }
  expect(() => Template().fromImage('x').addMcpServer('exa')).toThrow(TemplateError);
  for (const refused of [
    () => Template.build(Template(), 'a b'),
    () => Template.build(Template(), 'a', { tags: ['x:y'] }),
    () => Template.build(Template(), 'a', { cpuCount: 0 }),
    () => Template.assignTags('a:b', []),
    () => Template.getBuildStatus({ templateId: 'a', buildId: 'b' }, { logsOffset: -1 }),
  ]) {
    await expect(refused(), String(refused)).rejects.toBeInstanceOf(InvalidArgumentError);
  }
});

test('the default logger tells the time since the beginning, and leaves out what is less than asked for', () => {
  const lines: string[] = [];
  const { log } = console;
  console.log = (line: string) => void lines.push(line);
  try {
    const logger = defaultBuildLogger({ minLevel: 'warn' });
    const at = (seconds: number) => new Date(1_000_000 + seconds * 1000);
    for (const entry of [
      new LogEntryStart(at(0), 'begins'),
      new LogEntry(at(1), 'info', 'no'),
      new LogEntry(at(2), 'error', 'yes'),
      new LogEntryEnd(at(3), 'ends'),
    ]) {
      logger(entry);
    }
  } finally {
    console.log = log;
  }
  expect(lines).toEqual(['   0.0s DEBUG begins', '   2.0s ERROR yes', '   3.0s DEBUG ends']);
});

describe.skipIf(!available)('templates on the local server', () => {
  const local = useServer();

  test('a recipe is built, found, tagged, and sandboxes are made of it', async () => {
    const { Template: Bound } = new E2B(local.opts);
    const root = tree({ a: 'a', b: 'b', 'd/odd name': 'd' });
    const logs: LogEntry[] = [];
    const hub = 'git init -q -b main /home/user/hub && cd /home/user/hub';
    const recipe = Bound({ fileContextPath: root })
      .fromBaseImage()
      .runCmd(`${hub} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x`)
      .gitClone('/home/user/hub', '/home/user/cloned')
      .skipCache()
      .copy('d', '/home/user/')
      .copyItems([
        { src: 'a', dest: '/home/user/a' },
        { src: 'b', dest: '/home/user/b', gzip: false, forceUpload: true },
      ])
      .rename('/home/user/a', '/home/user/c')
      .remove('/home/user/b')
      .makeDir('/home/user/made')
      .makeSymlink('/home/user/c', '/home/user/link')
      .setEnvs({ GREETING: 'hello' })
      .setUser('user')
      .setWorkdir('/home/user/work')
      .runCmd('echo $GREETING > greeting')
      .setStartCmd('sleep 1000', 'true');
    expect(await Bound.toJSON(recipe)).toMatch(/"filesHash": "[0-9a-f]{64}"/);
    // A poll that fails is asked again.
    await local.server.faults({
      rules: [{ on: ['getBuildStatus'], times: 2, fault: { status: { code: 500, when: 'before' } } }],
    });
    const built = await Bound.build(recipe, 'app:one', { onBuildLogs: (entry) => void logs.push(entry) });
    expect(built).toMatchObject({ name: 'app:one' });
    expect(await local.server.fired()).toEqual([2]);
    expect(logs[0]).toBeInstanceOf(LogEntryStart);
    expect(logs.at(-1)).toBeInstanceOf(LogEntryEnd);
    expect(logs.some((entry) => entry.message.includes('echo $GREETING'))).toBe(true);
    expect(await Bound.exists('app')).toBe(true);
    expect(await Bound.aliasExists('nothing')).toBe(false);
    expect((await Bound.assignTags('app:one', 'two')).tags).toContain('two');
    expect((await Bound.getTags('app')).map((each) => each.tag)).toContain('two');
    await Bound.removeTags('app', ['two']);
    expect((await Bound.getTags('app')).map((each) => each.tag)).not.toContain('two');
    const build = await Bound.buildInBackground(
      Bound().fromTemplate('app:one').runCmd('true').setReadyCmd('true'),
      'more',
    );
    await until(async () => (await Bound.getBuildStatus(build)).status === 'ready');
    await using sandbox = await Sandbox.create('more', local.opts);
    for (const [file, content] of [
      ['link', 'a'],
      ['odd name', 'd'],
      ['work/greeting', 'hello\n'],
    ] as const) {
      expect(await sandbox.files.read(`/home/user/${file}`)).toBe(content);
    }
  });

  test('a build that fails says which step it was', async () => {
    const failed = Template.build(Template().fromBaseImage().runCmd('echo out; exit 7'), 'failing', local.opts);
    await expect(failed).rejects.toBeInstanceOf(BuildError);
    await expect(Template.build(Template().fromAlpineImage(), 'image', local.opts)).rejects.toThrow(/has no image/);
    await expect(
      Template.getBuildStatus({ templateId: 'nothing', buildId: 'nothing' }, local.opts),
    ).rejects.toBeInstanceOf(TemplateError);
  });
});
