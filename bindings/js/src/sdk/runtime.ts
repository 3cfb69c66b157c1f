/** What runtimes differ in, told by what they have rather than by their names. */

/** Whether this is a browser: requests are subject to CORS, and some headers cannot be set. */
export function isBrowser(): boolean {
  if ('Deno' in globalThis || 'Bun' in globalThis) return false;
  const worker = 'WorkerGlobalScope' in globalThis && !('WebSocketPair' in globalThis);
  return ('document' in globalThis && 'window' in globalThis) || (worker && 'importScripts' in globalThis);
}

let streams: boolean | undefined;

/** Whether `fetch` sends a stream as it comes. Where it cannot, it would send its name as a text. */
export function canStreamUploads(): boolean {
  streams ??= (() => {
    let duplexRead = false;
    try {
      const init = {
        body: new ReadableStream(),
        method: 'POST',
        get duplex() {
          duplexRead = true;
          return 'half';
        },
      };
      const hasContentType = new Request('http://localhost/', init).headers.has('Content-Type');
      return !hasContentType && (duplexRead || !isBrowser());
    } catch {
      return false;
    }
  })();
  return streams;
}

/** Keeps properties out of what is logged or written as JSON: they hold secrets. They are read as before. */
export function hide<T extends object>(target: T, ...names: string[]): void {
  for (const name of names) {
    const value = (target as Record<string, unknown>)[name];
    if (value !== undefined)
      Object.defineProperty(target, name, { value, enumerable: false, writable: true, configurable: true });
  }
}

/** Waits, and less long where the signal is aborted, whose reason is then thrown. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Random hexadecimal digits, two for each byte. */
export function randomHex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );
}
