/** What is taken out of the URLs of repositories. */

import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { InvalidArgumentError } from '../../src/sdk/errors.ts';
import { Credentials, fed, split } from '../../src/sdk/git/credentials.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';

const HEX = '0123456789abcdef0123456789abcdef01234567';

test.each([
  ['https://me:p%40ss@git.example:8443/a.git', 'https://git.example:8443/a.git', 'me\np@ss\n'],
  ['https://me:50%25-%zz@git.example/a', 'https://git.example/a', 'me\n50%-%zz\n'],
  ['https://me:%C3%A4@git.example/a', 'https://git.example/a', 'me\nä\n'],
  // Tokens in the place of a name: with the user that their server takes them from.
  [
    'https://ghp_0123456789abcdef0123@git.example/a',
    'https://git.example/a',
    'x-access-token\nghp_0123456789abcdef0123\n',
  ],
  ['https://github_pat_11AAAAAAA0_abcdefgh@h/a', 'https://h/a', 'x-access-token\ngithub_pat_11AAAAAAA0_abcdefgh\n'],
  ['https://glpat-%30123456789abcdefABCD@h/a', 'https://h/a', 'oauth2\nglpat-0123456789abcdefABCD\n'],
  ['https://ATCTT3xFfGN0123456789abc=@h/a', 'https://h/a', 'x-token-auth\nATCTT3xFfGN0123456789abc=\n'],
  [`https://${HEX}@h/a`, 'https://h/a', `x-access-token\n${HEX}\n`],
  ['https://x-access-token:ghp_0123456789abcdef0123@h/a', 'https://h/a', 'x-access-token\nghp_0123456789abcdef0123\n'],
])('%s is asked for by its plain URL', (given, plain, lines) => {
  const { plain: own, url, credentials } = split(given);
  expect([own, url?.href, credentials?.lines]).toEqual([plain, plain, lines]);
});

test.each([
  ...['/srv/a.git', 'git@host:a.git', 'ssh://git@host/a', 'https://git.example/a', 'https://me@git.example/a'],
  ...[
    'https://h:8080/@scope/a?b=c',
    'ssh://git@host:2222/a@v1',
    'ssh://me:@host/a',
    'ssh://host:22/a:b@c',
    'git@host:me/a:b@c',
    'me@host:a@b',
  ],
  ...['file:///srv/a:b@c', '/srv/a:b@c', 'ext::ssh -p 22 git@host %S a', 'x::https://me@h/a'],
  ...['https://ghp_me@h/a', 'https://glpat-of-the-team@h/a', 'https://ghp_0123456789%20bcdef0123@h/a'],
  ...[`https://${HEX.slice(1)}@h/a`, `https://${HEX.toUpperCase()}@h/a`],
])('%s stays as it is', (given) => {
  const { plain, credentials } = split(given);
  expect([plain, credentials]).toEqual([given, undefined]);
});

test('a token in the URL of a remote would stay there, and is refused', async () => {
  const { git } = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k' });
  const added = git.remoteAdd('/a', 'origin', 'https://ghp_0123456789abcdef0123@h/a');
  await expect(added).rejects.toThrow(/^url: it holds a password or a token/);
  await expect(added).rejects.not.toThrow('ghp_');
});

test.each(['pa#ss', 'pa/ss', 'pa?ss', '12#3', '12?3', '443?3', '12/3?4'])(
  'a password %s that ends the URL before its host is not handed to git in an argument',
  async (password) => {
    const { git } = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k' });
    for (const scheme of ['https', 'HTTP', ' https']) {
      const cloned = git.clone(`${scheme}://me:${password}@git.example/a.git`);
      await expect(cloned).rejects.toThrow(/^url: it cannot be read as a URL/);
      await expect(cloned).rejects.not.toThrow(password);
    }
  },
);

const OF_HTTP =
  /^url: a password can be used with http and https alone; it would be in the sandbox's list of processes and in its configuration$/;

