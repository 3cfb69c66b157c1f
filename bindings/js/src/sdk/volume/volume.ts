/** Volumes: files that outlive sandboxes, and can be read and written without one. */

import { callApi, callUnless, parsed, required } from '../api/control-plane.ts';
import { failed, refused } from '../api/failure.ts';
import { ConnectionConfig, type ConnectionOpts, connectionOf, guarding } from '../config.ts';
import { query, segment } from '../endpoints.ts';
import { SandboxError, VolumeError, VolumeNotFoundError, VolumePathNotFoundError } from '../errors.ts';
import { type FileData, prepare } from '../files/data.ts';
import { type Get, readAs } from '../files/download.ts';
import { ClientFactory } from '../paginator.ts';
import { hide } from '../runtime.ts';
import type { Answer, CallBody } from '../transport/sender.ts';
import { merged, milliseconds, text, whole } from '../validate.ts';
import type {
  VolumeAndToken,
  VolumeApiOpts,
  VolumeInfo,
  VolumeMetadataOpts,
  VolumeReadOpts,
  VolumeWriteOpts,
} from './types.ts';
import { statOf, type VolumeEntryStat, VolumeFileType, type WireStat } from './wire.ts';

/** How long a file may be on its way, in milliseconds, unless it is said. */
const TRANSFER_TIMEOUT = 3_600_000;

/** What requests about its content are given besides. */
const OWN = ['depth', 'force', 'uid', 'gid', 'mode', 'format', 'streamIdleTimeoutMs'];

const CLASSES = { notFound: VolumeNotFoundError, other: VolumeError };
const PATHS = { notFound: VolumePathNotFoundError, other: VolumeError };

interface WireVolume {
  volumeID?: string;
  name?: string;
  token?: string;
  domain?: string | null;
}

interface Request {
  readonly action: string;
  readonly method: string;
  readonly kind: 'path' | 'dir' | 'file';
  readonly values: Record<string, string | number | undefined>;
  readonly body?: CallBody;
  readonly headers?: Record<string, string>;
  readonly stream?: boolean;
  readonly timeoutMs?: number | undefined;
}

/** A volume: made and found by static methods, read and written by its own. */
export class Volume extends ClientFactory {
  /** Its id. */
  readonly volumeId: string;
  /** Its name. */
  readonly name: string;
  /** What its content is reached by. */
  readonly token: string;
  /** Where its content is, where that is not the service's own domain. */
  readonly domain?: string;
  /** Whether it is on this machine. */
  readonly debug?: boolean;
  /** The proxy's URL, as it was given. */
  readonly proxy?: string;
  private readonly opts: ConnectionOpts;

  constructor(
    volumeId: string,
    name: string,
    token: string,
    domain?: string,
    debug?: boolean,
    proxy?: string,
    opts: ConnectionOpts = {},
  ) {
    super();
    this.volumeId = volumeId;
    this.name = name;
    this.token = token;
    if (domain !== undefined) this.domain = domain;
    if (debug !== undefined) this.debug = debug;
    if (proxy !== undefined) this.proxy = proxy;
    const given = { ...(debug === undefined ? {} : { debug }), ...(proxy === undefined ? {} : { proxy }) };
    this.opts = { ...opts, ...given };
    hide(this, 'token', 'opts', 'proxy');
  }

  /**
   * Makes a volume.
   *
   * @throws OutcomeUnknownError where the answer was lost: it is not made again by itself.
   */
  static async create<V extends typeof Volume>(this: V, name: string, opts?: ConnectionOpts): Promise<InstanceType<V>> {
    const all = this.resolveOpts(opts) ?? {};
    const action = `create volume ${name}`;
    const json = { name: text('name', name) };
    const request = { action, method: 'POST', path: '/volumes', json, classes: CLASSES } as const;
    return this.made(all, infoOf(action, await callApi<WireVolume>(new ConnectionConfig(all), request)));
  }

  /**
   * Connects to a volume.
   *
   * @throws VolumeNotFoundError
   */
  static async connect<V extends typeof Volume>(
    this: V,
    volumeId: string,
    opts?: ConnectionOpts,
  ): Promise<InstanceType<V>> {
    const all = this.resolveOpts(opts) ?? {};
    return this.made(all, await this.getInfo(volumeId, all));
  }

