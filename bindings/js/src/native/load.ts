import { createRequire } from 'node:module';
import type { Addon } from './addon.ts';
import { Hub } from './hub.ts';

/** The addon, or why there is none. */
export type Loaded = { readonly addon: Addon; readonly hub: Hub } | { readonly reason: string };

let loaded: Loaded | undefined;

/** Loads the addon of this platform, once. */
export function load(): Loaded {
  loaded ??= tryToLoad();
  return loaded;
}

function tryToLoad(): Loaded {
  const named = process.env.ONCEBOX_NATIVE;
  if (named === 'off') return { reason: 'ONCEBOX_NATIVE is "off"' };
  const names = named ? [named] : addonPackages(process.platform, process.arch);
  if (names.length === 0) return { reason: `there is no addon for ${process.platform} on ${process.arch}` };
  const require = createRequire(import.meta.url);
  const reasons = names.map((name) => {
    try {
      const addon = require(name) as Addon;
      return { addon, hub: new Hub(addon) };
    } catch (error) {
      return `${name}: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}`;
    }
  });
  const found = reasons.find((reason) => typeof reason !== 'string');
  return found ?? { reason: `no addon could be loaded (${reasons.join('; ')})` };
}

/** The packages that may have a platform's addon. Which libc a Linux has is for the installer to know: one of them is there. */
export function addonPackages(platform: string, arch: string): string[] {
  if (arch !== 'x64' && arch !== 'arm64') return [];
  if (platform === 'darwin') return [`oncebox-darwin-${arch}`];
  if (platform === 'win32') return [`oncebox-win32-${arch}-msvc`];
  if (platform === 'linux') return [`oncebox-linux-${arch}-gnu`, `oncebox-linux-${arch}-musl`];
  return [];
}
