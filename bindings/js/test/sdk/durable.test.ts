/** Durable commands over a network that misbehaves: every byte once, in order, and the true exit code. */

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { WRAPPER_LINES } from '../../src/generated/durable-wrapper.ts';
import { attachDurable } from '../../src/sdk/commands/durable/durable.ts';
import { Frames, Malformed, type Said } from '../../src/sdk/commands/durable/frames.ts';
import type { CommandHandle } from '../../src/sdk/commands/handle.ts';
import type { Envd, Rpc } from '../../src/sdk/envd/envd.ts';
import {
  CommandExitError,
  CommandLostError,
  ConnectionLostError,
  InvalidArgumentError,
  NotFoundError,
  OutputLostError,
  SandboxError,
  SandboxNotRunningError,
  SpoolFullError,
  TimeoutError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { available, same, transports, until, useServer } from './server.ts';

describe('what the wrapper writes', () => {
  const said = (pieces: Uint8Array<ArrayBuffer>[]): Said[] => {
    const frames = new Frames();
    const all: Said[] = [];
    for (const each of pieces.flatMap((piece) => [...frames.push(piece)])) {
      const last = all.at(-1);
      if (each.type === 'piece' && last?.type === 'piece' && last.output === each.output) {
        const joined = new Uint8Array([...last.data, ...each.data]);
        all[all.length - 1] = { ...last, data: joined };
      } else all.push(each);
    }
    return all;
  };
  const bytes = (text: string) => new TextEncoder().encode(text);

  test('outputs and lines are told apart wherever they are cut', () => {
    // The second line of the error output's piece is "l", and no word of the wrapper's.
    const text = bytes('h 1 7\no 4\na\nm\ne 2\nl\no 0\ns 137 4 2 1 timeout 99\n');
    const expected: Said[] = [
      { type: 'hello', input: 7 },
      { type: 'piece', output: 'stdout', data: bytes('a\nm\n') },
      { type: 'piece', output: 'stderr', data: bytes('l\n') },
      { type: 'ended', code: 137, leftBehind: true, reason: 'timeout', bound: 99 },
    ];
    for (let first = 0; first <= text.length; first++) {
      for (let second = first; second <= text.length; second++) {
        const pieces = [text.slice(0, first), text.slice(first, second), text.slice(second)];
        expect(said(pieces)).toEqual(expected);
      }
    }
  });

  test.each([
    'hello\n',
    'o x\n',
    'h 2 0\n',
    's 300 0 0 0 - 1\n',
    's 0 0 0 0 why 1\n',
    '\n',
    'o 1 \n',
    'g x 1\n',
    'ä\n',
  ])('%j is what no wrapper says', (text) => {
    expect(() => said([bytes(text)])).toThrow(Malformed);
    expect(() => said([new Uint8Array(1000).fill(97)])).toThrow(Malformed);
  });

  test('the wrapper is that of the other languages', () => {
    const script = new URL('../../../../crates/sandbox/src/commands/durable/wrapper.sh', import.meta.url);
    expect(`${WRAPPER_LINES.join('\n')}\n`).toBe(readFileSync(script, 'utf8'));
  });
});

describe('input whose call is given up', () => {
  /** The input of a durable command whose wrapper answers by a script; without a word its call stands still, and is given up. */
  async function scripted(said: (mode: string, feeds: number) => string | undefined) {
    const fed: string[][] = [];
    const control = new AbortController();
    const stream = async (rpc: Rpc) => {
      const { args } = (rpc.message as { process: { args: string[] } }).process;
      const [mode = '', , offset = '', length = ''] = args.slice(args.indexOf('sh') + 1);
      if (mode === 'feed') fed.push([offset, length]);
      const line = mode === 'tail' ? 'h 1 0' : said(mode, fed.length);
      const events: object[] = [{ start: { pid: 1 } }];
      if (line === undefined) control.abort(new Error('mine'));
      else {
        const stdout = Buffer.from(`${line}\n`).toString('base64');
        events.push({ data: { stdout } }, { end: { status: 'exit status 0' } });
      }
      return {
        next: async () => {
          const event = events.shift();
          if (event === undefined) throw rpc.signal?.reason;
          return { event };
        },
        close: () => {},
      };
    };
    const plain = { stream, unary: async () => ({}), atLeast: () => true, config: {} };
    const envd: Envd = Object.assign(plain, { noting: () => envd }) as unknown as Envd;
    const reach = {
      envd,
      id: 'job',
      shell: ['sh'],
      watchdog: {},
      user: undefined,
      reattachments: 0,
      requestTimeoutMs: 0,
    };
    const source = await attachDurable(reach, { stdout: 0, stderr: 0 }, new AbortController().signal);
    await expect(source.sendStdin('four', { signal: control.signal })).rejects.toThrow('mine');
    return { source, fed };
  }

  test('is there where the wrapper had it, and what follows comes after it', async () => {
    const { source, fed } = await scripted((mode, feeds) => (mode === 'fed' ? undefined : feeds === 1 ? 'w' : 'f'));
    await source.sendStdin('more!');
    await source.closeStdin();
    expect(fed).toEqual([
      ['0', '4'],
      ['4', '5'],
      ['9', '0'],
    ]);
  });

  test('may be there where the wrapper had not answered, and the refusal of what follows says so', async () => {
    const { source, fed } = await scripted((_, feeds) => (feeds === 1 ? undefined : 'x conflict'));
    await expect(source.sendStdin('more!')).rejects.toThrow(/a call of this one that was given up, has added/);
    expect(fed).toEqual([
      ['0', '4'],
      ['0', '5'],
    ]);
  });
});

/** How a command is said to end, with bytes of its outputs. */
async function outputs(
  handle: CommandHandle,
): Promise<{ stdout: Buffer; stderr: Buffer; exitCode: number | undefined }> {
  const [stdout, stderr]: [Uint8Array[], Uint8Array[]] = [[], []];
  for await (const event of handle) {
    if (event.type === 'stdout') stdout.push(event.data);
    if (event.type === 'stderr') stderr.push(event.data);
    expect(event.type).not.toBe('gap');
  }
  return { stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr), exitCode: handle.exitCode };
}

