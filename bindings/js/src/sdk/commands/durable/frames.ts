/** What the wrapper writes: lines, and outputs with their lengths before them. */

/** The longest line. */
const MAX_LINE = 256;

/** One of the two outputs. */
export type Output = 'stdout' | 'stderr';

/** Why a command ended; `own`: by itself. */
export type Reason = 'own' | 'timeout' | 'full' | 'disk';

/** Something that the wrapper said. */
export type Said =
  /** The spool is there, and so many bytes of input are in it. */
  | { readonly type: 'hello'; readonly input: number }
  /** A piece of output, as far as it has come. */
  | { readonly type: 'piece'; readonly output: Output; readonly data: Uint8Array<ArrayBuffer> }
  /** There may be more: ask again. */
  | { readonly type: 'more' }
  /** The command's end, with the exit code as a shell has it, and what the spool holds at most, in bytes. */
  | {
      readonly type: 'ended';
      readonly code: number;
      readonly leftBehind: boolean;
      readonly reason: Reason;
      readonly bound: number;
    }
  /** Nobody is left who could tell how the command ended. */
  | { readonly type: 'lost' }
  /** An output is there from this offset on only. */
  | { readonly type: 'from'; readonly output: Output; readonly offset: number }
  /** It did what it was asked. */
  | { readonly type: 'done' }
  /** It waits for the command to read. */
  | { readonly type: 'waits' }
  /** Why it does not do what it was asked. */
  | { readonly type: 'refused'; readonly why: string };

/** Something that no wrapper says. */
export class Malformed extends Error {
  override name = 'Malformed';
}

/** Reads what comes in pieces of any size. */
export class Frames {
  private line: number[] = [];
  private rest: { output: Output; length: number } | undefined;

  /**
   * Takes what came, and gives what that says.
   *
   * @throws Malformed.
   */
  *push(bytes: Uint8Array<ArrayBuffer>): Generator<Said, void> {
    let at = 0;
    while (at < bytes.length) {
      if (this.rest) {
        const { output, length } = this.rest;
        const data = bytes.subarray(at, at + length);
        at += data.length;
        this.rest = data.length < length ? { output, length: length - data.length } : undefined;
        yield { type: 'piece', output, data };
        continue;
      }
      const byte = bytes[at++] as number;
      if (byte !== 0x0a) {
        this.line.push(byte);
        if (this.line.length > MAX_LINE) throw this.malformed();
        continue;
      }
      const said = parse(this.text());
      if (said === undefined) throw this.malformed();
      this.line = [];
      if ('length' in said) {
        if (said.length > 0) this.rest = said;
      } else yield said;
    }
  }

  private text(): string {
    return String.fromCharCode(...this.line);
  }

  private malformed(): Malformed {
    return new Malformed(`the wrapper said ${JSON.stringify(this.text())}`);
  }
}

const OUTPUTS: Record<string, Output | undefined> = { o: 'stdout', e: 'stderr' };
const REASONS: Record<string, Reason | undefined> = { '-': 'own', timeout: 'timeout', full: 'full', disk: 'disk' };

function parse(line: string): Said | { output: Output; length: number } | undefined {
  const words = line.split(' ');
  const [word = '', first = '', second = ''] = words;
  const output = OUTPUTS[first];
  switch (`${word} ${words.length}`) {
    case 'o 2':
    case 'e 2': {
      const length = number(first);
      const to = OUTPUTS[word];
      return length === undefined || to === undefined ? undefined : { output: to, length };
    }
    case 'h 3': {
      const input = number(second);
      return first !== '1' || input === undefined ? undefined : { type: 'hello', input };
    }
    case 'm 1':
      return { type: 'more' };
    case 'l 1':
      return { type: 'lost' };
    case 'f 1':
    case 'k 1':
      return { type: 'done' };
    case 'w 1':
      return { type: 'waits' };
    case 'g 3': {
      const offset = number(second);
      return output === undefined || offset === undefined ? undefined : { type: 'from', output, offset };
    }
    case 'x 2':
      return { type: 'refused', why: first };
    case 's 7': {
      const [code, reason, bound] = [number(first), REASONS[words[5] ?? ''], number(words[6] ?? '')];
      if (code === undefined || code > 255 || reason === undefined || bound === undefined) return undefined;
      return { type: 'ended', code, leftBehind: words[4] === '1', reason, bound };
    }
    default:
      return undefined;
  }
}

function number(text: string): number | undefined {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}
