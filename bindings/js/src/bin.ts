#!/usr/bin/env node
// The `oncebox` command: hands over to the program in the package of this platform.
import { spawn } from 'node:child_process';
import { packagedProgram } from './program.ts';

/** Those that ask a program to end. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The command line's exit code for what is not the command's own failure. */
const INFRASTRUCTURE = 125;

const program = packagedProgram();
if (program === undefined) {
  fail(
    `no package with the program for ${process.platform} on ${process.arch} is installed (are optional dependencies ` +
      'omitted?); `cargo install oncebox-cli` builds it',
  );
}
// Before the program runs: a signal that comes meanwhile must not leave it alone.
for (const signal of SIGNALS) {
  process.on(signal, () => {
    // A terminal sends Ctrl-C to both, and a second one would cut the cleanup short.
    if (!(signal === 'SIGINT' && process.stdin.isTTY)) child.kill(signal);
  });
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.once('error', (error) => fail(`${program}: ${error.message}`));
child.once('exit', (code, signal) => {
  if (signal === null) process.exit(code ?? INFRASTRUCTURE);
  // A signal that does not end this process, as SIGPIPE, must not look like success.
  process.exitCode = INFRASTRUCTURE;
  // Ends as the program did, for who looks at it.
  for (const name of SIGNALS) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});

function fail(why: string): never {
  console.error(`oncebox: ${why}`);
  process.exit(INFRASTRUCTURE);
}
