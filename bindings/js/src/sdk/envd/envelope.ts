/** Connect's envelopes: a flag byte, a length of four bytes, and a message. */

/** The flag of the last envelope. */
const END = 0x02;
/** The flag of a packed message, which was not asked for. */
const PACKED = 0x01;

/** The longest message that is read, in bytes: output comes in pieces of 32 KiB, and a directory's list in one. */
export const MAX_MESSAGE = 64 << 20;

/** One message of a stream. */
export interface Envelope {
  readonly end: boolean;
  readonly json: unknown;
}

/** What should be an envelope is none. */
export class EnvelopeError extends Error {
  override name = 'EnvelopeError';
}

/** Packs one message of a request. */
export function pack(message: unknown): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(JSON.stringify(message));
  const packed = new Uint8Array(5 + json.length);
  new DataView(packed.buffer).setUint32(1, json.length);
  packed.set(json, 5);
  return packed;
}

/** Unpacks messages from pieces that are cut anywhere. */
export class Unpacker {
  private pieces: Uint8Array[] = [];
  private held = 0;

  /** Takes a piece, and gives the messages that are whole by now. */
  *push(piece: Uint8Array): Generator<Envelope> {
    if (piece.length > 0) {
      this.pieces.push(piece);
      this.held += piece.length;
    }
    for (;;) {
      if (this.held < 5) return;
      const head = this.peek(5);
      const length = new DataView(head.buffer, head.byteOffset, 5).getUint32(1);
      if (length > MAX_MESSAGE) {
        throw new EnvelopeError(
          `a message of ${length} bytes is longer than ${MAX_MESSAGE}; is this a Connect stream?`,
        );
      }
      if (this.held < 5 + length) return;
      const whole = this.take(5 + length);
      const flags = whole[0] ?? 0;
      if (flags & PACKED) throw new EnvelopeError('a message is packed, although that was not asked for');
      const text = new TextDecoder().decode(whole.subarray(5));
      let json: unknown;
      try {
        json = JSON.parse(text || '{}');
      } catch {
        throw new EnvelopeError(`a message is no JSON: ${text.slice(0, 100)}`);
      }
      if (typeof json !== 'object' || json === null)
        throw new EnvelopeError(`a message is no object: ${text.slice(0, 100)}`);
      yield { end: (flags & END) !== 0, json };
    }
  }

  /** Bytes of a message that is not whole. */
  get rest(): number {
    return this.held;
  }

  private peek(count: number): Uint8Array {
    const [first] = this.pieces;
    if (first !== undefined && first.length >= count) return first.subarray(0, count);
    this.pieces = [this.join()];
    return (this.pieces[0] as Uint8Array).subarray(0, count);
  }

  private take(count: number): Uint8Array {
    const [first] = this.pieces;
    const all = first !== undefined && first.length >= count ? first : this.join();
    if (all !== first) this.pieces = [all];
    const rest = all.subarray(count);
    if (rest.length > 0) this.pieces[0] = rest;
    else this.pieces.shift();
    this.held -= count;
    return all.subarray(0, count);
  }

  private join(): Uint8Array {
    const all = new Uint8Array(this.held);
    let at = 0;
    for (const piece of this.pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }
}
