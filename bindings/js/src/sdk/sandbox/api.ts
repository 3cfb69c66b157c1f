/** What can be asked about sandboxes by their ids. */

import { callApi, callUnless } from '../api/control-plane.ts';
import { ConnectionConfig } from '../config.ts';
import { query, segment } from '../endpoints.ts';
import { InvalidArgumentError, NotFoundError, SandboxNotFoundError } from '../errors.ts';
import { ClientFactory } from '../paginator.ts';
import { ofNetwork, secretsIn } from '../repeated.ts';
import { sandboxId as checked, seconds, text, whole } from '../validate.ts';
import { withNewSandboxes, withNewSnapshots } from './candidates.ts';
import { defined, type SandboxNetworkUpdate, updateBody } from './network.ts';
import { createsOf } from './once.ts';
import { SnapshotPaginator } from './paginators.ts';
import type {
  CreateSnapshotOpts,
  SandboxApiOpts,
  SandboxConnectOpts,
  SandboxForkOpts,
  SandboxInfo,
  SandboxMetrics,
  SandboxMetricsOpts,
  SandboxPauseOpts,
  SnapshotInfo,
  SnapshotListOpts,
} from './types.ts';
import {
  type Access,
  accessOf,
  infoOf,
  metricOf,
  snapshotOf,
  type WireInfo,
  type WireMetric,
  type WireSandbox,
  type WireSnapshot,
} from './wire.ts';

/** What `fork` is given besides. */
export const OF_FORK = ['timeoutMs', 'count'] as const satisfies readonly (keyof SandboxForkOpts)[];

/** What `connect` is given besides. */
export const OF_CONNECT = ['timeoutMs', 'onResume'] as const satisfies readonly (keyof SandboxConnectOpts)[];

const MISSING = { notFound: SandboxNotFoundError };

