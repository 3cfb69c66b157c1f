import { expect, test } from 'vitest';
import { capabilities } from '../../src/index.ts';

test('the runtime is recognised', () => {
  expect(capabilities()).toMatchObject({ runtime: 'node', localFiles: true });
});
