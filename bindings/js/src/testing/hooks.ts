import { LocalServer, type ServerOptions } from './server.ts';

/** The hooks of a test runner: `beforeAll` and `afterAll` of vitest and jest, `before` and `after` of `node:test`. */
export interface Hooks {
  /** Runs something before the first test. */
  before(run: () => Promise<void>): unknown;
  /** Runs something after the last test. */
  after(run: () => Promise<void>): unknown;
}

/**
 * A local server for all tests of a file: it is started before the first and stopped after the last.
 *
 * ```ts
 * import { afterAll, beforeAll } from 'vitest'; // or jest's globals, or { before, after } of node:test
 * const server = useServer({ before: beforeAll, after: afterAll });
 * test('one create, one sandbox', async () => {
 *   await server().misbehave({ rules: [{ on: ['create'], times: 1, fault: { cut: { when: 'after' } } }] });
 *   // …
 *   expect((await server().effects()).doubled).toEqual({});
 * });
 * ```
 */
export function useServer(hooks: Hooks, options: ServerOptions = {}): () => LocalServer {
  let server: LocalServer | undefined;
  hooks.before(async () => {
    server = await LocalServer.start(options);
  });
  hooks.after(async () => {
    await server?.stop();
  });
  return () => {
    if (!server) throw new Error('the local server has not started: it is there from the first test on');
    return server;
  };
}