/** Static methods of `Sandbox` that take a sandbox's id. */
export class SandboxApi extends ClientFactory {
  /**
   * Kills a sandbox.
   *
   * @returns `false` where there is no such sandbox.
   */
  static async kill(sandboxId: string, opts?: SandboxApiOpts): Promise<boolean> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const path = pathOf(sandboxId);
    if (config.debug) return true;
    return callUnless(config, 404, { action: `kill sandbox ${sandboxId}`, method: 'DELETE', path, classes: MISSING });
  }

  /**
   * Describes a sandbox.
   *
   * @throws SandboxNotFoundError
   */
  static async getInfo(sandboxId: string, opts?: SandboxApiOpts): Promise<SandboxInfo> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const request = { action: `describe sandbox ${sandboxId}`, path: pathOf(sandboxId), classes: MISSING };
    return infoOf(await callApi<WireInfo>(config, { ...request, method: 'GET' }));
  }

  /** @deprecated The same as {@link SandboxApi.getInfo}. */
  static getFullInfo(sandboxId: string, opts?: SandboxApiOpts): Promise<SandboxInfo> {
    return this.getInfo(sandboxId, opts);
  }

  /** What a sandbox used, oldest first. */
  static async getMetrics(sandboxId: string, opts: SandboxMetricsOpts = {}): Promise<SandboxMetrics[]> {
    const { start, end, ...rest } = opts;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['start', 'end']);
    const values = { start: unixSeconds('start', start), end: unixSeconds('end', end) };
    const path = `${pathOf(sandboxId)}/metrics${query(values)}`;
    const request = {
      action: `read the metrics of sandbox ${sandboxId}`,
      method: 'GET',
      path,
      classes: MISSING,
    } as const;
    return ((await callApi<WireMetric[] | undefined>(config, request)) ?? []).map(metricOf);
  }

  /**
   * Sets how long a sandbox lives from now on, in **milliseconds**, rounded up to seconds; longer or shorter than before.
   *
   * @throws SandboxNotFoundError
   */
  static async setTimeout(sandboxId: string, timeoutMs: number, opts?: SandboxApiOpts): Promise<void> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const json = { timeout: seconds('timeoutMs', timeoutMs) };
    if (config.debug) return;
    const path = `${pathOf(sandboxId)}/timeout`;
    await callApi(config, {
      action: `set the timeout of sandbox ${sandboxId}`,
      method: 'POST',
      path,
      json,
      classes: MISSING,
    });
  }

  /** Sets what a running sandbox reaches, all of it: what is left out is cleared. */
  static async updateNetwork(sandboxId: string, network: SandboxNetworkUpdate, opts?: SandboxApiOpts): Promise<void> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const json = updateBody(network);
    const path = `${pathOf(sandboxId)}/network`;
    await callApi(config, {
      action: `set the network of sandbox ${sandboxId}`,
      method: 'PUT',
      path,
      json,
      classes: MISSING,
      secrets: secretsIn(ofNetwork(json)),
    });
  }

  /**
   * Pauses a sandbox; `connect` wakes it.
   *
   * @returns `false` where it was paused already, or was just being paused or woken.
   * @throws SandboxNotFoundError
   */
  static async pause(sandboxId: string, opts: SandboxPauseOpts = {}): Promise<boolean> {
    const { keepMemory, ...rest } = opts;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['keepMemory']);
    const json = keepMemory === undefined ? {} : { memory: keepMemory };
    const path = `${pathOf(sandboxId)}/pause`;
    return callUnless(config, 409, {
      action: `pause sandbox ${sandboxId}`,
      method: 'POST',
      path,
      json,
      classes: MISSING,
    });
  }

  /** @deprecated The same as {@link SandboxApi.pause}. */
  static betaPause(sandboxId: string, opts?: SandboxPauseOpts): Promise<boolean> {
    return this.pause(sandboxId, opts);
  }

  /**
   * Makes a snapshot, by whose id sandboxes can be created.
   *
   * @throws OutcomeUnknownError where the answer was lost: it is not made again by itself. Its `candidates` are the
   * snapshots of that name; where none was given, those of the sandbox that were not there before, for which they are listed
   * first.
   */
  static async createSnapshot(sandboxId: string, opts: CreateSnapshotOpts = {}): Promise<SnapshotInfo> {
    const { name, ...rest } = opts;
    const config = new ConnectionConfig(this.resolveOpts(rest), ['name']);
    const json = name === undefined ? {} : { name: text('name', name) };
    const path = `${pathOf(sandboxId)}/snapshots`;
    const action = `make a snapshot of sandbox ${sandboxId}`;
    const make = () => callApi<WireSnapshot>(config, { action, method: 'POST', path, json, classes: MISSING });
    return snapshotOf(await withNewSnapshots(this.resolveOpts(rest) ?? {}, sandboxId, name, make));
  }

  /** Lists snapshots. */
  static listSnapshots(opts?: SnapshotListOpts): SnapshotPaginator {
    return new SnapshotPaginator(this.resolveOpts(opts));
  }

  /**
   * Deletes a snapshot.
   *
   * @returns `false` where there is no such snapshot.
   */
  static async deleteSnapshot(snapshotId: string, opts?: SandboxApiOpts): Promise<boolean> {
    const config = new ConnectionConfig(this.resolveOpts(opts));
    const path = `/templates/${segment(text('snapshotId', snapshotId))}`;
    const request = { action: `delete snapshot ${snapshotId}`, method: 'DELETE', path } as const;
    return callUnless(config, 404, { ...request, classes: { notFound: NotFoundError } });
  }

  /** Wakes a sandbox where it is paused, and gives what is needed to speak to it. */
  protected static async connectSandbox(sandboxId: string, opts: SandboxConnectOpts = {}): Promise<Access> {
    const { timeoutMs, onResume, ...rest } = opts;
    const config = new ConnectionConfig(rest, OF_CONNECT);
    if (onResume !== undefined && onResume !== 'restore' && onResume !== 'reboot') {
      throw new InvalidArgumentError(`onResume: ${JSON.stringify(onResume)} is neither restore nor reboot`);
    }
    const json = defined({
      timeout: timeoutMs === undefined ? undefined : seconds('timeoutMs', timeoutMs),
      memory: onResume === 'reboot' ? false : undefined,
    });
    const action = `connect to sandbox ${sandboxId}`;
    const v1 = createsOf(config).speaksV1;
    // v1 wants to be told how long.
    if (v1) json.timeout ??= 300;
    const path = `${v1 ? '' : '/v2'}${pathOf(sandboxId)}/connect`;
    return accessOf(
      action,
      await callApi<WireSandbox>(config, { action, method: 'POST', path, json, classes: MISSING }),
    );
  }

  /** Copies a sandbox. One copy may fail while others are made. */
  protected static async forkSandbox(sandboxId: string, opts: SandboxForkOpts = {}): Promise<WireFork[]> {
    const { timeoutMs, count, ...rest } = opts;
    const config = new ConnectionConfig(rest, OF_FORK);
    const json = defined({
      timeout: timeoutMs === undefined ? undefined : seconds('timeoutMs', timeoutMs),
      count: count === undefined ? undefined : whole('count', count, 1, 20),
    });
    const action = `fork sandbox ${sandboxId}`;
    const path = `${pathOf(sandboxId)}/fork`;
    const fork = () =>
      callApi<WireFork[] | undefined>(config, { action, method: 'POST', path, json, classes: MISSING });
    return (await withNewSandboxes(rest, sandboxId, fork)) ?? [];
  }
}

/** One copy, or why there is none. */
export interface WireFork {
  sandbox?: WireSandbox;
  error?: { code?: number; message?: string };
}

function pathOf(sandboxId: string): string {
  return `/sandboxes/${segment(checked(sandboxId))}`;
}

function unixSeconds(option: string, at: Date | undefined): number | undefined {
  if (at === undefined) return undefined;
  const ms = at.getTime();
  if (Number.isNaN(ms)) throw new InvalidArgumentError(`${option}: it is no time`);
  return Math.floor(ms / 1000);
}
