/** Commands over a network that misbehaves; what really happened is counted by the server. */

import { describe, expect, test } from 'vitest';
import type { CommandEvent } from '../../src/sdk/commands/events.ts';
import {
  CommandLostError,
  InvalidArgumentError,
  OutcomeUnknownError,
  OutputLostError,
  SandboxError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, transports, until, useServer } from './server.ts';

/** A command's part that goes on once there is a file `go`: however long it takes until somebody follows it again. */
const UNTIL_GO = 'while [ ! -e go ]; do sleep 0.05; done';

describe.skipIf(!available).each(transports)('cut streams over %s', (transport) => {
  const running = useServer();
  const local = {
    get server() {
      return running.server;
    },
    get opts() {
      return { ...running.opts, transport };
    },
  };

  test('a command whose stream is cut is attached to again, and the hole is told', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const fault = { cut_answer: { after: { events: 2 }, how: 'reset' } };
    await local.server.faults({ rules: [{ on: ['start'], fault }] });
    const gaps: string[] = [];
    const handle = await sandbox.commands.run(`echo first; ${UNTIL_GO}; echo last; exit 3`, {
      background: true,
      onGap: async (reason) => {
        gaps.push(reason);
        await sandbox.files.write('go', '');
      },
    });
    const events: CommandEvent[] = [];
    for await (const event of handle) events.push(event);
    expect(events.map((each) => each.type)).toEqual(['stdout', 'gap', 'stdout', 'exit']);
    expect([handle.exitCode, handle.gaps, gaps.length]).toEqual([3, 1, 1]);
    const lost = await handle.wait().catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(OutputLostError);
    expect(lost).toBeInstanceOf(SandboxError);
    expect(lost).toMatchObject({ exitCode: 3, stdout: 'first\nlast\n' });
    expect((await local.server.counts()).processStart).toBe(1);
  });

  test('without retained output a hole is told, and is no error', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const fault = { cut_answer: { after: { events: 1 }, how: 'close' } };
    await local.server.faults({ rules: [{ on: ['start'], fault }] });
    const onGap = async () => void (await sandbox.files.write('go', ''));
    const result = await sandbox.commands.run(`${UNTIL_GO}; echo last`, { retainOutput: false, onGap });
    expect(result).toMatchObject({ exitCode: 0, stdout: '' });
  });

  test('a start whose answer is lost is found by its tag, and not made again', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await local.server.faults({ rules: [{ on: ['start'], fault: { cut: { when: 'after', how: 'reset' } } }] });
    const onGap = async () => void (await sandbox.files.write('go', ''));
    const line = `${UNTIL_GO}; echo once >> ran; echo here`;
    const handle = await sandbox.commands.run(line, { background: true, onGap });
    expect(handle.pid).toBeGreaterThan(0);
    await expect(handle.wait()).rejects.toBeInstanceOf(OutputLostError);
    expect(handle.stdout).toBe('here\n');
    await local.server.heal();
    expect(await sandbox.files.read('ran')).toBe('once\n');
  });

  test('a start whose answer is lost and that is not in the list any more is unknown', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await local.server.faults({ rules: [{ on: ['start'], fault: { cut: { when: 'before', how: 'reset' } } }] });
    const lost = await sandbox.commands.run('echo once >> ran').catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(OutcomeUnknownError);
    expect(String(lost)).toMatch(/no process of the sandbox has the tag "oncebox-/);
    expect(String(lost)).toMatch(/the sandbox is healthy/);
    await local.server.heal();
    expect(await sandbox.files.exists('ran')).toBe(false);
  });

  test('there is no exit code without an end event', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const cut = { cut_answer: { after: { events: 1 }, how: 'reset' } };
    const gone = { status: { code: 404, when: 'before', body: '{"code":"not_found","message":"no such process"}' } };
    await local.server.faults({
      rules: [
        { on: ['start'], fault: cut },
        { on: ['processConnect'], fault: gone },
      ],
    });
    const handle = await sandbox.commands.run('sleep 0.3; exit 5', { background: true });
    await expect(handle.wait()).rejects.toBeInstanceOf(CommandLostError);
    expect(handle.exitCode).toBeUndefined();
  });

  test('an abort ends the following with its reason, and the command goes on', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const control = new AbortController();
    const reason = new Error('mine');
    const running = sandbox.commands.run('sleep 1000', { signal: control.signal, onStdout: () => {} });
    await until(async () => (await sandbox.commands.list()).length === 1);
    control.abort(reason);
    await expect(running).rejects.toBe(reason);
    const [process] = await sandbox.commands.list();
    expect(await sandbox.commands.kill(process?.pid ?? -1)).toBe(true);
  });

  test('output is a web stream, and a slow reader holds the command up rather than memory', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const size = 8 << 20;
    let taken = 0;
    const handle = await sandbox.commands.run(`head -c ${size} /dev/zero; echo done >&2`, {
      background: true,
      retainOutput: false,
      onStdout: (text) => {
        taken += text.length;
      },
    });
    const output = handle.stream('stdout');
    await until(() => taken > 1 << 20);
    // More would come meanwhile, if nothing held it up.
    for (let times = 0; times < 3; times++) await sandbox.commands.run('true');
    let [read, ahead, largest] = [0, 0, 0];
    for await (const piece of output) {
      ahead = Math.max(ahead, taken - read);
      read += piece.length;
      largest = Math.max(largest, piece.length);
    }
    expect(read).toBe(size);
    expect(ahead).toBeLessThanOrEqual((1 << 20) + largest);
    expect((await handle.wait()).exitCode).toBe(0);
    const much = await sandbox.commands
      .run(`head -c ${size} /dev/zero`, { maxOutputBytes: 1000 })
      .catch((e: unknown) => e);
    expect(String(much)).toMatch(/maxOutputBytes/);
  });

  test('a callback that throws ends the following with what it threw', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const thrown = new Error('from the callback');
    const running = sandbox.commands.run('echo hi; sleep 1000', {
      onStdout: () => {
        throw thrown;
      },
    });
    await expect(running).rejects.toBe(thrown);
  });

  test('a stream that says nothing is given up and attached to again; one that says it is alive is not', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const alive = await sandbox.commands.run('sleep 5; echo woke', { keepaliveMs: 1_000, silenceMs: 4_000 });
    expect(alive.stdout).toBe('woke\n');
    const fault = { stall_answer: { after: { events: 1 }, seconds: 30 } };
    await local.server.faults({ rules: [{ on: ['start'], fault }] });
    const gaps: string[] = [];
    const handle = await sandbox.commands.run(`${UNTIL_GO}; exit 4`, {
      background: true,
      keepaliveMs: 1_000,
      silenceMs: 1_500,
      retainOutput: false,
      onGap: async (reason) => {
        gaps.push(reason);
        await sandbox.files.write('go', '');
      },
    });
    await expect(handle.wait()).rejects.toMatchObject({ exitCode: 4 });
    expect(gaps[0]).toMatch(/nothing came for 1.5 s/);
    for (const wrong of [{ keepaliveMs: 500 }, { keepaliveMs: 2_000, silenceMs: 2_000 }]) {
      await expect(sandbox.commands.run('true', wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
    }
  });
});
