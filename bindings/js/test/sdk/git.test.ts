import { describe, expect, test } from 'vitest';
import { CommandExitError, GitUpstreamError, InvalidArgumentError } from '../../src/sdk/errors.ts';
import { split } from '../../src/sdk/git/credentials.ts';
import { parseStatus } from '../../src/sdk/git/status.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, useServer } from './server.ts';

test('a status is read whatever its files are called', () => {
  const records = [
    '# branch.oid abc',
    '# branch.head main',
    '# branch.upstream origin/main',
    '# branch.ab +2 -1',
    '1 M. N... 100644 100644 100644 a b staged name',
    '1 .D N... 100644 100644 000000 a b gone\nline',
    '2 R. N... 100644 100644 100644 a b R100 new',
    'old',
    'u UU N... 100644 100644 100644 100644 a b c both',
    '? new file',
    '',
  ];
  const status = parseStatus(records.join('\0'));
  expect(status).toMatchObject({
    currentBranch: 'main',
    upstream: 'origin/main',
    ahead: 2,
    behind: 1,
    detached: false,
  });
  expect(status?.fileStatus.map(({ name, status, staged }) => [name, status, staged])).toEqual([
    ['staged name', 'modified', true],
    ['gone\nline', 'deleted', false],
    ['new', 'renamed', true],
    ['both', 'conflict', false],
    ['new file', 'untracked', false],
  ]);
  expect(status?.fileStatus[2]?.renamedFrom).toBe('old');
  expect(status).toMatchObject({ totalCount: 5, stagedCount: 2, untrackedCount: 1, conflictCount: 1, isClean: false });
  expect(parseStatus('1 .M\0')).toBeUndefined();
  expect(parseStatus('')).toMatchObject({ isClean: true, hasChanges: false });
});

test('credentials are taken out of URLs', () => {
  const { plain, url, credentials } = split('https://me:p%40ss@git.example:8443/a.git');
  expect([plain, url?.origin, credentials?.lines]).toEqual([
    'https://git.example:8443/a.git',
    'https://git.example:8443',
    'me\np@ss\n',
  ]);
  for (const same of ['/srv/a.git', 'git@host:a.git', 'ssh://git@host/a', 'https://git.example/a']) {
    expect(split(same)).toMatchObject({ plain: same });
    expect(split(same).credentials).toBeUndefined();
  }
});

describe.skipIf(!available)('git', () => {
  const local = useServer();

  test('every method once', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { git, files } = sandbox;
    const [one, two, hub] = ['/home/user/one', '/home/user/two', '/home/user/hub'];
    await git.configureUser('A B', 'a@b.example');
    expect(await git.getConfig('user.name')).toBe('A B');
    expect(await git.getConfig('user.nothing')).toBeUndefined();
    await git.setConfig('pull.rebase', 'false');
    await git.init(hub, { bare: true, initialBranch: 'main' });
    await git.init(one, { initialBranch: 'main' });
    await expect(git.push(one)).rejects.toBeInstanceOf(GitUpstreamError);
    await git.remoteAdd(one, 'origin', hub);
    await git.remoteAdd(one, 'origin', hub, { overwrite: true, fetch: true });
    expect(await git.remoteGet(one, 'origin')).toBe(hub);
    expect(await git.remoteGet(one, 'nobody')).toBeUndefined();
    await files.write('one/f', '1\n');
    const status = await git.status(one);
    expect(status.fileStatus.map((each) => [each.name, each.status])).toEqual([['f', 'untracked']]);
    await git.add(one);
    expect(await git.status(one)).toMatchObject({ hasStaged: true, stagedCount: 1 });
    await git.commit(one, 'first', { authorName: 'C', authorEmail: 'c@d.example' });
    expect((await git.status(one)).isClean).toBe(true);
    await git.push(one);
    await git.clone(hub, { path: two, branch: 'main' });
    await files.write('one/f', '2\n');
    await git.add(one, { files: ['f'] });
    await git.commit(one, "it's second");
    await git.push(one, { remote: 'origin', branch: 'main', setUpstream: false });
    await git.pull(two);
    // A URL is as good as a remote's name; nobody is there.
    const nobody = { remote: 'http://127.0.0.1:1/r', branch: 'main', username: 'me', password: 'secret' };
    await expect(git.push(one, nobody)).rejects.toThrow(/unable to access/);
    expect(await files.read('two/f')).toBe('2\n');
    await git.createBranch(two, 'side');
    expect(await git.branches(two)).toEqual({ branches: ['main', 'side'], currentBranch: 'side' });
    await git.checkoutBranch(two, 'main');
    await git.deleteBranch(two, 'side', { force: true });
    expect((await git.branches(two)).branches).toEqual(['main']);
    await files.write('two/f', '3\n');
    await git.restore(two, { paths: ['f'] });
    expect(await files.read('two/f')).toBe('2\n');
    await git.reset(two, { mode: 'hard', target: 'HEAD~1' });
    expect(await files.read('two/f')).toBe('1\n');
    await git.dangerouslyAuthenticate({ username: 'me', password: 'secret', host: 'git.example' });
    expect(await files.read('.git-credentials')).toBe('https://me:secret@git.example\n');
    const failed = await git.clone('/nowhere').catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(CommandExitError);
    expect(String(failed)).toMatch(/could not clone the repository.*does not/);
  });

  test('bad input is refused before anything is run, and passwords are not repeated', async () => {
    const { git } = new Sandbox({ ...local.opts, sandboxId: 'i0', envdVersion: '0.6.13' });
    for (const refused of [
      () => git.clone('--upload-pack=x'),
      () => git.clone('git@host:a', { username: 'me', password: 'hunter2' }),
      () => git.clone('https://h/a', { password: 'hunter2' }),
      () => git.clone('https://h/a', { username: 'me', password: 'hunter2\n' }),
      () => git.clone('https://h/a', { depth: 0 }),
      () => git.clone('https://me:hunter2@h/.git', { dangerouslyStoreCredentials: true }),
      () => git.remoteAdd('/a', 'origin', 'https://me:hunter2@h/a'),
      () => git.remoteAdd('/a', '-x', 'https://h/a'),
      () => git.createBranch('/a', '-D'),
      () => git.commit('/a', ' '),
      () => git.add('/a', { all: false }),
      () => git.reset('/a', { mode: 'hard', paths: ['f'] }),
      () => git.restore('/a', { paths: [] }),
      () => git.getConfig('k', { scope: 'local' }),
      () => git.status(''),
    ]) {
      const error = await refused().then(
        () => 'it was not refused',
        (error: unknown) => error,
      );
      expect(error, String(refused)).toBeInstanceOf(InvalidArgumentError);
      expect(String(error)).not.toMatch(/hunter2/);
    }
  });
});
