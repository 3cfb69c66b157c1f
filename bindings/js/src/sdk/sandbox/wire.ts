/** Sandboxes in the control plane's JSON. */

import { required } from '../api/control-plane.ts';
import { SandboxError } from '../errors.ts';
import type { SandboxNetworkInfo } from './network.ts';
import type { SandboxInfo, SandboxMetrics, SnapshotInfo } from './types.ts';

/** Metadata of this package's own, which is not shown. */
const OWN_METADATA = 'oncebox.';

/** A sandbox as create, connect and fork tell it. */
export interface WireSandbox {
  templateID?: string;
  sandboxID?: string;
  clientID?: string;
  envdVersion?: string;
  envdAccessToken?: string | null;
  trafficAccessToken?: string | null;
  domain?: string | null;
}

/** What is needed to speak to a sandbox. */
export interface Access {
  readonly sandboxId: string;
  readonly sandboxDomain?: string | undefined;
  readonly envdVersion: string;
  readonly envdAccessToken?: string | undefined;
  readonly trafficAccessToken?: string | undefined;
}

/** Reads what is needed to speak to a sandbox. */
export function accessOf(action: string, wire: WireSandbox | undefined): Access {
  return {
    sandboxId: required(action, 'sandboxID', wire?.sandboxID),
    sandboxDomain: wire?.domain ?? undefined,
    envdVersion: required(action, 'envdVersion', wire?.envdVersion),
    envdAccessToken: wire?.envdAccessToken ?? undefined,
    trafficAccessToken: wire?.trafficAccessToken ?? undefined,
  };
}

/** A sandbox as lists and descriptions tell it. */
export interface WireInfo {
  sandboxID?: string;
  templateID?: string;
  alias?: string;
  metadata?: Record<string, string> | null;
  startedAt?: string;
  endAt?: string;
  state?: 'running' | 'paused';
  cpuCount?: number;
  memoryMB?: number;
  envdVersion?: string;
  allowInternetAccess?: boolean | null;
  network?: SandboxNetworkInfo | null;
  lifecycle?: { onTimeout?: 'pause' | 'kill'; autoResume?: boolean } | null;
  volumeMounts?: Array<{ name: string; path: string }> | null;
  domain?: string | null;
}

/** Reads a description. */
export function infoOf(wire: WireInfo): SandboxInfo {
  const action = 'read what the server says of a sandbox';
  const metadata = Object.entries(wire.metadata ?? {}).filter(([name]) => !name.startsWith(OWN_METADATA));
  const info: SandboxInfo = {
    sandboxId: required(action, 'sandboxID', wire.sandboxID),
    templateId: required(action, 'templateID', wire.templateID),
    metadata: Object.fromEntries(metadata),
    startedAt: date(action, 'startedAt', wire.startedAt),
    endAt: date(action, 'endAt', wire.endAt),
    state: wire.state ?? 'running',
    cpuCount: wire.cpuCount ?? 0,
    memoryMB: wire.memoryMB ?? 0,
    envdVersion: wire.envdVersion ?? '',
  };
  if (wire.alias) info.name = wire.alias;
  if (typeof wire.allowInternetAccess === 'boolean') info.allowInternetAccess = wire.allowInternetAccess;
  if (wire.network) info.network = wire.network;
  if (wire.lifecycle) {
    info.lifecycle = { onTimeout: wire.lifecycle.onTimeout ?? 'kill', autoResume: wire.lifecycle.autoResume ?? false };
  }
  if (wire.volumeMounts) info.volumeMounts = wire.volumeMounts;
  if (wire.domain) info.sandboxDomain = wire.domain;
  return info;
}

/** A moment's use as it is told. */
export interface WireMetric extends Partial<Omit<SandboxMetrics, 'timestamp'>> {
  timestamp?: string;
  timestampUnix?: number;
}

/** Reads a moment's use. */
export function metricOf(wire: WireMetric): SandboxMetrics {
  const at = wire.timestampUnix === undefined ? new Date(wire.timestamp ?? 0) : new Date(wire.timestampUnix * 1000);
  return {
    timestamp: at,
    cpuUsedPct: wire.cpuUsedPct ?? 0,
    cpuCount: wire.cpuCount ?? 0,
    memUsed: wire.memUsed ?? 0,
    memTotal: wire.memTotal ?? 0,
    memCache: wire.memCache ?? 0,
    diskUsed: wire.diskUsed ?? 0,
    diskTotal: wire.diskTotal ?? 0,
  };
}

/** A snapshot as it is told. */
export interface WireSnapshot {
  snapshotID?: string;
  names?: string[] | null;
}

/** Reads a snapshot. */
export function snapshotOf(wire: WireSnapshot): SnapshotInfo {
  const action = 'read what the server says of a snapshot';
  return { snapshotId: required(action, 'snapshotID', wire.snapshotID), names: wire.names ?? [] };
}

/** A time that must be there. */
export function date(action: string, name: string, value: string | undefined): Date {
  const at = new Date(required(action, name, value));
  if (Number.isNaN(at.getTime()))
    throw new SandboxError(`could not ${action}: ${name} ${JSON.stringify(value)} is no time`);
  return at;
}
