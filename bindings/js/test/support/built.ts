import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

/** Code for a process of its own: `names` are imported from `module`, which is named as from a folder of `test`. */
export async function built(
  names: string[],
  module: string,
  code: string,
): Promise<AsyncDisposable & { file: string }> {
  // Below node_modules, so that nothing else looks at it.
  const folder = await mkdtemp(fileURLToPath(new URL('../../node_modules/.run-', import.meta.url)));
  const file = join(folder, 'main.mjs');
  const entry = join(folder, 'main.ts');
  const source = fileURLToPath(new URL(module, import.meta.url));
  await writeFile(entry, `import { ${names.join(', ')} } from ${JSON.stringify(source)};\n${code}`);
  const bundle = await rolldown({ input: entry, platform: 'node' });
  await bundle.write({ file });
  await bundle.close();
  return { file, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}