  /**
   * Describes a volume.
   *
   * @throws VolumeNotFoundError
   */
  static getInfo(volumeId: string, opts?: ConnectionOpts): Promise<VolumeAndToken>;
  static async getInfo(volumeId: string, opts?: ConnectionOpts): Promise<VolumeAndToken> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const action = `describe volume ${volumeId}`;
    const path = `/volumes/${segment(text('volumeId', volumeId))}`;
    return infoOf(action, await callApi<WireVolume>(config, { action, method: 'GET', path, classes: CLASSES }));
  }

  /** All volumes. */
  static async list(opts?: ConnectionOpts): Promise<VolumeInfo[]> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const request = { action: 'list volumes', method: 'GET', path: '/volumes', classes: CLASSES } as const;
    const volumes = (await callApi<WireVolume[] | undefined>(config, request)) ?? [];
    return volumes.map(({ volumeID, name }) => ({
      volumeId: required(request.action, 'volumeID', volumeID),
      name: name ?? '',
    }));
  }

  /**
   * Destroys a volume and all that is in it.
   *
   * @returns `false` where there is no such volume.
   */
  static async destroy(volumeId: string, opts?: ConnectionOpts): Promise<boolean> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const path = `/volumes/${segment(text('volumeId', volumeId))}`;
    return callUnless(config, 404, { action: `destroy volume ${volumeId}`, method: 'DELETE', path, classes: CLASSES });
  }

  /** Lists a directory. */
  async list(path: string, opts: VolumeApiOpts & { depth?: number | undefined } = {}): Promise<VolumeEntryStat[]> {
    const depth = opts.depth === undefined ? undefined : whole('depth', opts.depth, 1);
    const values = { path: text('path', path), depth };
    return (await this.json<WireStat[]>({ action: `list ${path}`, method: 'GET', kind: 'dir', values }, opts)).map(
      statOf,
    );
  }

  /** Makes a directory. */
  async makeDir(path: string, opts: VolumeWriteOpts & VolumeApiOpts = {}): Promise<VolumeEntryStat> {
    const values = { path: text('path', path), ...writeQuery(opts) };
    return statOf(await this.json({ action: `make directory ${path}`, method: 'POST', kind: 'dir', values }, opts));
  }

  /**
   * Describes a file or a directory. Its volume is described by {@link Volume.getInfo}.
   *
   * @throws VolumePathNotFoundError
   */
  async getInfo(path: string, opts: VolumeApiOpts = {}): Promise<VolumeEntryStat> {
    const values = { path: text('path', path) };
    return statOf(await this.json({ action: `describe ${path}`, method: 'GET', kind: 'path', values }, opts));
  }

  /** Whether there is such a file or directory. */
  async exists(path: string, opts: VolumeApiOpts = {}): Promise<boolean> {
    try {
      await this.getInfo(path, opts);
      return true;
    } catch (error) {
      if (error instanceof VolumePathNotFoundError) return false;
      throw error;
    }
  }

  /** Sets whose a file is, and its permissions. */
  async updateMetadata(path: string, metadata: VolumeMetadataOpts, opts: VolumeApiOpts = {}): Promise<VolumeEntryStat> {
    const values = { path: text('path', path) };
    const body = JSON.stringify(metadataOf(metadata));
    const headers = { 'Content-Type': 'application/json' };
    const request = { action: `change ${path}`, method: 'PATCH', kind: 'path', values, body, headers } as const;
    return statOf(await this.json(request, opts));
  }

  /**
   * Reads a file; what is cut is gone on with as of {@link Filesystem.read}.
   *
   * @throws VolumePathNotFoundError
   */
  readFile(path: string, opts?: VolumeReadOpts & { format?: 'text' | undefined }): Promise<string>;
  readFile(path: string, opts: VolumeReadOpts & { format: 'bytes' }): Promise<Uint8Array>;
  readFile(path: string, opts: VolumeReadOpts & { format: 'blob' }): Promise<Blob>;
  readFile(path: string, opts: VolumeReadOpts & { format: 'stream' }): Promise<ReadableStream<Uint8Array>>;
  async readFile(
    path: string,
    opts: VolumeReadOpts & { format?: 'text' | 'bytes' | 'blob' | 'stream' | undefined } = {},
  ): Promise<string | Uint8Array | Blob | ReadableStream<Uint8Array>> {
    const action = `read ${text('path', path)}`;
    const idle = opts.streamIdleTimeoutMs ?? opts.readIdleTimeoutMs ?? this.opts.readIdleTimeoutMs ?? 60_000;
    const idleMs = milliseconds('streamIdleTimeoutMs', idle);
    const get: Get = (headers, signal) => {
      const request = { action, method: 'GET', kind: 'file', values: { path }, headers, stream: true } as const;
      return this.send({ ...request, timeoutMs: TRANSFER_TIMEOUT }, { ...opts, signal });
    };
    return readAs(get, opts.format ?? 'text', { action, gzip: false, idleMs, signal: opts.signal ?? this.opts.signal });
  }

  /** Writes a file. Its size is compared with what the answer says. */
  async writeFile(path: string, data: FileData, opts: VolumeWriteOpts & VolumeApiOpts = {}): Promise<VolumeEntryStat> {
    const values = { path: text('path', path), ...writeQuery(opts) };
    const prepared = prepare(data);
    const request = { action: `write ${path}`, method: 'PUT', kind: 'file', values, body: prepared.body } as const;
    const headers = { 'Content-Type': 'application/octet-stream' };
    const stat = statOf(await this.json({ ...request, headers, timeoutMs: TRANSFER_TIMEOUT }, opts));
    if (stat.type === VolumeFileType.FILE && stat.size !== prepared.size()) {
      throw new VolumeError(
        `could not write ${path}: ${prepared.size()} bytes were sent and accepted, and ${stat.size} are there`,
      );
    }
    return stat;
  }

  /** Removes a file, or a directory with all that is in it. */
  async remove(path: string, opts: VolumeApiOpts = {}): Promise<void> {
    await this.send(
      { action: `remove ${path}`, method: 'DELETE', kind: 'path', values: { path: text('path', path) } },
      opts,
    );
  }

  private static made<V extends typeof Volume>(this: V, opts: ConnectionOpts, info: VolumeAndToken): InstanceType<V> {
    const { volumeId, name, token, domain } = info;
    const proxy = typeof opts.proxy === 'string' ? opts.proxy : undefined;
    // Without the call's own signal, which would end all that is done with the volume later.
    return new this(volumeId, name, token, domain, opts.debug, proxy, connectionOf(opts)) as InstanceType<V>;
  }

  private async json<T extends WireStat | WireStat[]>(request: Request, opts: VolumeApiOpts): Promise<T> {
    const secrets = guarding([opts.token ?? this.token]);
    const told = await parsed<T | undefined>(request.action, await this.send(request, opts), secrets);
    if (told === undefined) throw new SandboxError(`could not ${request.action}: the server's answer is empty`);
    return told;
  }

  private async send(request: Request, opts: VolumeApiOpts): Promise<Answer> {
    const { token, apiUrl, headers, ...rest } = opts;
    const config = new ConnectionConfig(
      ConnectionConfig.mergeOpts({ ...this.opts, domain: this.domain ?? this.opts.domain }, { ...rest, headers }),
      OWN,
    );
    const { action, method, kind, values, body, timeoutMs } = request;
    const base = apiUrl ?? config.volumeApiUrl ?? `https://api.${config.domain}`;
    let answer: Answer;
    try {
      answer = await config.sender.send({
        plane: 'volume_content',
        method,
        base: base.replace(/\/+$/, ''),
        path: `/volumecontent/${segment(this.volumeId)}/${kind}${query(values)}`,
        headers: merged(config.userAgent, config.requestHeaders, config.headers, request.headers, {
          Authorization: `Bearer ${token ?? this.token}`,
        }),
        body,
        read: request.stream ? 'stream' : 'whole',
        requestTimeoutMs:
          opts.requestTimeoutMs === undefined && timeoutMs !== undefined ? timeoutMs : config.requestTimeoutMs,
        policy: config.policy,
        log: config.log,
        signal: config.signal,
      });
    } catch (error) {
      throw failed(action, error, config.signal);
    }
    if (answer.status >= 200 && answer.status <= 299) return answer;
    throw await refused(action, answer, PATHS, [...config.secrets, ...guarding([token ?? this.token])]);
  }
}

function infoOf(action: string, wire: WireVolume): VolumeAndToken {
  const info: VolumeAndToken = {
    volumeId: required(action, 'volumeID', wire?.volumeID),
    name: wire.name ?? '',
    token: required(action, 'token', wire.token),
  };
  if (wire.domain) info.domain = wire.domain;
  return info;
}

function metadataOf(metadata: VolumeMetadataOpts): Record<string, number> {
  const given: Record<string, number> = {};
  for (const name of ['uid', 'gid', 'mode'] as const) {
    if (metadata[name] !== undefined)
      given[name] = whole(name, metadata[name], 0, name === 'mode' ? 0o7777 : 2 ** 32 - 1);
  }
  return given;
}

function writeQuery(opts: VolumeWriteOpts): Record<string, string | number | undefined> {
  return { ...metadataOf(opts), force: opts.force === undefined ? undefined : String(opts.force) };
}