describe.skipIf(!available).each(transports)('durable commands over %s', (transport) => {
  const running = useServer();
  const local = {
    get server() {
      return running.server;
    },
    get opts() {
      return { ...running.opts, transport };
    },
  };

  test('a durable command ends as any other', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const { commands } = sandbox;
    const result = await commands.run('echo hi; echo oops >&2', { durable: true });
    expect(result).toEqual({ exitCode: 0, error: undefined, stdout: 'hi\n', stderr: 'oops\n' });
    const failed = await commands.run('echo half; exit 7', { durable: true }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(CommandExitError);
    expect(failed).toMatchObject({ exitCode: 7, stdout: 'half\n' });
    const options = { durable: true, cwd: '/tmp', envs: { A: 'it\'s "b"\n$c' }, user: 'root' };
    expect((await commands.run('pwd; echo "$A" $USER', options)).stdout).toBe('/tmp\nit\'s "b"\n$c root\n');
    const late = commands.run('echo begun; sleep 1000', { durable: true, timeoutMs: 300 });
    await expect(late).rejects.toBeInstanceOf(TimeoutError);
    const left = await commands.run('echo a; sleep 1000 & exit 3', { durable: true, background: true });
    const events = [];
    for await (const event of left) events.push(event.type === 'exit' ? event : event.type);
    expect(events).toEqual(['stdout', { type: 'exit', exitCode: 3, leftBehind: true }]);
  });

  test('streams that are cut many times lose nothing, repeat nothing, and the exit code is the true one', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const script =
      'echo ran >> ran; i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo "out $i"; [ $((i % 5)) = 0 ] && echo "err $i" >&2; ' +
      '[ $((i % 50)) = 0 ] && sleep 0.1; done; head -c 300000 /dev/urandom | tee random; exit 9';
    // Every session is cut: after its first events, within a piece, or with its connection.
    const cut = (after: object, probability: number) => ({
      on: ['start'],
      probability,
      fault: { cut_answer: { after, how: 'reset' } },
    });
    await local.server.faults({
      seed: 7,
      rules: [
        { on: ['start'], times: 1, fault: { cut: { when: 'after', how: 'reset' } } },
        { on: ['start'], skip: 1, times: 1, fault: { cut: { when: 'before', how: 'reset' } } },
        cut({ bytes: 150 }, 0.1),
        cut({ bytes: 30_000 }, 0.4),
        cut({ events: 3 }, 0.3),
        cut({ events: 6 }, 0.6),
      ],
    });
    const handle = await sandbox.commands.run(script, { durable: true, background: true, reattachments: 20 });
    const { stdout, stderr, exitCode } = await outputs(handle);
    const cuts = (await local.server.fired()).reduce((sum, fired) => sum + fired, 0);
    await local.server.heal();
    const random = Buffer.from(await sandbox.files.read('random', { format: 'bytes' }));
    const lines = Array.from({ length: 400 }, (_, at) => `out ${at + 1}\n`).join('');
    expect(same(stdout, Buffer.concat([Buffer.from(lines), random]))).toBe(true);
    expect(stderr.toString()).toBe(Array.from({ length: 80 }, (_, at) => `err ${(at + 1) * 5}\n`).join(''));
    expect(exitCode).toBe(9);
    expect(cuts).toBeGreaterThanOrEqual(4);
    expect(handle.offsets).toEqual({ stdout: stdout.length, stderr: stderr.length });
    expect(await sandbox.files.read('ran')).toBe('ran\n');
  });

  test('any client goes on from what was taken, also after the end, and one id is one command', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const id = 'job-1';
    const script = 'echo once >> ran; echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4';
    const first = await sandbox.commands.run(script, { durable: true, background: true, id });
    expect(first.id).toBe(id);
    let told: number | undefined;
    for await (const event of first) {
      if (event.type === 'stdout') told = event.offset;
      if (event.type === 'stdout') break;
    }
    expect(told).toBe(4);
    const offsets = { stdout: told ?? 0, stderr: 0 };
    await first.disconnect();
    const other = await Sandbox.connect(sandbox.sandboxId, local.opts);
    const rest = await other.commands.attach(id, { offsets });
    await sandbox.files.write('go', '');
    await expect(rest.wait()).rejects.toMatchObject({ exitCode: 4, stdout: 'two\n' });
    const again = await other.commands.run('echo never', { durable: true, background: true, id });
    await expect(again.wait()).rejects.toMatchObject({ exitCode: 4, stdout: 'one\ntwo\n' });
    expect(await sandbox.files.read('ran')).toBe('once\n');
    expect(await other.commands.forget(id)).toBe(true);
    await expect(other.commands.attach(id)).rejects.toBeInstanceOf(NotFoundError);
    expect(await other.commands.forget('no-such')).toBe(false);
    await expect(other.commands.attach('no-such')).rejects.toBeInstanceOf(NotFoundError);
  });

  test('input is added once, although its answers are lost, and ends', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const cat = await sandbox.commands.run('cat', { durable: true, background: true, stdin: true, timeoutMs: 0 });
    await local.server.faults({
      rules: [
        { on: ['processSendInput'], times: 2, fault: { cut: { when: 'after', how: 'reset' } } },
        { on: ['processCloseStdin'], times: 1, fault: { cut: { when: 'after', how: 'reset' } } },
      ],
    });
    const big = 'x'.repeat((1 << 20) + 5);
    await Promise.all([cat.sendStdin('one\n'), cat.sendStdin(new Uint8Array([0xff, 0x0a])), cat.sendStdin(big)]);
    await cat.closeStdin();
    const { stdout, exitCode } = await outputs(cat);
    expect(same(stdout, Buffer.concat([Buffer.from('one\n'), Buffer.from([0xff, 0x0a]), Buffer.from(big)]))).toBe(true);
    expect(exitCode).toBe(0);
    expect(await local.server.fired()).toEqual([2, 1]);
    await expect(cat.sendStdin('late')).rejects.toBeInstanceOf(NotFoundError);
    const none = await sandbox.commands.run('sleep 1000', { durable: true, background: true });
    await expect(none.sendStdin('x')).rejects.toBeInstanceOf(InvalidArgumentError);
    await expect(sandbox.commands.forget(none.id ?? '')).rejects.toThrow(/kill it first/);
    expect(await none.kill()).toBe(true);
    await expect(none.wait()).rejects.toMatchObject({ exitCode: 137 });
    expect(await none.kill()).toBe(false);
  });

  test('a spool that is full holds the command up, or kills it, as it was told', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const spoolLimit = 1 << 20;
    const killed = await sandbox.commands.run('head -c 8000000 /dev/zero; sleep 1000', {
      durable: true,
      background: true,
      spoolLimit,
      whenFull: 'kill',
      retainOutput: false,
    });
    // Nobody reads: one feed that stands still.
    const feed = killed.stream('stdout').getReader();
    await feed.read();
    await until(async () => (await sandbox.commands.run('pgrep -c head || true')).stdout.trim() === '0');
    while (!(await feed.read().catch(() => ({ done: true }))).done);
    await expect(killed.wait()).rejects.toBeInstanceOf(SpoolFullError);
    const held = await sandbox.commands.run('head -c 8000000 /dev/zero; exit 2', {
      durable: true,
      background: true,
      spoolLimit,
      retainOutput: false,
    });
    const { stdout, exitCode } = await outputs(held);
    expect([stdout.length, exitCode]).toEqual([8_000_000, 2]);
  });

  test('what made room is told as a gap', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const id = 'much';
    const opts = { durable: true, background: true, id, spoolLimit: 1 << 20 } as const;
    const first = await sandbox.commands.run('head -c 4000000 /dev/zero; echo end', opts);
    expect((await first.wait()).stdout.length).toBe(4_000_004);
    const gaps: string[] = [];
    const late = await sandbox.commands.attach(id, { onGap: (reason) => void gaps.push(reason) });
    const lost = await late.wait().catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(OutputLostError);
    expect(lost).toMatchObject({ exitCode: 0 });
    expect(gaps).toHaveLength(1);
    expect(gaps[0]).toMatch(/standard output of durable command much from byte 0 to \d+ made room/);
    expect((lost as OutputLostError).stdout).toMatch(/end\n$/);
    expect(late.offsets?.stdout).toBe(4_000_004);
  });

  test('a command that has vanished is lost, and never an exit code', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const handle = await sandbox.commands.run('echo $$; sleep 1000', { durable: true, background: true, id: 'gone' });
    for await (const event of handle) if (event.type === 'stdout') break;
    // Whoever waits for it first, so that nobody tells how it ended.
    await sandbox.commands.run('cd /tmp/.oncebox-*/gone; for f in runner child; do read p s b <$f; kill -9 $p; done');
    await expect(handle.wait()).rejects.toBeInstanceOf(CommandLostError);
    expect([handle.exitCode, handle.stdout.length > 0]).toEqual([undefined, true]);
  });

  test('following ends when nothing comes of it, says so, and goes on when asked again', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const opts = { durable: true, background: true, id: 'slow', reattachments: 1 } as const;
    const handle = await sandbox.commands.run(
      'echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5',
      opts,
    );
    for await (const event of handle) if (event.type === 'stdout') break;
    await local.server.faults({ rules: [{ on: ['start'], fault: { cut: { when: 'before', how: 'reset' } } }] });
    // The reader is cut off by pausing; then every session is.
    await sandbox.pause();
    const lost = await handle.wait().catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(SandboxError);
    expect(lost instanceof SandboxNotRunningError || lost instanceof ConnectionLostError).toBe(true);
    expect(String(lost)).toMatch(/known up to 4 and 0 bytes, and attaching to "slow" goes on from there/);
    await local.server.heal();
    const again = await Sandbox.connect(sandbox.sandboxId, local.opts);
    await again.files.write('go', '');
    const rest = await again.commands.attach('slow', { offsets: handle.offsets });
    await expect(rest.wait()).rejects.toMatchObject({ exitCode: 5, stdout: 'two\n' });
  });

  test('watching ends by its own time, an abort by its reason, and the command goes on', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    const control = new AbortController();
    const reason = new Error('mine');
    const { signal } = control;
    const handle = await sandbox.commands.run('sleep 1000', { durable: true, background: true, id: 'long', signal });
    control.abort(reason);
    await expect(handle.wait()).rejects.toBe(reason);
    const watched = await sandbox.commands.attach('long', { timeoutMs: 300 });
    await expect(watched.wait()).rejects.toThrow(/watched for longer than 300 ms/);
    expect(await watched.kill()).toBe(true);
  });

  test('what is wrong is refused before anything is sent', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await local.server.faults({ rules: [] });
    for (const wrong of [
      { id: 'A' },
      { id: '' },
      { id: 'a/b' },
      { id: 'a'.repeat(65) },
      { spoolLimit: 1000 },
      { whenFull: 'wait' as 'kill' },
      { shell: [] },
      { shell: ['sh', '; rm'] },
      { timeoutMs: -1 },
      { envs: { 'a=b': 'c' } },
      { silenceMs: 1 },
    ]) {
      const running = sandbox.commands.run('true', { durable: true, ...wrong });
      await expect(running, JSON.stringify(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
    }
    await expect(sandbox.commands.run('true', { id: 'a' })).rejects.toThrow(/durable: true/);
    await expect(sandbox.commands.attach('a', { offsets: { stdout: -1, stderr: 0 } })).rejects.toThrow(
      /offsets.stdout/,
    );
    expect((await local.server.counts()).processStart ?? 0).toBe(0);
  });
});
