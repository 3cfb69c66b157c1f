import { oneOf, RULES, type Rule, whole } from '../retry/options.ts';
import type { NativeOptions } from './fetch.ts';

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const object = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/** The rules of the native transport's options, which hold also where it cannot be loaded. */
export const NATIVE_RULES = {
  requestTimeoutMs: RULES.timeout,
  attemptTimeoutMs: RULES.timeout,
  readIdleTimeoutMs: RULES.timeout,
  writeIdleTimeoutMs: RULES.timeout,
  replayBufferLimit: whole(0),
  maxResponseSize: whole(0),
  httpVersion: oneOf(['auto', '1.1', '2']),
  maxConnections: whole(1),
  keepaliveExpiryMs: RULES.timeout,
  maxConnectionAgeMs: RULES.timeout,
  initialStreams: whole(1),
  pingIntervalMs: RULES.timeout,
  pingTimeoutMs: RULES.timeout,
  dnsTimeoutMs: RULES.timeout,
  connectTimeoutMs: RULES.timeout,
  tlsTimeoutMs: RULES.timeout,
  proxyTimeoutMs: RULES.timeout,
  tcpKeepaliveMs: RULES.timeout,
  rootCertificates: (value) => {
    const all = [value].flat();
    return all.length > 0 && all.every(isText) ? undefined : 'a text in PEM form, or a list of them';
  },
  clientCertificate: (value) => {
    const { cert, key } = object(value);
    return isText(cert) && isText(key) ? undefined : '{ cert, key }, both in PEM form';
  },
  dangerAcceptInvalidCertificates: RULES.truth,
  proxy: (value) => {
    const { url, except } = object(value);
    const isProxy = value === false || isText(value) || (isText(url) && typeof except === 'string');
    return isProxy ? undefined : "a proxy's URL, { url, except }, or false";
  },
  unixSocket: (value) => (isText(value) ? undefined : 'a path'),
  traceContext: RULES.truth,
  seed: whole(0),
} satisfies Record<keyof NativeOptions, Rule>;
