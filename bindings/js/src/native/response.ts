import type { PolicyRecord } from '../policy/types.ts';
import { onAbort } from './aborts.ts';
import { Kind, type NativeBody, type News } from './addon.ts';
import { type RecordJson, recordOf } from './history.ts';
import type { Hub } from './hub.ts';
import { ATTEMPTS } from './protocol.ts';

/** Statuses whose responses have no body (Fetch Standard, "null body status"). */
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

/** Makes a response of what the addon told. */
export function response(hub: Hub, url: string, method: string, news: News, signal: AbortSignal | undefined): Response {
  const lines = news.text.split('\n');
  const headers = new Headers();
  for (let line = 3; line + 1 < lines.length; line += 2) headers.append(lines[line] ?? '', lines[line + 1] ?? '');
  const status = Number(lines[0]);
  const whole = WITHOUT_BODY.has(status) || method === 'HEAD';
  if (whole) news.body?.cancel();
  const body = whole ? null : news.body ? rest(hub, news.body, news.data, signal) : news.data;
  const made = new Response(body, { status, headers });
  let attempts: readonly PolicyRecord[] | undefined;
  return Object.defineProperties(made, {
    url: { value: url, configurable: true },
    [ATTEMPTS]: {
      get: () => {
        attempts ??= (JSON.parse(lines[2] ?? '[]') as RecordJson[]).map(recordOf);
        return attempts;
      },
      configurable: true,
    },
  });
}

type Piece = Uint8Array<ArrayBuffer>;

/** The stream of a body that is read as it is asked for. */
function rest(hub: Hub, body: NativeBody, first: Piece | null, signal: AbortSignal | undefined): ReadableStream<Piece> {
  const source = new Rest(hub, body, first);
  if (signal) endWith(signal, source);
  return new ReadableStream(source, { highWaterMark: 0 });
}

class Rest implements UnderlyingDefaultSource<Piece> {
  /** Takes a listener off its signal when the body has gone. */
  forget: (() => void) | undefined;
  #reading: number | undefined;
  #settle: (() => void) | undefined;
  #pieces: ReadableStreamDefaultController<Piece> | undefined;

  constructor(
    readonly hub: Hub,
    readonly body: NativeBody,
    readonly first: Piece | null,
  ) {}

  start(pieces: ReadableStreamDefaultController<Piece>): void {
    this.#pieces = pieces;
    if (this.first) pieces.enqueue(this.first);
  }

  pull(pieces: ReadableStreamDefaultController<Piece>): Promise<void> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#reading = this.hub.listen(({ kind, text, data }) => {
        if (data) pieces.enqueue(data);
        if (kind === Kind.Piece) return this.#rests();
        this.#ends();
        if (kind === Kind.Cut) pieces.error(new TypeError(text));
        else pieces.close();
      });
      this.body.read(this.#reading);
    });
  }

  cancel(): void {
    this.#ends();
    this.body.cancel();
  }

  abort(reason: unknown): void {
    this.cancel();
    this.#pieces?.error(reason);
  }

  #ends(): void {
    this.forget?.();
    this.#rests();
  }

  #rests(): void {
    if (this.#reading !== undefined) this.hub.stop(this.#reading);
    this.#reading = undefined;
    this.#settle?.();
  }
}

/** A body that nobody reads must not live as long as its signal. */
const forgotten = new FinalizationRegistry<() => void>((forget) => forget());

function endWith(signal: AbortSignal, source: Rest): void {
  const weak = new WeakRef(source);
  const forget = onAbort(signal, () => weak.deref()?.abort(signal.reason));
  source.forget = forget;
  forgotten.register(source, forget);
}
