import { ALL } from '../generated/operations.ts';
import type { Permit } from '../policy/types.ts';

/** One operation of a server: a method on a path, and what happens when it is done twice. */
export interface Operation {
  /** Its id, such as `createSandbox`. */
  readonly id: string;
  /** The kind of server that offers it; `other` for one of your own. */
  readonly plane: Plane;
  readonly method: string;
  /** Its path template below the API's base, such as `/sandboxes/{sandboxID}`. */
  readonly path: string;
  /**
   * Whether it may be repeated once its outcome is unknown: it has no effect; doing it twice is doing it once, by its method or by
   * its specification; or it must not be.
   */
  readonly repeat: 'safe' | 'idempotent' | 'by_table' | 'no';
  /** Whether each call may leave one more thing behind, so that an answer of 500 is no proof that nothing was made. */
  readonly mints: boolean;
  /** Whether a server may honour an `Idempotency-Key` here. */
  readonly acceptsIdempotencyKey: boolean;
}

/** A kind of server. Each has a base URL of its own. */
export type Plane = 'control_plane' | 'volume_content' | 'envd' | 'code_interpreter' | 'other';

/** Why an operation may be repeated once its outcome is unknown; undefined where it may not. */
export function permitOf(operation: Operation): Permit | undefined {
  switch (operation.repeat) {
    case 'safe':
      return 'safe_method';
    case 'idempotent':
      return 'idempotent_method';
    case 'by_table':
      return 'operation_table';
    case 'no':
      return undefined;
  }
}

/** The permit that a method alone gives (RFC 9110 §9.2). Methods are case-sensitive. */
export function permitOfMethod(method: string): Permit | undefined {
  if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return 'safe_method';
  if (method === 'PUT' || method === 'DELETE') return 'idempotent_method';
  return undefined;
}

/** The segments below one place of a path. */
interface Node {
  readonly literals: Map<string, Node>;
  parameter: Node | undefined;
  readonly operations: Operation[];
}

/**
 * Operations, found by method and path.
 *
 * A path is the one below the API's base, without query, as it is on the wire. A template matches a whole path and nothing
 * beside it. Of several that match, the one with a literal where the others have a parameter counts, leftmost segment
 * first, and then its methods alone.
 */
export class OperationTable {
  private readonly root = node();

  constructor(operations: Iterable<Operation>) {
    for (const operation of operations) {
      const [first, ...segments] = operation.path.split('/');
      // A template that does not begin with a slash is never found.
      if (first !== '') continue;
      let at = this.root;
      for (const segment of segments) at = next(at, segment);
      at.operations.push(operation);
    }
  }

  /** The operation that a request is; undefined where none is listed. */
  find(method: string, path: string): Operation | undefined {
    if (!path.startsWith('/')) return undefined;
    return descend(this.root, path.slice(1).split('/'))?.operations.find((operation) => operation.method === method);
  }
}

/** The operations of one kind of server of the E2B protocol. */
export function e2bOperations(plane: Exclude<Plane, 'other'>): OperationTable {
  return new OperationTable(ALL.filter((operation) => operation.plane === plane));
}

function node(): Node {
  return { literals: new Map(), parameter: undefined, operations: [] };
}

function next(at: Node, segment: string): Node {
  if (segment.startsWith('{') && segment.endsWith('}')) {
    at.parameter ??= node();
    return at.parameter;
  }
  const found = at.literals.get(segment) ?? node();
  at.literals.set(segment, found);
  return found;
}

function descend(at: Node, segments: readonly string[]): Node | undefined {
  const [segment, ...rest] = segments;
  if (segment === undefined) return at.operations.length > 0 ? at : undefined;
  const literal = at.literals.get(segment);
  const found = literal && descend(literal, rest);
  if (found !== undefined) return found;
  // Dot segments never reach a server as such, so a path that has one is not what it seems.
  if (segment === '' || segment === '.' || segment === '..') return undefined;
  return at.parameter && descend(at.parameter, rest);
}
