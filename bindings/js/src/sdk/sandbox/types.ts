/** What sandboxes are made with, and what is told of them. */

import type { ConnectionOpts } from '../config.ts';
import type { Volume } from '../volume/volume.ts';
import type { SandboxIamOpts, SandboxNetworkInfo, SandboxNetworkOpts } from './network.ts';

/** Options of calls to the control plane about a sandbox. */
export type SandboxApiOpts = Omit<ConnectionOpts, 'sandboxUrl'>;

/** What happens at the end of a sandbox's time. */
export type SandboxOnTimeout =
  | 'pause'
  | 'kill'
  | {
      action: 'pause';
      /** Whether what is in memory is kept. Default: true. */
      keepMemory?: boolean | undefined;
    }
  | { action: 'kill' };

/** How a sandbox's life ends and begins again. */
export interface SandboxLifecycle {
  /** Default of the service: `kill`. */
  onTimeout: SandboxOnTimeout;
  /** Whether a request to a paused sandbox wakes it. Needs `onTimeout: 'pause'`. Default: false. */
  autoResume?: boolean | undefined;
}

/** How a paused sandbox goes on: with what was in memory (`restore`), or by a cold start (`reboot`). */
export type SandboxOnResume = 'restore' | 'reboot';

/** MCP servers to offer in a sandbox, by name, with their settings. */
export type McpServer = Record<string, unknown>;

/** The name of an MCP server, such as `github`. */
export type McpServerName = string;

/** Options of `Sandbox.create`. */
export interface SandboxOpts extends ConnectionOpts {
  /** A template's name, `name:tag`, its id, or a snapshot's id. Default: `base`. */
  template?: string | undefined;
  /** Texts to find it by. Names that begin with `oncebox.` are this package's own. */
  metadata?: Record<string, string> | undefined;
  /** Variables of all its commands. */
  envs?: Record<string, string> | undefined;
  /** How long it lives, in **milliseconds**, rounded up to seconds. Default of the service: 300,000. */
  timeoutMs?: number | undefined;
  /** Ignored: sandboxes are always secured. */
  secure?: boolean | undefined;
  /** Whether it reaches the internet. Default of the service: true. */
  allowInternetAccess?: boolean | undefined;
  /** MCP servers to offer; the template is then `mcp-gateway` unless given. */
  mcp?: McpServer | undefined;
  /** What it reaches, and who reaches it. */
  network?: SandboxNetworkOpts | undefined;
  /** Identities it gets tokens of. */
  iam?: SandboxIamOpts | undefined;
  /** Volumes, or their names, by the path where they appear. */
  volumeMounts?: Record<string, Volume | string> | undefined;
  /** What happens at the end of its time. */
  lifecycle?: SandboxLifecycle | undefined;
  /**
   * Names this create: made once, however often it is asked for, also by other processes. 32 lower-case hex digits; one is
   * drawn unless given.
   */
  intent?: string | undefined;
  /**
   * A key of the caller's own, sent as it is and never changed; 1 to 255 lower-case letters, digits and hyphens. To use it
   * again for the same sandbox, give the same `intent`, too: it is part of the request.
   */
  idempotencyKey?: string | undefined;
}

/** Options of `connect`. */
export type SandboxConnectOpts = ConnectionOpts & {
  /** How long it is to live at least from now on, in **milliseconds**; never shortens. Default of the service: 300,000. */
  timeoutMs?: number | undefined;
  /** How it goes on where it is paused. Default: `restore`. */
  onResume?: SandboxOnResume | undefined;
};

/** Options of `fork`. */
export interface SandboxForkOpts extends ConnectionOpts {
  /** How many, from 1 to 20. Default: 1. */
  count?: number | undefined;
  /** How long they live, in **milliseconds**. Default of the service: 15,000. */
  timeoutMs?: number | undefined;
}

/** Options of `pause`. */
export interface SandboxPauseOpts extends SandboxApiOpts {
  /** Whether what is in memory is kept. Default: true. */
  keepMemory?: boolean | undefined;
}

