/** Volumes, secrets, terminals, and the client that binds options. */

import { describe, expect, test } from 'vitest';
import { E2B } from '../../src/sdk/client.ts';
import {
  CommandExitError,
  InvalidArgumentError,
  SecretNotFoundError,
  VolumeNotFoundError,
  VolumePathNotFoundError,
} from '../../src/sdk/errors.ts';
import { Sandbox } from '../../src/sdk/sandbox/sandbox.ts';
import { Secret } from '../../src/sdk/secret.ts';
import { Volume } from '../../src/sdk/volume/volume.ts';
import { available, same, useServer } from './server.ts';

describe.skipIf(!available)('what an account has', () => {
  const local = useServer();

  test('volumes', async () => {
    process.env.E2B_VOLUME_API_URL = local.server.url;
    const control = new AbortController();
    const made = await Volume.create('vol-test', { ...local.opts, signal: control.signal });
    // It was for the call, and not for what is done with the volume later.
    control.abort();
    expect(await made.exists('/d')).toBe(false);
    await expect(Volume.create('vol-test', local.opts)).rejects.toThrow(/already|exists/);
    const volume = await Volume.connect(made.volumeId, local.opts);
    expect(await Volume.getInfo(made.volumeId, local.opts)).toMatchObject({
      name: 'vol-test',
      volumeId: made.volumeId,
    });
    expect((await Volume.list(local.opts)).map((each) => each.volumeId)).toEqual([made.volumeId]);
    expect((await volume.makeDir('/d')).path).toBe('/d');
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
    expect((await volume.writeFile('/d/odd %"name', bytes, { mode: 0o600 })).mode & 0o777).toBe(0o600);
    expect(same(await volume.readFile('/d/odd %"name', { format: 'bytes' }), bytes)).toBe(true);
    await volume.writeFile('/d/f', new Blob(['text']).stream());
    expect(await volume.readFile('/d/f')).toBe('text');
    expect((await volume.list('/d')).map((each) => each.name).sort()).toEqual(['f', 'odd %"name']);
    expect((await volume.updateMetadata('/d/f', { mode: 0o640 })).mode & 0o777).toBe(0o640);
    expect((await volume.getInfo('/d/f')).mtime).toBeInstanceOf(Date);
    {
      await using sandbox = await Sandbox.create({ ...local.opts, volumeMounts: { '/mnt/data': volume } });
      expect(await sandbox.files.read('/mnt/data/d/f')).toBe('text');
    }
    const large = new Uint8Array(2_000_000).map((_, at) => at % 253);
    await volume.writeFile('/large', large);
    const fault = { cut_answer: { after: { bytes: 700_000 }, how: 'reset' } };
    await local.server.faults({ rules: [{ on: ['readVolumeFile'], times: 2, fault }] });
    expect(same(await volume.readFile('/large', { format: 'bytes' }), large)).toBe(true);
    expect(await local.server.fired()).toEqual([2]);
    await local.server.faults({ rules: [{ on: ['writeVolumeFile'], fault: { half_write: {} } }] });
    await expect(volume.writeFile('/half', 'x'.repeat(100))).rejects.toThrow(
      /100 bytes were sent and accepted, and 50/,
    );
    await volume.remove('/d');
    expect(await volume.exists('/d/f')).toBe(false);
    await expect(volume.readFile('/d/f')).rejects.toBeInstanceOf(VolumePathNotFoundError);
    expect(await Volume.destroy(made.volumeId, local.opts)).toBe(true);
    expect(await Volume.destroy(made.volumeId, local.opts)).toBe(false);
    await expect(Volume.connect(made.volumeId, local.opts)).rejects.toBeInstanceOf(VolumeNotFoundError);
  });

  test('secrets', async () => {
    const { opts } = local;
    const made = await Secret.create('MY_KEY', 'hunter2', { ...opts, metadata: { a: 'b' } });
    expect(made).toMatchObject({ name: 'my_key', version: 1, metadata: { a: 'b' } });
    expect((await Secret.update('my_key', 'other', opts)).version).toBe(2);
    expect((await Secret.getInfo(made.secretId, opts)).createdAt).toBeInstanceOf(Date);
    const listed: string[] = [];
    for await (const each of Secret.list({ ...opts, limit: 1 })) listed.push(each.name);
    expect(listed).toEqual(['my_key']);
    expect(await Secret.exists('my_key', opts)).toBe(true);
    expect(await Secret.destroy('my_key', opts)).toBe(true);
    expect(await Secret.destroy('my_key', opts)).toBe(false);
    expect(await Secret.exists('my_key', opts)).toBe(false);
    await expect(Secret.getInfo('my_key', opts)).rejects.toBeInstanceOf(SecretNotFoundError);
    expect(Secret.fill('my_key')).toBe(`\${e2b.secrets.my_key}`);
    expect(Secret.iamToken({ audience: 'x', tokenType: 'JWT-SVID' })).toEqual({ audience: 'x', tokenType: 'JWT-SVID' });
    await expect(Secret.create('no such name', 'hunter2', opts)).rejects.toBeInstanceOf(InvalidArgumentError);
  });

  test('terminals', async () => {
    await using sandbox = await Sandbox.create(local.opts);
    let shown = '';
    const onData = (data: Uint8Array) => {
      shown += new TextDecoder().decode(data);
    };
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 });
    const again = await sandbox.pty.connect(terminal.pid, { onData, timeoutMs: 0 });
    await sandbox.pty.resize(terminal.pid, { cols: 44, rows: 11 });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; echo $TERM; exit\n'));
    expect((await again.wait()).exitCode).toBe(0);
    expect(shown).toMatch(/11 44\s+xterm-256color/);
    const other = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 });
    await other.sendStdin('exit 3\n');
    await expect(other.wait()).rejects.toMatchObject({ exitCode: 3 });
    const killed = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} });
    expect(await sandbox.pty.kill(killed.pid)).toBe(true);
    expect(await sandbox.pty.kill(killed.pid)).toBe(false);
    await expect(killed.wait()).rejects.toBeInstanceOf(CommandExitError);
    await expect(async () => sandbox.pty.create({ cols: 0, rows: 1, onData })).rejects.toBeInstanceOf(
      InvalidArgumentError,
    );
  });

  test('a client binds options, those of a call win, and bad ones are refused at once', async () => {
    const client = new E2B(local.opts);
    await using sandbox = await client.Sandbox.create({ metadata: { bound: 'yes' } });
    expect(sandbox).toBeInstanceOf(Sandbox);
    const found = await client.Sandbox.list({ query: { metadata: { bound: 'yes' } } }).nextItems();
    expect(found.map((each) => each.sandboxId)).toEqual([sandbox.sandboxId]);
    // What a page is given is over what its list was given, and not in its place.
    const { signal } = new AbortController();
    expect(await client.Sandbox.list().nextItems({ signal })).toHaveLength(1);
    expect(await client.Secret.list().nextItems({ signal })).toEqual([]);
    expect(await client.Volume.list()).toEqual([]);
    expect(await client.Secret.exists('nothing')).toBe(false);
    const elsewhere = client.Sandbox.getInfo(sandbox.sandboxId, { apiUrl: 'http://127.0.0.1:1', connectionRetries: 0 });
    await expect(elsewhere).rejects.toThrow();
    expect((await client.Sandbox.connect(sandbox.sandboxId)).sandboxId).toBe(sandbox.sandboxId);
    expect(() => new E2B({ apiUrl: 'nonsense' })).toThrow(InvalidArgumentError);
  });
});