test.each([
  ...['ssh://me:hunter2@h/a', 'SSH://me:hunter2@h:22/a', ' ssh://me:hunter2@h/a', 'git+ssh://me:hunter2@h/a'],
  ...['ftp://me:hunter2@h/a', 'ftps://me:hunter2@h/a', 'ftps://:hunter2@h/a', 'git://me:hunter2@h/a'],
  ...['ssh://me:hunter2/x@h/a', 'ssh://me:hunter2?x@h/a', 'ssh://me:hunter2#x@h/a', 'ssh://me:2#hunter2@h/a'],
  ...['ssh://me:2?hunter2@h/a', 'ftp://me:2?hunter2@h/a'],
  ...['ssh://me:hunter2@h:port/a', 'file://me:hunter2@h/a', 'ssh://me:hunter2@/a', 'x_y://me:hunter2@h/a'],
  // A helper of git's is told what stands behind its name.
  ...['ext::https://me:hunter2@h/a', 'x::ftp://me:hunter2@h/a'],
])('a password in %s is in no argument and in no configuration', async (url) => {
  const { git } = new Sandbox({ sandboxId: 'i0', envdVersion: '0.6.13', apiKey: 'k', apiUrl: 'http://127.0.0.1:1' });
  for (const refused of [
    git.clone(url),
    git.clone(url, { username: 'me', password: 'other' }),
    git.remoteAdd('/a', 'origin', url),
    git.remoteAdd('/a', 'origin', url, { overwrite: true }),
  ]) {
    await expect(refused).rejects.toThrow(OF_HTTP);
    await expect(refused).rejects.not.toThrow('hunter2');
    await expect(refused).rejects.toBeInstanceOf(InvalidArgumentError);
  }
});

test.each([
  ...['https://me:hunter2@h/a', ' https://me:hunter2@h/a', 'https://me:hunter2@h/a\n', 'https://me:hunter2/@h/a'],
  ...['https://me:2?hunter2@h/a', 'https://me:2#hunter2@h/a', 'ssh://me:hunter2@h/a', '-x://me:hunter2@h/a'],
  'https://ghp_hunter2hunter2hunter2@h/a',
])('a password in the URL %j that is pushed to or pulled from is not handed to git in an argument', async (remote) => {
  const fetch = () => {
    throw new Error('something was sent');
  };
  const opts = { apiKey: 'k', apiUrl: 'http://control.test', sandboxUrl: 'http://sandbox.test', fetch, retries: 0 };
  const { git } = new Sandbox({ ...opts, sandboxId: 'i0', envdVersion: '0.6.13' });
  const login = { username: 'me', password: 'other' };
  for (const refused of [
    git.push('/a', { remote }),
    git.push('/a', { remote, branch: 'main' }),
    git.push('/a', { remote, ...login }),
    git.pull('/a', { remote }),
    git.pull('/a', { remote, branch: 'main', ...login }),
  ]) {
    await expect(refused).rejects.toBeInstanceOf(InvalidArgumentError);
    await expect(refused).rejects.toThrow(
      /^remote: it holds a password or a token, which would be in the sandbox's list of processes; give credentials$/,
    );
  }
});

test('a password that git repeats is nowhere in the error', () => {
  const credentials = new Credentials('me', 'hunter2');
  for (const said of ['remote: bad key hunter2', 'Authentication failed for hunter2', `${'x'.repeat(3000)} hunter2`]) {
    const result = { exitCode: 1, stdout: said, stderr: said, error: said };
    let thrown: unknown;
    try {
      fed('clone', result, credentials);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(Error);
    const { stack, stderr, stdout } = thrown as Error & { stderr?: string; stdout?: string };
    expect(`${inspect(thrown, { depth: 9, maxStringLength: 9999 })}${stack}${stderr}${stdout}`).not.toContain(
      'hunter2',
    );
  }
});
