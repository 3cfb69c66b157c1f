/** Lists that come in pages. */

import { type ApiRequest, callApiWithHeaders } from './api/control-plane.ts';
import { ConnectionConfig, type ConnectionOpts } from './config.ts';
import { query } from './endpoints.ts';
import { SandboxError } from './errors.ts';
import { checkOptions } from './options.ts';
import { hide } from './runtime.ts';
import { whole } from './validate.ts';

/** A list, page by page. `for await (const item of paginator)` gives all that is left. */
export abstract class Paginator<T, O extends ConnectionOpts = ConnectionOpts> {
  /** Options of the list's requests. */
  protected readonly opts?: O;
  /** How many items a page has. */
  protected readonly limit?: number;
  private more = true;
  private token: string | undefined;

  /** @param own names of options that the list has besides. */
  constructor(opts?: O, limit?: number, nextToken?: string, own: readonly string[] = []) {
    // Before the first page is asked for.
    checkOptions(opts ?? {}, own);
    if (opts !== undefined) this.opts = opts;
    if (limit !== undefined) this.limit = whole('limit', limit, 1, 100);
    this.token = nextToken;
    hide(this, 'opts');
  }

  /** Whether there is another page. */
  get hasNext(): boolean {
    return this.more;
  }

  /** Where the next page begins, for another list. */
  get nextToken(): string | undefined {
    return this.token;
  }

  /**
   * The next page. Options of this call win over the list's.
   *
   * @throws SandboxError where there is none: ask `hasNext` before. After any other error the same page can be asked for again.
   */
  abstract nextItems(opts?: O): Promise<T[]>;

  /** All that is left, page by page. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    while (this.hasNext) yield* await this.nextItems();
  }

  /** Notes where the next page begins. */
  protected updatePagination(response: { readonly headers: Headers }): void {
    const token = response.headers.get('x-next-token') || undefined;
    this.token = token;
    this.more = token !== undefined;
  }

  /** The list's options, and over them those of a call. */
  protected config(opts?: O): ConnectionConfig {
    return new ConnectionConfig(ConnectionConfig.mergeOpts(this.opts, opts));
  }

  /** Asks for a page of a path. */
  protected async page<W>(
    request: Omit<ApiRequest, 'method'>,
    values: Record<string, string | undefined>,
    opts?: O,
    /** The list has no pages, and knows nothing of them. */
    single = false,
  ): Promise<W[]> {
    if (!this.more) throw new SandboxError('there are no more items: ask hasNext before');
    const config = this.config(opts);
    const place = single ? {} : { limit: this.limit, nextToken: this.token };
    const path = `${request.path}${query({ ...values, ...place })}`;
    const { body, headers } = await callApiWithHeaders<W[] | undefined>(config, { ...request, method: 'GET', path });
    this.updatePagination({ headers });
    return Array.isArray(body) ? body : [];
  }
}

/** Whose static methods have options bound to them by a client. */
export class ClientFactory {
  /** Options under those of each call. */
  protected static readonly boundOpts?: Omit<ConnectionOpts, 'signal'>;

  /** Options of a call over those that are bound. */
  protected static resolveOpts<T extends ConnectionOpts>(opts?: T): T | undefined {
    return ConnectionConfig.mergeOpts(ClientFactory.bound(this), opts);
  }

  private static bound(factory: typeof ClientFactory): Omit<ConnectionOpts, 'signal'> | undefined {
    return factory.boundOpts;
  }
}
