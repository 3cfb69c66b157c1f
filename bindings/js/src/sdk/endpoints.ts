/** Where servers are: the control plane, the daemons in sandboxes, and volumes. */

import { InvalidArgumentError } from './errors.ts';
import { text } from './validate.ts';

/** The daemon's port. */
export const ENVD_PORT = 49983;

/** The port of the code interpreter. */
export const INTERPRETER_PORT = 49999;

/** The port of the gateway to MCP servers. */
export const MCP_PORT = 50005;

/** Where nothing else is said. */
export const DEFAULT_DOMAIN = 'e2b.app';

/** Domains whose sandboxes share one host and are told apart by headers (protocol fact). */
const SHARED_HOST_DOMAINS = new Set([
  'e2b.app',
  'e2b.dev',
  'e2b.pro',
  'e2b-staging.dev',
  'e2b-tango.dev',
  'e2b-juliett.dev',
  'foxtrot-2.e2b.dev',
]);

/** What addresses follow from. */
export interface Addresses {
  readonly domain: string;
  readonly debug: boolean;
  /** Without a slash at its end. `{id}` and `{port}` in it are filled in. */
  readonly sandboxUrl?: string | undefined;
}

/** Checks a URL that requests go below, and takes the slash from its end. */
export function baseUrl(option: string, value: string): string {
  const wrong = (rule: string) => new InvalidArgumentError(`${option}: ${JSON.stringify(hidden(value))} ${rule}`);
  const filled = value.replaceAll('{id}', 'i0').replaceAll('{port}', '1');
  let url: URL;
  try {
    url = new URL(filled);
  } catch {
    throw wrong('is no URL; it should look like http://host:port');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw wrong('must begin with http:// or https://');
  if (url.username || url.password) throw wrong('must not hold credentials');
  if (url.search || url.hash) throw wrong('must have neither a query nor a fragment');
  return value.replace(/\/+$/, '');
}

/** Checks a domain: a host, perhaps with a port. */
export function checkDomain(given: unknown): string {
  const domain = text('domain', given);
  const wrong = (rule: string) => new InvalidArgumentError(`domain: ${JSON.stringify(domain)} ${rule}`);
  if (domain.includes('://')) throw wrong(`is a URL; give the host alone, such as ${DEFAULT_DOMAIN}, or set apiUrl`);
  if (/[/?#@\s]/.test(domain)) throw wrong(`is no host name, such as ${DEFAULT_DOMAIN}`);
  try {
    new URL(`https://${domain}`);
  } catch {
    throw wrong('is no host name');
  }
  return domain;
}

/** The address below which a port of a sandbox is, for requests that carry the routing headers. */
export function sandboxBase(addresses: Addresses, id: string, port: number, domain: string, browser: boolean): string {
  if (addresses.sandboxUrl !== undefined) return fill(addresses.sandboxUrl, id, port);
  if (addresses.debug) return `http://localhost:${port}`;
  // A browser's request with these headers costs another one before it; the official SDK does not either.
  if (SHARED_HOST_DOMAINS.has(domain) && !browser) return `https://sandbox.${domain}`;
  return `https://${hostOf(addresses, id, port, domain)}`;
}

/** The same, for requests that carry no headers: signed URLs. */
export function directBase(addresses: Addresses, id: string, port: number, domain: string): string {
  if (addresses.sandboxUrl !== undefined) return fill(addresses.sandboxUrl, id, port);
  if (addresses.debug) return `http://localhost:${port}`;
  return `https://${hostOf(addresses, id, port, domain)}`;
}

/** The host of a sandbox's port. */
export function hostOf(addresses: Addresses, id: string, port: number, domain: string): string {
  return addresses.debug ? `localhost:${port}` : `${port}-${id}.${domain}`;
}

/** A path segment: what is not unreserved is encoded, `/` and `:` too. */
export function segment(value: string): string {
  return encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** A query, with `?` before it; values that are absent are left out. */
export function query(values: Record<string, string | number | undefined>): string {
  const parts = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`${segment(name)}=${segment(String(value))}`],
  );
  return parts.length > 0 ? `?${parts.join('&')}` : '';
}

function fill(template: string, id: string, port: number): string {
  return template.replaceAll('{id}', id).replaceAll('{port}', String(port));
}

/** Without what might be a password. */
export function hidden(url: string): string {
  return url.replace(/\/\/[^/?#]*@/, '//…@');
}
