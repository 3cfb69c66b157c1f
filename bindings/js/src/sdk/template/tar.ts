/** Archives: `tar`, as GNU writes it. */

/** What goes into an archive. */
export interface TarEntry {
  /** With slashes. */
  readonly name: string;
  readonly type: 'file' | 'directory' | 'link';
  /** Permission bits. */
  readonly mode: number;
  /** Of files, in bytes. */
  readonly size: number;
  /** Of links. */
  readonly target?: string;
}

const BLOCK = 512;
const encoder = new TextEncoder();

/** An entry's head. Nothing of this machine: whose it is, and from when, is for the step to say. */
export function tarHead(entry: TarEntry): Uint8Array {
  const name = encoder.encode(entry.name);
  const target = encoder.encode(entry.target ?? '');
  const long = [
    ...(target.length > 100 ? [longName('K', target)] : []),
    ...(name.length > 100 ? [longName('L', name)] : []),
  ];
  const type = entry.type === 'file' ? '0' : entry.type === 'directory' ? '5' : '2';
  return join([...long, head(name, type, entry.mode, entry.size, target)]);
}

/** What fills an entry's content up to a whole block. */
export function tarPadding(size: number): Uint8Array {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}

/** What ends an archive. */
export function tarEnd(): Uint8Array {
  return new Uint8Array(2 * BLOCK);
}

function longName(type: 'K' | 'L', name: Uint8Array): Uint8Array {
  const size = name.length + 1;
  const content = new Uint8Array(size + tarPadding(size).length);
  content.set(name);
  return join([head(encoder.encode('././@LongLink'), type, 0, size, new Uint8Array()), content]);
}

function head(name: Uint8Array, type: string, mode: number, size: number, target: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(encoder.encode(text), at);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`;
  block.set(name.subarray(0, 100), 0);
  put(100, octal(mode, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  if (size < 8 ** 11) {
    put(124, octal(size, 11));
  } else {
    // 8 GiB and more: a binary number, as GNU has it.
    const view = new DataView(block.buffer);
    block[124] = 0x80;
    view.setBigUint64(128, BigInt(size));
  }
  put(136, octal(0, 11));
  put(148, '        ');
  put(156, type);
  block.set(target.subarray(0, 100), 157);
  put(257, 'ustar  \0');
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, '0')}\0 `);
  return block;
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
