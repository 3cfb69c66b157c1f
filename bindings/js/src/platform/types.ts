import type { NativeTransport } from '../native/index.ts';
import type { LocalFiles } from '../sdk/files/local-types.ts';
import type { TemplateFiles } from '../sdk/template/context-types.ts';

/** A JavaScript runtime, as far as its differences matter here. */
export type Runtime = 'node' | 'bun' | 'deno' | 'browser' | 'workerd' | 'unknown';

/** What differs between runtimes. One module of this folder is built into each of the package's builds, as `#platform`. */
export interface Platform {
  /** The runtime this code runs in. */
  readonly runtime: () => Runtime;
  /** A variable of the environment; undefined where there is none, or no environment. */
  readonly env: (name: string) => string | undefined;
  /** The policy's module, compiled. */
  readonly loadPolicy: () => Promise<WebAssembly.Module>;
  /** The native transport, where this runtime may load one. */
  readonly native?: NativeTransport;
  /** Reads the files that templates copy, where there are files; loaded when the first is copied. */
  readonly templateFiles?: () => Promise<TemplateFiles>;
  /** Files of this machine, where there are some; loaded when the first is asked for. */
  readonly localFiles?: () => Promise<LocalFiles>;
  /** What a file holds, where the text is the path of one. */
  readonly readTextIfFile?: (path: string) => string | undefined;
}
