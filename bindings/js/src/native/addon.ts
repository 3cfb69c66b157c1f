/** The addon as its Rust code declares it (`bindings/js/native`). */
export interface Addon {
  readonly Port: new (
    told: (
      number: number,
      kind: number,
      text: string | null,
      data: Uint8Array<ArrayBuffer> | null,
      body: NativeBody | null,
    ) => void,
  ) => NativePort;
  readonly NativeClient: new (port: NativePort, options: string | undefined) => NativeClient;
  readonly NativeUpload: new (port: NativePort, number: number) => NativeUpload;
}

/** Its way back. */
export interface NativePort {
  hold(): void;
  release(): void;
}

/** Makes calls. */
export interface NativeClient {
  send(
    number: number,
    head: string,
    bytes: Uint8Array | undefined,
    upload: NativeUpload | undefined,
    options: string | undefined,
  ): NativeCall;
}

/** A call under way. */
export interface NativeCall {
  abort(): void;
}

/** Takes a request's body. */
export interface NativeUpload {
  /** Whether the next piece may follow at once; else {@link Kind.Taken} says when. */
  write(piece: Uint8Array): boolean;
  end(): void;
  fail(reason: string): void;
}

/** The rest of a response's body. */
export interface NativeBody {
  read(number: number): void;
  cancel(): void;
}

/** What happened; see `Event` of the addon. */
export const Kind = {
  Head: 0,
  Failed: 1,
  Piece: 2,
  Last: 3,
  Cut: 4,
  Taken: 5,
  Unwanted: 6,
  Attempt: 7,
} as const;

/** Something happened. */
export interface News {
  readonly kind: number;
  readonly text: string;
  readonly data: Uint8Array<ArrayBuffer> | null;
  readonly body: NativeBody | null;
}
