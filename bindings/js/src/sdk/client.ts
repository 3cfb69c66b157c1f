/** One client for many calls: options that are given once. */

import type { ConnectionOpts } from './config.ts';
import { ConnectionConfig } from './config.ts';
import { Sandbox } from './sandbox/sandbox.ts';
import { Secret } from './secret.ts';
import { type CallableTemplate, callable, TemplateBase } from './template/template.ts';
import { Volume } from './volume/volume.ts';

/** Options of a client. */
export type E2BClientOpts = Omit<ConnectionOpts, 'signal'>;

/**
 * The SDK's classes with options bound to them; those of a call win.
 *
 * ```ts
 * const { Sandbox } = new E2B({ apiKey: 'e2b_…', domain: 'sandboxes.example' });
 * const sandbox = await Sandbox.create();
 * ```
 */
export class E2B {
  readonly Sandbox: typeof Sandbox;
  readonly Volume: typeof Volume;
  readonly Template: CallableTemplate;
  readonly Secret: typeof Secret;

  /** @throws InvalidArgumentError where an option is wrong. */
  constructor(opts: E2BClientOpts = {}) {
    // Checked here rather than at the first call.
    new ConnectionConfig(opts);
    const bound = { ...opts };
    this.Sandbox = class extends Sandbox {
      protected static override readonly boundOpts = bound;
    };
    this.Volume = class extends Volume {
      protected static override readonly boundOpts = bound;
    };
    this.Template = callable(
      class extends TemplateBase {
        protected static override readonly boundOpts = bound;
      },
    );
    this.Secret = class extends Secret {
      protected static override readonly boundOpts = bound;
    };
  }
}
