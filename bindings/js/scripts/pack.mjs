// Packs what is published: the package itself, and in a package of its platform the addon and the program.
//
//     node scripts/pack.mjs OUT [ADDON PLATFORM [PROGRAM NOTICES]]
//
// OUT gets the tarballs. ADDON is what cargo built of `native`, for PLATFORM: `linux-x64-gnu`, `darwin-arm64`, …; PROGRAM what
// it built of `oncebox-cli`, without which there is no `oncebox` command, and NOTICES tells of what is linked into both. The same
// script packs them on every machine. The package itself has to be built (`npm run build`).
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The platforms that are published, and what npm is told of each. */
const PLATFORMS = {
  'linux-x64-gnu': { os: ['linux'], cpu: ['x64'], libc: ['glibc'] },
  'linux-arm64-gnu': { os: ['linux'], cpu: ['arm64'], libc: ['glibc'] },
  'linux-x64-musl': { os: ['linux'], cpu: ['x64'], libc: ['musl'] },
  'linux-arm64-musl': { os: ['linux'], cpu: ['arm64'], libc: ['musl'] },
  'darwin-x64': { os: ['darwin'], cpu: ['x64'] },
  'darwin-arm64': { os: ['darwin'], cpu: ['arm64'] },
  'win32-x64-msvc': { os: ['win32'], cpu: ['x64'] },
  'win32-arm64-msvc': { os: ['win32'], cpu: ['arm64'] },
};

const root = fileURLToPath(new URL('..', import.meta.url));
const [out, addon, platform, program, notices] = process.argv.slice(2);
if (out === undefined || (addon === undefined) !== (platform === undefined)) {
  console.error('usage: node scripts/pack.mjs OUT [ADDON PLATFORM [PROGRAM NOTICES]]');
  process.exit(2);
}
if (platform !== undefined && !(platform in PLATFORMS)) {
  console.error(`${platform} is none of ${Object.keys(PLATFORMS).join(', ')}`);
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const { name, version, license, repository } = manifest;

packed((folder) => {
  for (const file of ['dist', 'README.md']) cpSync(join(root, file), join(folder, file), { recursive: true });
  // Not in the repository's own manifest: npm would look for addons that are not published yet.
  const addons = Object.keys(PLATFORMS).map((each) => [`${name}-${each}`, version]);
  const { devDependencies: _, scripts: __, ...published } = manifest;
  return { ...published, files: [...manifest.files, 'LICENSE-*'], optionalDependencies: Object.fromEntries(addons) };
});
if (addon !== undefined) {
  // As `src/program.ts` looks for it.
  const command = platform.startsWith('win32-') ? 'oncebox.exe' : 'oncebox';
  packed((folder) => {
    cpSync(addon, join(folder, 'oncebox.node'));
    if (program !== undefined) cpSync(program, join(folder, command));
    if (notices !== undefined) cpSync(notices, join(folder, 'THIRD-PARTY.txt'));
    writeFileSync(
      join(folder, 'README.md'),
      `The native transport of [${name}](https://www.npmjs.com/package/${name}), and its command, for ${platform}.\n`,
    );
    const description = `The native transport of ${name}, and its command, for ${platform}.`;
    const files = ['oncebox.node', command, 'THIRD-PARTY.txt', 'LICENSE-*'];
    const engines = manifest.engines;
    return {
      name: `${name}-${platform}`,
      version,
      description,
      license,
      repository,
      main: 'oncebox.node',
      files,
      engines,
      ...PLATFORMS[platform],
    };
  });
}

/** Packs a folder that `fill` fills, and whose manifest it returns. */
function packed(fill) {
  const folder = mkdtempSync(join(tmpdir(), 'oncebox-pack-'));
  try {
    for (const file of ['LICENSE-MIT', 'LICENSE-APACHE']) cpSync(join(root, '../..', file), join(folder, file));
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(fill(folder), null, 2)}\n`);
    const [tarball] = JSON.parse(
      execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', resolve(out)], { cwd: folder }),
    );
    console.log(`${tarball.filename}: ${tarball.size} bytes, ${tarball.entryCount} files`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
