/** What a stream of a Connect RPC that ends before its first message is to the policy; as `crates/protocol/src/answers.rs` has it. */

import type { Responded } from '../policy/types.ts';
import { edgeAnswerOfRpc } from './edge.ts';

/** Flags, and a length in four bytes (Connect protocol, enveloped messages). */
const HEAD = 5;

/** The envelope's content is compressed: nobody looks into such. */
const COMPRESSED = 1;

/** The envelope ends the stream. */
const END_STREAM = 2;

/** Errors that are what these statuses are to other calls (Connect protocol, error codes). */
const LIKE: Readonly<Record<string, number>> = { unavailable: 503, resource_exhausted: 429, deadline_exceeded: 504 };

/** What is judged in place of what the head says. */
export type Said = Pick<Responded, 'edge'> & { readonly status?: number };

const NOTHING: Said = {};

/** Whether an answer opens such a stream, and can be looked into. */
export function isConnectStream({ ok, headers }: Response): boolean {
  return ok && !headers.has('content-encoding') && !!headers.get('content-type')?.startsWith('application/connect+');
}

/** What the begin of such a stream says; `undefined`: more of it is needed. */
export function firstEnvelope(begun: Uint8Array): Said | undefined {
  const [flags] = begun;
  if (flags === undefined) return undefined;
  if ((flags & END_STREAM) === 0 || (flags & COMPRESSED) !== 0) return NOTHING;
  if (begun.length < HEAD) return undefined;
  const length = new DataView(begun.buffer, begun.byteOffset).getUint32(1);
  return begun.length < HEAD + length ? undefined : endOfStream(begun.subarray(HEAD, HEAD + length));
}

/** An answer whose body has been read up to where it says something; what is read of it from now on is all of it. */
export async function looked(
  response: Response,
  next: (reader: ReadableStreamDefaultReader<Uint8Array>) => Promise<Uint8Array | undefined>,
): Promise<{ readonly response: Response; readonly said: Said }> {
  const reader = response.body?.getReader();
  if (reader === undefined) return { response, said: NOTHING };
  let begun = new Uint8Array();
  let said: Said | undefined;
  let failure: { readonly error: unknown } | undefined;
  try {
    while (said === undefined && begun.length < LOOKED_AT) {
      const piece = await next(reader);
      if (piece === undefined) break;
      begun = joined(begun, piece);
      said = firstEnvelope(begun);
    }
  } catch (error) {
    // One that was cut says nothing; whoever reads on sees the cut.
    failure = { error };
  }
  let isFirst = begun.length > 0;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        if (isFirst) {
          isFirst = false;
          return controller.enqueue(begun);
        }
        if (failure !== undefined) throw failure.error;
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const { status, statusText, headers } = response;
  return { response: new Response(body, { status, statusText, headers }), said: said ?? NOTHING };
}

/** How much of a body is looked at, in bytes. */
const LOOKED_AT = 65_536;

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

function endOfStream(content: Uint8Array): Said {
  const { code, message } = errorOf(content);
  const status = typeof code === 'string' && Object.hasOwn(LIKE, code) ? LIKE[code] : undefined;
  if (status === undefined) return NOTHING;
  const edge = status === 503 && typeof message === 'string' ? edgeAnswerOfRpc(message)?.outcome : undefined;
  return edge === undefined ? { status } : { edge };
}

function errorOf(content: Uint8Array): { code?: unknown; message?: unknown } {
  try {
    const { error } = JSON.parse(new TextDecoder().decode(content)) as { error?: object | null };
    return error ?? {};
  } catch {
    return {};
  }
}
