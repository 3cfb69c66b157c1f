/** A sandbox. */

import { ABORTED, orAborted } from '../../retry/clock.ts';
import { Commands, startProgram } from '../commands/commands.ts';
import { ConnectionConfig, type ConnectionOpts, connectionOf } from '../config.ts';
import { MCP_PORT } from '../endpoints.ts';
import { Envd, superseded } from '../envd/envd.ts';
import { SandboxError, TemplateError } from '../errors.ts';
import { Filesystem } from '../files/filesystem.ts';
import { Git } from '../git/git.ts';
import { checkOptions } from '../options.ts';
import { Pty } from '../pty.ts';
import { secretsIn, withoutAll } from '../repeated.ts';
import { hide } from '../runtime.ts';
import { quote } from '../shell.ts';
import { sandboxId as checked } from '../validate.ts';
import { OF_CONNECT, OF_FORK, SandboxApi } from './api.ts';
import { createSandbox, type Made, OF_CREATE, resolveIntent } from './create.ts';
import type { SandboxNetworkUpdate } from './network.ts';
import { SandboxPaginator, type SnapshotPaginator } from './paginators.ts';
import { fileUrl } from './signature.ts';
import type {
  CreateSnapshotOpts,
  SandboxApiOpts,
  SandboxConnectOpts,
  SandboxForkOpts,
  SandboxInfo,
  SandboxListOpts,
  SandboxMetrics,
  SandboxMetricsOpts,
  SandboxOpts,
  SandboxPauseOpts,
  SandboxUrlOpts,
  SnapshotInfo,
  SnapshotListOpts,
} from './types.ts';
import { type Access, accessOf } from './wire.ts';

/** The sandbox of debug mode, of which no API is asked. */
const DEBUG: Access = { sandboxId: 'debug_sandbox_id', envdVersion: '99.99.99' };

/** What a sandbox is made of, beside its access. */
export type SandboxConstructorOpts = SandboxConnectOpts & {
  sandboxId: string;
  sandboxDomain?: string | undefined;
  envdVersion: string;
  envdAccessToken?: string | undefined;
  trafficAccessToken?: string | undefined;
  /** @internal What became of it since it was made. */
  fate?: Made['fate'] | undefined;
};

/**
 * A sandbox: an own machine for code, with files, commands, terminals and git.
 *
 * ```ts
 * await using sandbox = await Sandbox.create();
 * const { stdout } = await sandbox.commands.run('echo hello');
 * ```
 */
export class Sandbox extends SandboxApi {
  /** The template of `create` where none is named. */
  protected static readonly defaultTemplate: string = 'base';
  /** The template of `create` where none is named and `mcp` is given. */
  protected static readonly defaultMcpTemplate: string = 'mcp-gateway';

  /** Its files. */
  readonly files: Filesystem;
  /** Its commands. */
  readonly commands: Commands;
  /** Its terminals. */
  readonly pty: Pty;
  /** Git in it. */
  readonly git: Git;
  /** Its id. */
  readonly sandboxId: string;
  /** The domain below which its ports are. */
  readonly sandboxDomain: string;
  /** What requests to its ports carry as `e2b-traffic-access-token` where they are not public. */
  readonly trafficAccessToken?: string;

  /** How it is reached. */
  protected readonly connectionConfig: ConnectionConfig;
  /** The daemon in it. */
  protected readonly envd: Envd;
  private readonly opts: ConnectionOpts;
  private readonly fate: Made['fate'];
  private mcpToken: string | undefined;

  /** Made by `create`, `connect` and `fork`; or of what is known of a sandbox, without asking anybody. */
  constructor(opts: SandboxConstructorOpts) {
    super();
    const { sandboxId, sandboxDomain, envdVersion, envdAccessToken, trafficAccessToken, fate, ...more } = opts;
    const { timeoutMs, onResume, ...rest } = more;
    this.fate = fate;
    checkOptions(rest);
    this.opts = rest;
    this.connectionConfig = new ConnectionConfig({ ...rest, signal: undefined });
    this.sandboxId = checked(sandboxId);
    this.sandboxDomain = sandboxDomain ?? this.connectionConfig.domain;
    if (trafficAccessToken !== undefined) this.trafficAccessToken = trafficAccessToken;
    const identity = {
      config: this.connectionConfig,
      sandboxId: this.sandboxId,
      sandboxDomain: this.sandboxDomain,
      envdVersion,
      envdAccessToken,
      trafficAccessToken,
      lostTo: () => fate?.lostTo,
    };
    this.envd = new Envd(identity);
    this.files = new Filesystem(this.envd);
    this.commands = new Commands(this.envd);
    this.pty = new Pty(this.envd);
    this.git = new Git(this.commands);
    hide(this, 'opts', 'connectionConfig', 'envd', 'trafficAccessToken', 'fate');
  }

  /** Lists sandboxes, running and paused. */
  static list(opts?: SandboxListOpts): SandboxPaginator {
    return new SandboxPaginator(this.resolveOpts(opts));
  }

