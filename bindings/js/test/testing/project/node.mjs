import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { capabilities, Sandbox } from 'oncebox';
import { useServer } from 'oncebox/testing';

const server = useServer({ before, after }, { isolation: false });

test('a create whose answer is lost is one sandbox', async () => {
  await server().misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
  await Sandbox.create({ apiUrl: server().url, sandboxUrl: server().url, apiKey: 'local' });
  const { counts, doubled } = await server().effects();
  assert.deepEqual([counts.createSandbox, doubled], [1, {}]);
});

test('the transport is the one that this machine has', () => {
  assert.equal(capabilities().transport, process.env.WANTED_TRANSPORT);
});
