/** What files are written from. */

import { InvalidArgumentError, UnsupportedError } from '../errors.ts';
import { canStreamUploads } from '../runtime.ts';
import type { CallBody } from '../transport/sender.ts';

/** What a file can be written from. A stream is sent as it comes, and once. */
export type FileData = string | ArrayBuffer | ArrayBufferView | Blob | ReadableStream;

/** Data that is about to be sent. */
export interface Prepared {
  readonly body: Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;
  /** How many bytes it has; of a stream, once it was sent. */
  size(): number;
}

/** Makes data ready to be sent. A text is sent as UTF-8. */
export function prepare(data: FileData, option = 'data'): Prepared {
  if (typeof data === 'string') return bytes(new TextEncoder().encode(data));
  if (data instanceof ArrayBuffer) return bytes(new Uint8Array(data));
  if (ArrayBuffer.isView(data)) return bytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice());
  if (data instanceof Blob) return { body: data, size: () => data.size };
  if (data instanceof ReadableStream) return counted(data);
  throw new InvalidArgumentError(
    `${option}: it is neither a text, an ArrayBuffer or a view of one, a Blob nor a ReadableStream`,
  );
}

/** Compresses data, piece by piece. */
export function gzipped(body: Prepared['body']): Promise<CallBody> | CallBody {
  if (typeof CompressionStream === 'undefined') {
    throw new UnsupportedError('gzip: this runtime has no CompressionStream; leave the option out');
  }
  const stream = body instanceof ReadableStream ? body : new Blob([body as BlobPart]).stream();
  const packed = stream.pipeThrough(new CompressionStream('gzip') as ReadableWritablePair<Uint8Array, Uint8Array>);
  // What is in memory stays there, so that it can be sent again.
  return body instanceof ReadableStream ? packed : new Response(packed).blob();
}

function bytes(body: Uint8Array<ArrayBuffer>): Prepared {
  return { body, size: () => body.length };
}

function counted(data: ReadableStream): Prepared {
  if (data.locked) throw new InvalidArgumentError('data: the stream is being read by somebody else, or was');
  if (!canStreamUploads()) {
    throw new UnsupportedError(
      'data: this runtime cannot send a stream as it comes; gather it first: await new Response(stream).blob()',
    );
  }
  let size = 0;
  const counting = new TransformStream<unknown, Uint8Array>({
    transform(piece, controller) {
      const chunk = typeof piece === 'string' ? new TextEncoder().encode(piece) : view(piece);
      size += chunk.length;
      controller.enqueue(chunk);
    },
  });
  return { body: data.pipeThrough(counting), size: () => size };
}

/** Bytes that a stream gives. */
export function view(piece: unknown): Uint8Array {
  if (piece instanceof Uint8Array) return piece;
  if (piece instanceof ArrayBuffer) return new Uint8Array(piece);
  if (ArrayBuffer.isView(piece)) return new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
  throw new InvalidArgumentError('data: the stream gives what are no bytes');
}
