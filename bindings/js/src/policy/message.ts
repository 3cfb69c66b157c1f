/** How values are written for the module: see `wasm/src/message.rs`, whose order and sizes these keep. */

const NO_TEXT = 0xffff_ffff;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes a message. */
export class Writer {
  private bytes = new Uint8Array(256);
  private view = new DataView(this.bytes.buffer);
  private length = 0;

  private room(more: number): number {
    const at = this.length;
    this.length += more;
    if (this.length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(this.length, 2 * this.bytes.length));
      larger.set(this.bytes);
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return at;
  }

  /** What was written. */
  finish(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  u8(value: number): this {
    const at = this.room(1);
    this.view.setUint8(at, value);
    return this;
  }

  bool(value: boolean | undefined): this {
    return this.u8(value === true ? 1 : 0);
  }

  optionalBool(value: boolean | undefined): this {
    return this.u8(value === undefined ? 0 : value ? 2 : 1);
  }

  u32(value: number): this {
    const at = this.room(4);
    this.view.setUint32(at, value, true);
    return this;
  }

  f64(value: number): this {
    const at = this.room(8);
    this.view.setFloat64(at, value, true);
    return this;
  }

  /** A time in seconds, or none. */
  time(value: number | undefined): this {
    return this.f64(value ?? Number.NaN);
  }

  text(value: string | undefined): this {
    if (value === undefined) return this.u32(NO_TEXT);
    const bytes = encoder.encode(value);
    this.u32(bytes.length);
    const at = this.room(bytes.length);
    this.bytes.set(bytes, at);
    return this;
  }

  texts(values: readonly string[]): this {
    this.u32(values.length);
    for (const value of values) this.text(value);
    return this;
  }

  /** A variant: its place among all. */
  variant<T>(all: readonly T[], value: T): this {
    return this.u8(all.indexOf(value));
  }

  /** A variant, or none. */
  optionalVariant<T>(all: readonly T[], value: T | undefined): this {
    return this.u8(value === undefined ? 0 : 1 + all.indexOf(value));
  }
}

/** Reads an answer from its begin. */
export class Reader {
  private readonly view: DataView;
  private at: number;

  constructor(memory: ArrayBufferLike, at: number) {
    this.view = new DataView(memory);
    this.at = at;
  }

  u8(): number {
    const value = this.view.getUint8(this.at);
    this.at += 1;
    return value;
  }

  bool(): boolean {
    return this.u8() !== 0;
  }

  optionalBool(): boolean | undefined {
    const value = this.u8();
    return value === 0 ? undefined : value === 2;
  }

  u32(): number {
    const value = this.view.getUint32(this.at, true);
    this.at += 4;
    return value;
  }

  f64(): number {
    const value = this.view.getFloat64(this.at, true);
    this.at += 8;
    return value;
  }

  /** A time in seconds, or none. */
  time(): number | undefined {
    const value = this.f64();
    return Number.isNaN(value) ? undefined : value;
  }

  optionalText(): string | undefined {
    const length = this.u32();
    if (length === NO_TEXT) return undefined;
    const text = decoder.decode(new Uint8Array(this.view.buffer, this.at, length));
    this.at += length;
    return text;
  }

  text(): string {
    return this.optionalText() ?? '';
  }

  texts(): string[] {
    return Array.from({ length: this.u32() }, () => this.text());
  }

  /** A variant by its place among all. */
  variant<T>(all: readonly T[]): T {
    const place = this.u8();
    const value = all[place];
    if (value === undefined)
      throw new Error(`the policy module answered variant ${place} of ${all.length}: it is not ours`);
    return value;
  }

  optionalVariant<T>(all: readonly T[]): T | undefined {
    const place = this.u8();
    return place === 0 ? undefined : all[place - 1];
  }
}
