import { type E2BClientOpts, E2B as PlainE2B } from '../client.ts';
import { Sandbox } from './sandbox.ts';

/** The client whose sandboxes run code. */
export class E2B extends PlainE2B {
  /** Sandboxes, with this client's options. */
  declare readonly Sandbox: typeof Sandbox;

  protected override sandboxClass(bound: E2BClientOpts): typeof Sandbox {
    return class extends Sandbox {
      protected static override readonly boundOpts = bound;
    };
  }
}