  /**
   * Makes a sandbox, once: where the answer is lost, what was made is looked for and taken.
   *
   * @throws AuthenticationError, RateLimitError, ServiceBusyError; OutcomeUnknownError with its `intent`, which `resolve`
   * settles.
   */
  static create<S extends typeof Sandbox>(this: S, opts?: SandboxOpts): Promise<InstanceType<S>>;
  static create<S extends typeof Sandbox>(this: S, template: string, opts?: SandboxOpts): Promise<InstanceType<S>>;
  static async create<S extends typeof Sandbox>(
    this: S,
    templateOrOpts?: string | SandboxOpts,
    more?: SandboxOpts,
  ): Promise<InstanceType<S>> {
    const given = (typeof templateOrOpts === 'string' ? more : templateOrOpts) ?? {};
    const opts: SandboxOpts = this.resolveOpts(given) ?? {};
    const config = new ConnectionConfig(opts, OF_CREATE);
    const fallback = opts.mcp === undefined ? this.defaultTemplate : this.defaultMcpTemplate;
    const template = typeof templateOrOpts === 'string' ? templateOrOpts : (opts.template ?? fallback);
    const access: Made = config.debug ? DEBUG : await createSandbox(config, template, opts);
    const sandbox = new this({ ...connectionOf(opts), ...access }) as InstanceType<S>;
    await sandbox.checkVersion();
    if (opts.mcp !== undefined) await sandbox.startMcpGateway(opts.mcp);
    return sandbox;
  }

  /**
   * Finds out what became of a create, from any process: the `intent` is told by {@link OutcomeUnknownError}, or was given.
   *
   * @returns the sandbox that carries it, the oldest of several; `undefined` where none does.
   * @throws OutcomeUnknownError where that cannot be told.
   */
  static async resolve<S extends typeof Sandbox>(
    this: S,
    intent: string,
    opts?: ConnectionOpts,
  ): Promise<InstanceType<S> | undefined> {
    const all: ConnectionOpts = this.resolveOpts(opts) ?? {};
    const found = await resolveIntent(new ConnectionConfig(all), intent);
    return found === undefined ? undefined : (new this({ ...connectionOf(all), ...found }) as InstanceType<S>);
  }

  /**
   * Connects to a sandbox, and wakes it where it is paused.
   *
   * @throws SandboxNotFoundError
   */
  static async connect<S extends typeof Sandbox>(
    this: S,
    sandboxId: string,
    opts?: SandboxConnectOpts,
  ): Promise<InstanceType<S>> {
    const all: SandboxConnectOpts = this.resolveOpts(opts) ?? {};
    const debug = new ConnectionConfig(all, OF_CONNECT).debug;
    const access = debug ? { ...DEBUG, sandboxId } : await this.connectSandbox(checked(sandboxId), all);
    return new this({ ...connectionOf(all), ...access }) as InstanceType<S>;
  }

  /**
   * Copies a running sandbox, with its files and processes.
   *
   * @returns a sandbox, or why there is none, for each copy.
   * @throws OutcomeUnknownError where the answer was lost: it is not done again by itself. Its `candidates` are the
   * sandboxes that started since.
   */
  static async fork<S extends typeof Sandbox>(
    this: S,
    sandboxId: string,
    opts?: SandboxForkOpts,
  ): Promise<Array<InstanceType<S> | Error>> {
    const all: SandboxForkOpts = this.resolveOpts(opts) ?? {};
    const copies = await this.forkSandbox(sandboxId, all);
    return copies.map(({ sandbox, error }) => {
      const action = `fork sandbox ${sandboxId}`;
      if (sandbox) return new this({ ...connectionOf(all), ...accessOf(action, sandbox) }) as InstanceType<S>;
      return new SandboxError(`could not ${action}: ${error?.message ?? 'the server gives no reason'}`, {
        statusCode: error?.code,
      });
    });
  }

  /** Wakes this sandbox where it is paused, and prolongs its life. */
  async connect(opts?: SandboxConnectOpts): Promise<this> {
    const all = this.merged(opts);
    if (!new ConnectionConfig(all, OF_CONNECT).debug) await Sandbox.connectSandbox(this.sandboxId, all);
    return this;
  }

  /**
   * Copies this sandbox: see {@link Sandbox.fork}. Where its create had to be sent twice, it is first waited until its doubles
   * are swept (`settleMs`, at most `cleanupTimeoutMs`): a fork looks like one.
   */
  async fork(opts?: SandboxForkOpts): Promise<Array<this | Error>> {
    const own = this.constructor as typeof Sandbox;
    const all = this.merged(opts);
    const { signal } = new ConnectionConfig(all, OF_FORK);
    if (this.fate && (await orAborted(this.fate.swept(), signal)) === ABORTED) throw signal?.reason;
    return (await own.fork(this.sandboxId, all)) as Array<this | Error>;
  }

  /** The host of one of its ports: `https://` before it gives an address. */
  getHost(port: number): string {
    return this.connectionConfig.getHost(this.sandboxId, port, this.sandboxDomain);
  }

