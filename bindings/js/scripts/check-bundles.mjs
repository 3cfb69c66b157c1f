// What bundlers make of the package: only what is used, and nothing of Node where a browser loads it.
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const cwd = fileURLToPath(new URL('..', import.meta.url));
const ENTRY = 'virtual:entry';

/** Something that is in every bundle with the policy, and in no other. */
const POLICY = /WebAssembly/;

/** Bundles a program for a runtime that sets these export conditions. */
async function bundle(program, conditions) {
  const outside = new Set();
  const made = await rolldown({
    cwd,
    input: ENTRY,
    platform: 'neutral',
    resolve: { conditionNames: [...conditions, 'import'] },
    logLevel: 'silent',
    plugins: [
      {
        name: 'program',
        resolveId: (id) => (id === ENTRY ? fileURLToPath(new URL('../program.mjs', import.meta.url)) : null),
        load: (id) => (id.endsWith('/program.mjs') ? { code: program, moduleSideEffects: true } : null),
      },
    ],
    external: (id) => {
      const isOutside = id.startsWith('node:') || id.endsWith('.wasm');
      if (isOutside) outside.add(id.replace(/^.*\//, ''));
      return isOutside;
    },
  });
  const { output } = await made.generate({ format: 'esm' });
  await made.close();
  return { code: output.map((chunk) => chunk.code ?? '').join('\n'), outside: [...outside] };
}

function check(holds, message) {
  if (!holds) throw new Error(message);
}

const uses = (name, from) => `import { ${name} } from '${from}';\nconsole.log(${name});\n`;

for (const [name, from] of [
  ['withRetry', 'oncebox/retry'],
  ['Sandbox', 'oncebox'],
]) {
  const { code, outside } = await bundle(uses(name, from), ['browser']);
  check(outside.length === 0, `a browser's bundle of ${name} loads ${outside.join(', ')}`);
  check(POLICY.test(code), `a browser's bundle of ${name} has no policy`);
  console.log(`browser, ${name}: ${code.length} characters`);
}

const worker = await bundle(uses('withRetry', 'oncebox/retry'), ['workerd', 'worker', 'browser']);
check(worker.outside.join() === 'policy.wasm', `a Worker's bundle loads ${worker.outside.join(', ') || 'no module'}`);
check(worker.code.length < 120_000, `a Worker's bundle inlines what it imports: ${worker.code.length} characters`);

// Nothing runs when it is imported: what is not used is not there.
const nothing = await bundle("import 'oncebox';\nimport 'oncebox/retry';\n", ['browser']);
check(nothing.code.trim().length < 200, `a bundle that uses nothing has ${nothing.code.length} characters`);
const words = await bundle(uses('describeAttempts', 'oncebox/retry'), ['browser']);
check(!POLICY.test(words.code), 'a bundle that only describes attempts has the policy');
console.log(`browser, describeAttempts: ${words.code.length} characters; nothing: ${nothing.code.trim().length}`);
