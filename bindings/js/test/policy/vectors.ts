/** Reads the conformance vectors, which are the same for every language. */

import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, expect } from 'vitest';

const conformance = new URL('../../../../conformance/', import.meta.url);

/** All vectors of a folder, each with its file's name. */
export function load<T extends { name: string }>(folder: string, list: 'vectors' | 'cases'): [string, T][] {
  const files = readdirSync(new URL(`${folder}/`, conformance)).filter((file) => file.endsWith('.json'));
  return files.sort().flatMap((file) => {
    const text = readFileSync(new URL(`${folder}/${file}`, conformance), 'utf8');
    const vectors = (JSON.parse(text) as Record<string, T[]>)[list] ?? [];
    return vectors.map((vector): [string, T] => [`${file}: ${vector.name}`, vector]);
  });
}

/**
 * Counts the cases of a folder that came to their end, which every language must run as often as `counts.json` says. The
 * function is called at the end of each.
 */
export function tally(folder: string): () => void {
  const counts = JSON.parse(readFileSync(new URL('counts.json', conformance), 'utf8')) as Record<string, number>;
  let ran = 0;
  afterAll(() => {
    expect(ran, `cases of conformance/${folder} that were run`).toBe(counts[folder]);
  });
  return () => {
    ran += 1;
  };
}

/** A JSON object whose fields are looked at one by one. */
// biome-ignore lint/suspicious/noExplicitAny: a vector is data without a type
export type Json = any;

/** Names as TypeScript writes them. */
export function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Fails for a field that nobody reads: a vector must not be understood in part. */
export function only(value: object, ...names: string[]): void {
  for (const name of Object.keys(value)) {
    if (!names.includes(name)) throw new Error(`nobody reads the field ${name} of ${JSON.stringify(value)}`);
  }
}
