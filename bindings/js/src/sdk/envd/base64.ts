/** Bytes of JSON messages. */

interface Native {
  toBase64?: () => string;
}

/** Standard base64, with padding. */
export function toBase64(bytes: Uint8Array): string {
  const native = bytes as unknown as Native;
  if (native.toBase64) return native.toBase64();
  let binary = '';
  // In pieces: arguments of a call are limited.
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}

/** Bytes of standard base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
