import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  E2B,
  type Execution,
  InvalidArgumentError,
  NotFoundError,
  OutcomeUnknownError,
  Result,
  Sandbox,
  type SandboxError,
  TimeoutError,
} from '../../src/code-interpreter.ts';
import { serve, type Turn } from './scripted.ts';
import { available, useServer } from './server.ts';

/** Lines of an answer. */
const COUNTED = '{"type":"number_of_executions","execution_count":1}\n';
const PRINTED = '{"type":"stdout","text":"out","timestamp":1}\n';

/** A Python that has the kernel. */
const PYTHON = process.env.ONCEBOX_PYTHON_WITH_IPYKERNEL ?? '';
const runs = available && existsSync(PYTHON);

if (available && !runs)
  console.log('SKIP code interpreter: ONCEBOX_PYTHON_WITH_IPYKERNEL names no Python that has ipykernel');

test('a result has its forms, and what is new is extra', () => {
  const raw = {
    type: 'result',
    is_main_result: true,
    text: '1',
    html: '<b>',
    png: null,
    'text/new': 'n',
    extra: { x: 1 },
  };
  const result = new Result(raw as never, true);
  expect([result.text, result.html, result.png, result.extra]).toEqual([
    '1',
    '<b>',
    undefined,
    { 'text/new': 'n', x: 1 },
  ]);
  expect(result.formats()).toEqual(['text', 'html', 'text/new', 'x']);
  expect(JSON.parse(JSON.stringify(result))).toEqual({ text: '1', html: '<b>', extra: { 'text/new': 'n', x: 1 } });
});

test("a client's own headers of all requests are sent to the code interpreter, and its own routing wins", async () => {
  using server = await serve({ status: 200, body: COUNTED }, 200);
  const requestHeaders = { 'X-Own': 'mine', 'e2b-sandbox-port': '1' };
  const sandbox = new Sandbox({ ...server.opts, requestHeaders, sandboxId: 'i1', envdVersion: '0.6.13' });
  await sandbox.runCode('1');
  const context = await sandbox.createCodeContext();
  await sandbox.listCodeContexts();
  await sandbox.restartCodeContext({ ...context, id: 'c1' });
  await sandbox.removeCodeContext('c1');
  expect(server.seen.map(({ headers }) => [headers['x-own'], headers['e2b-sandbox-port']])).toEqual(
    Array.from({ length: 5 }, () => ['mine', '49999']),
  );
});

/** What becomes of code that is answered by this. */
async function ran(turn: Turn): Promise<Execution | (SandboxError & { execution?: Execution })> {
  using server = await serve(turn);
  const sandbox = new Sandbox({ ...server.opts, sandboxId: 'i1', envdVersion: '0.6.13' });
  return await sandbox.runCode('1').catch((error: SandboxError) => error);
}

test.each([
  ['without anything', { status: 200, headers: { 'content-length': '0' }, body: '' }, /before anything was told/],
  ['of no pieces', { status: 200, body: '' }, /before anything was told/],
  ['without a body', { status: 204, body: '' }, /before anything was told/],
  ['of empty lines', { status: 200, body: '\n \r\n' }, /before anything was told/],
  ['of JSON without a line', { status: 200, body: '{"error":"upstream gone"}' }, /in the middle of a line/],
  ['whose last line does not end', { status: 200, body: `${PRINTED}${COUNTED.trim()}` }, /in the middle of a line/],
  ['that ends in half a line', { status: 200, body: `${PRINTED}{"type":"res` }, /in the middle of a line/],
  ['with a space after its last line', { status: 200, body: `${PRINTED} ` }, /in the middle of a line/],
])('an answer %s is no run that gave nothing', async (_, turn, how) => {
  const error = await ran(turn);
  expect(error).toBeInstanceOf(OutcomeUnknownError);
  expect(String(error)).toMatch(how);
  expect(String(error)).toMatch(/the connection was lost, and the result is unknown/);
  const { execution } = error as { execution?: Execution };
  expect(execution?.logs.stdout).toEqual(turn.body.startsWith(PRINTED) ? ['out'] : []);
});