/** Options of `getMetrics`. */
export interface SandboxMetricsOpts extends SandboxApiOpts {
  /** From when on. Default: from its start. */
  start?: Date | undefined;
  /** Until when. Default: now. */
  end?: Date | undefined;
}

/** Options of `createSnapshot`. */
export interface CreateSnapshotOpts extends SandboxApiOpts {
  /** Its name. Default: none. */
  name?: string | undefined;
}

/** Options of `listSnapshots`. */
export interface SnapshotListOpts extends Omit<SandboxApiOpts, 'signal'> {
  /** Of this sandbox only. */
  sandboxId?: string | undefined;
  /** Of this name only. */
  name?: string | undefined;
  /** How many on a page, from 1 to 100. Default of the service: 100. */
  limit?: number | undefined;
  /** Where an earlier list ended. */
  nextToken?: string | undefined;
}

/** In which order sandboxes are listed, by their start. */
export type SandboxListOrder = 'asc' | 'desc';

/** Options of `list`. */
export interface SandboxListOpts extends Omit<SandboxApiOpts, 'signal'> {
  /** Which ones. */
  query?:
    | {
        /** Those that have all of this. */
        metadata?: Record<string, string> | undefined;
        /** Those in one of these states. Default: all. */
        state?: SandboxState[] | undefined;
        /** Those that started later. */
        startedAfter?: Date | undefined;
        /** Those of this template. */
        template?: string | undefined;
      }
    | undefined;
  /** Default of the service: `desc`. */
  order?: SandboxListOrder | undefined;
  /** How many on a page, from 1 to 100. Default of the service: 100. */
  limit?: number | undefined;
  /** Where an earlier list ended. */
  nextToken?: string | undefined;
}

/** Options of signed URLs. */
export interface SandboxUrlOpts {
  /** For how many **seconds** it holds. Default: for ever. */
  useSignatureExpiration?: number | undefined;
  /** As whom. Default: the template's user. */
  user?: string | undefined;
}

/** What a sandbox does. */
export type SandboxState = 'running' | 'paused';

/** How a sandbox's life ends, as it is told. */
export interface SandboxInfoLifecycle {
  /** What happens at the end of its time. */
  onTimeout: 'pause' | 'kill';
  /** Whether a request wakes it. */
  autoResume: boolean;
}

/** A sandbox as the control plane describes it. */
export interface SandboxInfo {
  /** Its id. */
  sandboxId: string;
  /** The id of its template. */
  templateId: string;
  /** The template's name. */
  name?: string | undefined;
  /** The texts to find it by, without this package's own. */
  metadata: Record<string, string>;
  /** When it started. */
  startedAt: Date;
  /** When its time ends. */
  endAt: Date;
  /** What it does. */
  state: SandboxState;
  /** Its processors. */
  cpuCount: number;
  /** In MiB. */
  memoryMB: number;
  /** The version of the daemon in it. */
  envdVersion: string;
  /** Whether it reaches the internet, where that is told. */
  allowInternetAccess?: boolean | undefined;
  /** What it reaches, where that is told. */
  network?: SandboxNetworkInfo | undefined;
  /** How its life ends, where that is told. */
  lifecycle?: SandboxInfoLifecycle | undefined;
  /** Its volumes, and where they appear. */
  volumeMounts?: Array<{ name: string; path: string }> | undefined;
  /** The domain below which its ports are. */
  sandboxDomain?: string | undefined;
}

/** What a sandbox used at a time. */
export interface SandboxMetrics {
  /** When it was so. */
  timestamp: Date;
  /** In percent of all its processors. */
  cpuUsedPct: number;
  /** Its processors. */
  cpuCount: number;
  /** In bytes. */
  memUsed: number;
  /** In bytes. */
  memTotal: number;
  /** In bytes. */
  memCache: number;
  /** In bytes. */
  diskUsed: number;
  /** In bytes. */
  diskTotal: number;
}

/** A snapshot. */
export interface SnapshotInfo {
  /** Its id, of which sandboxes can be created. */
  snapshotId: string;
  /** Its names. */
  names: string[];
}
