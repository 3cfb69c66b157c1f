import { capabilities, Sandbox } from 'oncebox';
import { useServer } from 'oncebox/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

const server = useServer({ before: beforeAll, after: afterAll }, { isolation: false });

test('a create whose answer is lost is one sandbox', async () => {
  await server().misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
  await Sandbox.create({ apiUrl: server().url, sandboxUrl: server().url, apiKey: 'local' });
  const { counts, doubled } = await server().effects();
  expect([counts.createSandbox, doubled]).toEqual([1, {}]);
});

test('the transport is the one that this machine has', () => {
  expect(capabilities().transport).toBe(process.env.WANTED_TRANSPORT);
});
