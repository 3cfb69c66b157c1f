/** One client for many calls: options that are given once. */

import { Background } from '../create/background.ts';
import type { ConnectionOpts } from './config.ts';
import { ConnectionConfig } from './config.ts';
import { owned } from './owner.ts';
import { hide } from './runtime.ts';
import { createsOf, type Leftover } from './sandbox/once.ts';
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
  /** Sandboxes, with this client's options. */
  readonly Sandbox: typeof Sandbox;
  /** Volumes, with this client's options. */
  readonly Volume: typeof Volume;
  /** Templates, with this client's options. */
  readonly Template: CallableTemplate;
  /** Secrets, with this client's options. */
  readonly Secret: typeof Secret;

  private readonly config: ConnectionConfig;
  /** What its creates do, whatever options they have of their own. */
  private readonly background = new Background();

  /** @throws InvalidArgumentError where an option is wrong. */
  constructor(opts: E2BClientOpts = {}) {
    // Checked here rather than at the first call.
    this.config = new ConnectionConfig(opts);
    hide(this, 'config', 'background');
    const bound = owned(opts, this.background);
    this.Sandbox = this.sandboxClass(bound);
    this.Volume = class extends Volume {
      protected static override readonly boundOpts = bound;
    };
    const template = class extends TemplateBase {
      protected static override readonly boundOpts = bound;
    };
    this.Template = callable(template);
    this.Secret = class extends Secret {
      protected static override readonly boundOpts = bound;
    };
    for (const bindsOpts of [this.Sandbox, this.Volume, template, this.Secret]) hide(bindsOpts, 'boundOpts');
  }

  /** The class of this client's sandboxes. */
  protected sandboxClass(bound: E2BClientOpts): typeof Sandbox {
    return class extends Sandbox {
      protected static override readonly boundOpts = bound;
    };
  }

  /** What it is as JSON: where it connects to, and no secret. */
  toJSON(): { apiUrl: string; domain: string } {
    return { apiUrl: this.config.apiUrl, domain: this.config.domain };
  }

  /** Finds out what became of a create: see {@link Sandbox.resolve}. */
  resolve(intent: string, opts?: ConnectionOpts): Promise<Sandbox | undefined> {
    return this.Sandbox.resolve(intent, opts);
  }

  /**
   * Waits, no longer than twice `cleanupTimeoutMs`, until what creates do in the background is done: doubles that are
   * killed, and what was made for callers that went away. All creates of this client are waited for, those with options of
   * their own too, and those of no client that have this one's options.
   *
   * @returns what is left, and could not be cleared away; the logger is told, too.
   */
  async close(): Promise<readonly Leftover[]> {
    // Without a key nobody else's create has this client's options.
    const others = this.config.apiKey === undefined ? [] : createsOf(this.config).close();
    const left = (await Promise.all([this.background.close(), others])).flat();
    for (const { intent, sandboxes, maybeMore } of left) {
      const more = maybeMore ? ', and perhaps more' : '';
      this.config.logger?.warn?.(`left of intent ${intent}: sandboxes ${sandboxes.join(', ') || 'unknown'}${more}`);
    }
    const { size } = this.background;
    if (size > 0) this.config.logger?.warn?.(`${size} of this client's creates are still under way`);
    return left;
  }

  /** Closes it, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
