/** Lists of sandboxes and of snapshots. */

import { segment } from '../endpoints.ts';
import { InvalidArgumentError, OnceboxError } from '../errors.ts';
import { Paginator } from '../paginator.ts';
import { sandboxId, texts } from '../validate.ts';
import { createsOf } from './once.ts';
import type { SandboxApiOpts, SandboxInfo, SandboxListOpts, SnapshotInfo, SnapshotListOpts } from './types.ts';
import { infoOf, snapshotOf, type WireInfo, type WireSnapshot } from './wire.ts';

/** Sandboxes, page by page. */
export class SandboxPaginator extends Paginator<SandboxInfo, SandboxApiOpts> {
  private readonly values: Record<string, string | undefined>;

  constructor(opts: SandboxListOpts = {}) {
    const { query = {}, order, limit, nextToken, ...rest } = opts;
    super(rest, limit, nextToken, ['query', 'order', 'limit', 'nextToken']);
    if (order !== undefined && order !== 'asc' && order !== 'desc') {
      throw new InvalidArgumentError(`order: ${JSON.stringify(order)} is neither asc nor desc`);
    }
    for (const state of query.state ?? []) {
      if (state !== 'running' && state !== 'paused') {
        throw new InvalidArgumentError(`state: ${JSON.stringify(state)} is neither running nor paused`);
      }
    }
    this.values = {
      metadata: query.metadata === undefined ? undefined : metadataFilter(query.metadata),
      state: query.state === undefined || query.state.length === 0 ? undefined : query.state.join(','),
      startedAfter: query.startedAfter?.toISOString(),
      template: query.template,
      order,
    };
  }

  async nextItems(opts?: SandboxApiOpts): Promise<SandboxInfo[]> {
    const action = 'list sandboxes';
    const isFirst = this.nextToken === undefined;
    if (isFirst && createsOf(this.config(opts)).speaksV1) return this.v1(action, opts);
    try {
      return (await this.page<WireInfo>({ action, path: '/v2/sandboxes' }, this.values, opts)).map(infoOf);
    } catch (error) {
      // A server that has v1 only.
      const isMissing = error instanceof OnceboxError && (error.statusCode === 404 || error.statusCode === 405);
      if (!isFirst || !isMissing) throw error;
      return this.v1(action, opts);
    }
  }

  /** v1 has one page, of sandboxes that run, and filters by metadata alone: the rest is done here. */
  private async v1(action: string, opts?: SandboxApiOpts): Promise<SandboxInfo[]> {
    const { metadata, state, startedAfter, template, order } = this.values;
    const listed = (await this.page<WireInfo>({ action, path: '/sandboxes' }, { metadata }, opts, true)).map(infoOf);
    const after = startedAfter === undefined ? Number.NEGATIVE_INFINITY : Date.parse(startedAfter);
    const wanted = listed.filter(
      (each) =>
        (state === undefined || state.split(',').includes(each.state)) &&
        each.startedAt.getTime() > after &&
        (template === undefined || each.templateId === template || each.name === template),
    );
    const sign = order === 'asc' ? 1 : -1;
    return wanted.sort((one, other) => sign * (one.startedAt.getTime() - other.startedAt.getTime()));
  }
}

/** Snapshots, page by page. */
export class SnapshotPaginator extends Paginator<SnapshotInfo, SandboxApiOpts> {
  private readonly values: Record<string, string | undefined>;

  constructor(opts: SnapshotListOpts = {}) {
    const { sandboxId: of, name, limit, nextToken, ...rest } = opts;
    super(rest, limit, nextToken, ['sandboxId', 'name', 'limit', 'nextToken']);
    this.values = { sandboxID: of === undefined ? undefined : sandboxId(of), name };
  }

  async nextItems(opts?: SandboxApiOpts): Promise<SnapshotInfo[]> {
    const request = { action: 'list snapshots', path: '/snapshots' };
    return (await this.page<WireSnapshot>(request, this.values, opts)).map(snapshotOf);
  }
}

/** Names and values are encoded twice here, and as a whole once more in the query (protocol fact). */
export function metadataFilter(metadata: Record<string, string>): string {
  const twice = (value: string) => segment(segment(value));
  return Object.entries(texts('metadata', metadata))
    .map(([name, value]) => `${twice(name)}=${twice(value)}`)
    .join('&');
}
