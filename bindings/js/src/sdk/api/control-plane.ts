/** Calls to the control plane: JSON there and back. */

import type { ConnectionConfig } from '../config.ts';
import { type OnceboxError, SandboxError } from '../errors.ts';
import { masked, type Secrets } from '../masked.ts';
import { sendNoted } from '../trail.ts';
import type { Answer, Call } from '../transport/sender.ts';
import { merged } from '../validate.ts';
import { type Classes, failed, refused } from './failure.ts';

/** A request to the control plane. */
export interface ApiRequest {
  /** What is being done, in words. */
  readonly action: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With the query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly headers?: Record<string, string>;
  readonly classes?: Classes;
  /** Values in it that no error may tell. */
  readonly secrets?: readonly string[];
}

/** Headers of each request to the control plane. */
export function apiHeaders(config: ConnectionConfig): Record<string, string> {
  return merged(config.userAgent, config.requestHeaders, config.headers, { 'X-API-KEY': config.requiredApiKey });
}

/** The call of a request. */
export function apiCall(config: ConnectionConfig, request: ApiRequest): Call {
  const type = request.json === undefined ? {} : { 'Content-Type': 'application/json' };
  const headers = merged({ Accept: 'application/json' }, apiHeaders(config), request.headers, type);
  return {
    plane: 'control_plane',
    method: request.method,
    base: config.apiUrl,
    path: request.path,
    headers,
    body: request.json === undefined ? undefined : JSON.stringify(request.json),
    read: 'whole',
    requestTimeoutMs: config.requestTimeoutMs,
    policy: config.policy,
    log: config.log,
    signal: config.signal,
  };
}

/** Sends a request, whatever is answered. */
export async function sendApi(config: ConnectionConfig, request: ApiRequest): Promise<Answer> {
  const call = apiCall(config, request);
  try {
    return await sendNoted(config.sender, call, config.trail);
  } catch (error) {
    throw failed(request.action, error, config.signal);
  }
}

/**
 * Sends a request that must succeed.
 *
 * @returns its answer, read as JSON; `undefined` where there is nothing in it.
 */
export async function callApi<T>(config: ConnectionConfig, request: ApiRequest): Promise<T> {
  return (await callApiWithHeaders<T>(config, request)).body;
}

/** The same, with the answer's headers. */
export async function callApiWithHeaders<T>(
  config: ConnectionConfig,
  request: ApiRequest,
): Promise<{ body: T; headers: Headers }> {
  const answer = await sendApi(config, request);
  const { action, classes } = request;
  // A server may quote the key that it refuses.
  const secrets = [...config.secrets, ...(request.secrets ?? [])];
  if (answer.status < 200 || answer.status > 299) throw await refused(action, answer, classes, secrets);
  return { body: await parsed<T>(action, answer, secrets), headers: answer.headers };
}

/**
 * Sends a request for which one status is a plain no.
 *
 * @returns whether it was anything but that status.
 */
export async function callUnless(config: ConnectionConfig, status: number, request: ApiRequest): Promise<boolean> {
  try {
    await callApi(config, request);
    return true;
  } catch (error) {
    if ((error as OnceboxError)?.statusCode === status) return false;
    throw error;
  }
}

/** Reads an answer's JSON, of which no error tells secrets. */
export async function parsed<T>(action: string, answer: Answer, secrets: Secrets = []): Promise<T> {
  const text = await answer.response.text();
  if (text.trim() === '') return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const shown = masked(text, secrets);
    const evidence = { statusCode: answer.status, attempts: answer.attempts, ...(shown === text ? { cause } : {}) };
    const message = `could not ${action}: the server's answer (${answer.status}) is no JSON: ${shown.slice(0, 200)}`;
    throw new SandboxError(message, evidence);
  }
}

/** A text of an answer that must be there. */
export function required(action: string, name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw new SandboxError(`could not ${action}: the server's answer has no ${name}`);
}