test.each([
  ...['{"error":"upstream gone"}', '{"type":1}', '[]', 'null', '"stdout"', 'upstream gone'],
  ...['{"type":"stdout"}', '{"type":"stderr","text":1}', '{"type":"error","name":1}'],
  ...['{"type":"number_of_executions"}', '{"type":"number_of_executions","execution_count":-1}'],
])('a line %s is not passed over as one of a new kind', async (line) => {
  const error = await ran({ status: 200, body: `${PRINTED}${line}\n${COUNTED}` });
  expect(error).toBeInstanceOf(OutcomeUnknownError);
  expect(String(error)).toMatch(/the server's answer makes no sense/);
  expect((error as { execution?: Execution }).execution?.logs.stdout).toEqual(['out']);
});

test('kinds of lines that are new are passed over', async () => {
  const body = `{"type":"keepalive"}\n\n${PRINTED}{"type":"end_of_execution","x":[1]}\r\n${COUNTED}`;
  expect(await ran({ status: 200, body })).toMatchObject({ logs: { stdout: ['out'] }, executionCount: 1 });
  expect(await ran({ status: 200, body: '{"type":"keepalive"}\n' })).toMatchObject({ results: [] });
});

describe.skipIf(!runs)('the code interpreter', () => {
  const local = useServer(['--code-interpreter', PYTHON]);

  test('code runs in contexts, which remember', async () => {
    await using sandbox = await new E2B(local.opts).Sandbox.create();
    const seen: string[] = [];
    await sandbox.runCode('x = 20');
    const execution = await sandbox.runCode("import sys\nprint('öut')\nprint('err', file=sys.stderr)\nx + 1", {
      onStdout: (output) => void seen.push(`out ${output.line}`),
      onStderr: (output) => void seen.push(`err ${output}`),
      onResult: (result) => void seen.push(`result ${result.text}`),
    });
    expect([execution.text, execution.logs.stdout.join(''), execution.logs.stderr.join('')]).toEqual([
      '21',
      'öut\n',
      'err\n',
    ]);
    expect(seen.toSorted()).toEqual(['err err\n', 'out öut\n', 'result 21']);
    expect(execution.executionCount).toBeGreaterThan(0);
    const raised = await sandbox.runCode('1 / 0', { onError: (error) => void seen.push(error.name) });
    expect(raised.error).toMatchObject({ name: 'ZeroDivisionError', value: 'division by zero' });
    expect(seen).toContain('ZeroDivisionError');
    const context = await sandbox.createCodeContext({ cwd: '/tmp' });
    expect((await sandbox.runCode('import os\nos.getcwd()', { context })).text).toBe("'/tmp'");
    expect((await sandbox.runCode('import os\nos.environ["A"]', { context, envs: { A: 'b' } })).text).toBe("'b'");
    expect((await sandbox.listCodeContexts()).map((each) => each.id)).toContain(context.id);
    await sandbox.runCode('y = 1', { context });
    await sandbox.restartCodeContext(context);
    expect((await sandbox.runCode('y', { context })).error?.name).toBe('NameError');
    await sandbox.removeCodeContext(context.id);
    await expect(sandbox.runCode('1', { context })).rejects.toBeInstanceOf(NotFoundError);
    await expect(sandbox.runCode('1', { context, language: 'r' } as never)).rejects.toBeInstanceOf(
      InvalidArgumentError,
    );
  });

  test('code that runs for too long ends, and the context goes on', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    // Its kernel runs before: starting one takes longer than this may.
    await sandbox.runCode('1');
    await expect(sandbox.runCode('import time\ntime.sleep(60)', { timeoutMs: 500 })).rejects.toBeInstanceOf(
      TimeoutError,
    );
    expect((await sandbox.runCode('2')).text).toBe('2');
  });

  test('an answer that is cut is unknown, and is not asked for again', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    await sandbox.runCode('1');
    await local.server.faults({
      rules: [{ on: ['executeCode'], fault: { cut_answer: { after: { events: 1 }, how: 'reset' } } }],
    });
    const lines = [
      "open('/home/user/ran', 'a').write('x')",
      "print('first', flush=True)",
      'import time',
      'time.sleep(0.5)',
    ];
    const code = lines.join('\n');
    const lost = await sandbox.runCode(code).catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(OutcomeUnknownError);
    expect((lost as { execution?: Execution }).execution).toBeDefined();
    expect((await local.server.counts()).executeCode).toBe(1);
    await local.server.heal();
    expect(await sandbox.files.read('ran')).toBe('x');
  });
});
