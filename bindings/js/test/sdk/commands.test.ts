import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { CommandExitError, NotFoundError, SandboxError, TimeoutError } from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, useServer } from './server.ts';

describe.skipIf(!available)('commands', () => {
  const local = useServer();

  test('a command runs to its end, and its exit code is told', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const result = await sandbox.commands.run('echo hi; echo oops >&2');
    expect(result).toEqual({ exitCode: 0, error: undefined, stdout: 'hi\n', stderr: 'oops\n' });
    const failed = await sandbox.commands.run('echo half; exit 7').catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(CommandExitError);
    expect(failed).toBeInstanceOf(SandboxError);
    expect(failed).toMatchObject({ exitCode: 7, stdout: 'half\n' });
    const { stdout } = await sandbox.commands.run('pwd; echo $A $USER', {
      cwd: '/tmp',
      envs: { A: 'b' },
      user: 'root',
    });
    expect(stdout).toBe('/tmp\nb root\n');
  });

  test('callbacks are called in order and waited for, and characters are never cut', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const seen: string[] = [];
    let inside = 0;
    const result = await sandbox.commands.run(
      "for i in 1 2 3; do printf '\\xc3'; sleep 0.1; printf '\\xa4'; done; printf '\\xc3'",
      {
        onStdout: async (data) => {
          expect(inside++).toBe(0);
          await new Promise((resolve) => setTimeout(resolve, 5));
          inside--;
          seen.push(data);
        },
      },
    );
    expect(seen.join('')).toBe('äää\ufffd');
    expect(seen.slice(0, -1).join('')).toBe('äää');
    expect(result.stdout).toBe('äää\ufffd');
  });

  test('a background command is fed, listed, followed by others, and killed', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 });
    expect((await sandbox.commands.list()).map((each) => each.pid)).toEqual([cat.pid]);
    const other = await sandbox.commands.connect(cat.pid, { timeoutMs: 0 });
    await sandbox.commands.sendStdin(cat.pid, 'one\n');
    // An object that fits may hold more, which is not the request's.
    const more = { message: 'mine', method: 'List', user: 'nobody', requestTimeoutMs: 10_000 };
    await cat.sendStdin(new Uint8Array([0xff, 0x0a]), more);
    expect(await sandbox.commands.list(more)).toHaveLength(1);
    await cat.closeStdin();
    expect((await other.wait()).stdout).toBe('one\n\ufffd\n');
    expect((await cat.wait()).exitCode).toBe(0);
    const sleep = await sandbox.commands.run('sleep 1000', { background: true });
    expect(await sleep.kill()).toBe(true);
    expect(await sandbox.commands.kill(sleep.pid)).toBe(false);
    await expect(sleep.wait()).rejects.toBeInstanceOf(CommandExitError);
    await expect(sandbox.commands.connect(sleep.pid + 1000)).rejects.toBeInstanceOf(NotFoundError);
  });

  test('the sandbox kills a command by its timeout', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const handle = await sandbox.commands.run('echo begun; sleep 1000', { background: true, timeoutMs: 2_000 });
    await expect(handle.wait()).rejects.toBeInstanceOf(TimeoutError);
    expect(handle.stdout).toBe('begun\n');
    expect(handle.exitCode).toBeUndefined();
    expect(await sandbox.commands.list()).toEqual([]);
  });

  test("a caller's signal is let go of when a call is over", async () => {
    const { signal } = new AbortController();
    const sandbox = await Sandbox.create({ ...local.opts, signal });
    await sandbox.commands.run('true', { signal });
    const handle = await sandbox.commands.run('sleep 1000', { background: true, signal });
    await handle.kill();
    await expect(handle.wait()).rejects.toBeInstanceOf(CommandExitError);
    // What fails to begin has no handle that could let go of it.
    for (const failing of [
      () => sandbox.commands.run('true', { signal, cwd: '/nowhere' }),
      () => sandbox.commands.run('true', { signal, cwd: '/nowhere', durable: true }),
      () => sandbox.commands.connect(4_000_000, { signal }),
      () => sandbox.commands.attach('none', { signal }),
    ]) {
      await expect(failing()).rejects.toThrow();
    }
    await sandbox.commands.list({ signal });
    await sandbox.files.write('f', 'x', { signal });
    await sandbox.files.read('f', { signal });
    const watched = await sandbox.files.watchDir('.', () => {}, { signal });
    await watched.stop();
    await sandbox.kill({ signal });
    // The call loop has one for all calls of a signal.
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(1);
  });
});
