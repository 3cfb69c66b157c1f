/** Standard input, and what is typed on terminals. */

import { toBase64 } from '../envd/base64.ts';
import { type Envd, limitsOf } from '../envd/envd.ts';
import { InvalidArgumentError, TemplateError } from '../errors.ts';
import { through } from '../trail.ts';
import { whole } from '../validate.ts';
import type { CommandRequestOpts } from './handle.ts';

/** The largest piece that one message carries, in bytes; its base64 is below the limits of common servers. */
const PIECE = 512 << 10;

/** Writes to a process, in pieces. */
export async function sendInput(
  envd: Envd,
  pid: number,
  to: 'stdin' | 'pty',
  data: string | Uint8Array,
  opts: CommandRequestOpts,
): Promise<void> {
  const bytes = bytesOf(data);
  let at = 0;
  const write = async (noting: Envd) => {
    do {
      const piece = bytes.subarray(at, at + PIECE);
      const input = toBase64(piece);
      await noting.unary({
        action: `write to process ${pid}`,
        service: 'process.Process',
        method: 'SendInput',
        message: { process: { pid: checkPid(pid) }, input: { [to]: input } },
        // It may be a password. Its padding is not always written.
        secrets: [input.replace(/=+$/, '')],
        ...limitsOf(opts),
      });
      at += piece.length;
    } while (at < bytes.length);
  };
  await through(envd, write, () => `${at} of ${bytes.length} bytes were written before`);
}

/** Ends a process's standard input. */
export async function closeInput(envd: Envd, pid: number, opts: CommandRequestOpts): Promise<void> {
  if (!envd.atLeast('0.5.2')) {
    throw new TemplateError("closeStdin: the sandbox's daemon is older than 0.5.2; build its template anew");
  }
  await envd.unary({
    action: `end the input of process ${pid}`,
    service: 'process.Process',
    method: 'CloseStdin',
    message: { process: { pid: checkPid(pid) } },
    ...limitsOf(opts),
  });
}

/** A text's UTF-8, or bytes as they are. */
export function bytesOf(data: string | Uint8Array): Uint8Array {
  if (typeof data === 'string') return new TextEncoder().encode(data);
  if (data instanceof Uint8Array) return data;
  throw new InvalidArgumentError('data: it is neither a text nor a Uint8Array');
}

/** A process's number. */
export function checkPid(pid: number): number {
  return whole('pid', pid, 0, 2 ** 32 - 1);
}