  /** Whether it runs; `false` also where it is paused. */
  isRunning(opts: Pick<ConnectionOpts, 'requestTimeoutMs' | 'signal'> = {}): Promise<boolean> {
    return this.envd.isRunning(opts);
  }

  /** Sets how long it lives from now on, in **milliseconds**. */
  setTimeout(timeoutMs: number, opts?: SandboxApiOpts): Promise<void> {
    return Sandbox.setTimeout(this.sandboxId, timeoutMs, this.merged(opts));
  }

  /** Sets what it reaches, all of it. */
  updateNetwork(network: SandboxNetworkUpdate, opts?: SandboxApiOpts): Promise<void> {
    return Sandbox.updateNetwork(this.sandboxId, network, this.merged(opts));
  }

  /**
   * Kills it.
   *
   * @returns `false` where it was gone already.
   */
  async kill(opts?: SandboxApiOpts): Promise<boolean> {
    const killed = await Sandbox.kill(this.sandboxId, ConnectionConfig.mergeOpts(this.opts, opts));
    // Of two sandboxes that were made, the sweep would otherwise keep the one that nobody has.
    this.fate?.abandon();
    return killed;
  }

  /**
   * Pauses it; `connect` wakes it.
   *
   * @returns `false` where it was paused already.
   */
  pause(opts?: SandboxPauseOpts): Promise<boolean> {
    return Sandbox.pause(this.sandboxId, this.merged(opts));
  }

  /** @deprecated The same as {@link Sandbox.pause}. */
  betaPause(opts?: SandboxPauseOpts): Promise<boolean> {
    return this.pause(opts);
  }

  /** Makes a snapshot of it. */
  createSnapshot(opts?: CreateSnapshotOpts): Promise<SnapshotInfo> {
    return Sandbox.createSnapshot(this.sandboxId, this.merged(opts));
  }

  /** Lists its snapshots. */
  listSnapshots(opts?: Omit<SnapshotListOpts, 'sandboxId'>): SnapshotPaginator {
    return Sandbox.listSnapshots({ ...this.merged(opts), sandboxId: this.sandboxId });
  }

  /** Where its MCP servers are. */
  getMcpUrl(): string {
    return `https://${this.getHost(MCP_PORT)}/mcp`;
  }

  /** What requests to its MCP servers are authorised by; `undefined` where it has none. */
  async getMcpToken(): Promise<string | undefined> {
    this.mcpToken ??= (await this.files.exists('/etc/mcp-gateway/.token', { user: 'root' }))
      ? (await this.files.read('/etc/mcp-gateway/.token', { user: 'root' })).trim()
      : undefined;
    hide(this, 'mcpToken');
    return this.mcpToken;
  }

  /**
   * A URL to upload a file to, by a form, without any header.
   *
   * @param path where it is written; absent: as the form's file name says.
   */
  uploadUrl(path?: string, opts: SandboxUrlOpts = {}): Promise<string> {
    return fileUrl(this.envd.identity, 'write', path, opts);
  }

  /** A URL to download a file from, without any header. */
  downloadUrl(path: string, opts: SandboxUrlOpts = {}): Promise<string> {
    return fileUrl(this.envd.identity, 'read', path, opts);
  }

  /** Describes it. */
  getInfo(opts?: SandboxApiOpts): Promise<SandboxInfo> {
    return Sandbox.getInfo(this.sandboxId, this.merged(opts));
  }

  /** What it used, oldest first. */
  getMetrics(opts?: SandboxMetricsOpts): Promise<SandboxMetrics[]> {
    return Sandbox.getMetrics(this.sandboxId, this.merged(opts));
  }

  /** Kills it, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  /** Options of a call over this sandbox's. */
  protected merged<T extends ConnectionOpts>(opts?: T): T {
    const lostTo = this.fate?.lostTo;
    if (lostTo !== undefined) throw superseded(this.sandboxId, lostTo);
    return ConnectionConfig.mergeOpts(this.opts, opts) as T;
  }

  /** A sandbox that is too old to be spoken to is not left behind. */
  private async checkVersion(): Promise<void> {
    if (this.envd.atLeast('0.1.0')) return;
    await this.kill();
    throw new TemplateError("the template's daemon is older than 0.1.0: build it anew; the sandbox was killed");
  }

  private async startMcpGateway(mcp: Record<string, unknown>): Promise<void> {
    const token = crypto.randomUUID();
    const line = `mcp-gateway --config ${quote(JSON.stringify(mcp))}`;
    const secrets = secretsIn(mcp, token, line);
    try {
      const program = { cmd: '/bin/bash', args: ['-l', '-c', line], stdin: false };
      const envs = { GATEWAY_ACCESS_TOKEN: token };
      await (await startProgram(this.commands, { ...program, user: 'root', envs, secrets })).wait();
      this.mcpToken = token;
      hide(this, 'mcpToken');
    } catch (cause) {
      await this.kill();
      throw new SandboxError('could not start the MCP gateway; the sandbox was killed', {
        cause: withoutAll(cause, secrets),
      });
    }
  }
}
