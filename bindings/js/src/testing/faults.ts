import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProgramOptions, start } from './program.ts';

/** Options of a server that misbehaves by a script. */
export interface FaultServerOptions extends ProgramOptions {
  /** Stands before this server, such as `http://127.0.0.1:3000`. Default: it answers by itself. */
  readonly to?: string | undefined;
  /** Speaks TLS, with a certificate made for the occasion: {@link FaultServer.ca}. */
  readonly tls?: boolean | undefined;
  /** Its port on 127.0.0.1. Default: a free one. */
  readonly port?: number | undefined;
}

/** What a server that misbehaves received and processed. */
export interface FaultReport {
  readonly totals: Readonly<Record<string, number>>;
  readonly fired: Readonly<Record<string, number>>;
  readonly connections: readonly Readonly<Record<string, unknown>>[];
  /** Those with an `x-request-id`. */
  readonly requests: readonly RequestReport[];
  readonly without_id: readonly Readonly<Record<string, unknown>>[];
}

/** What became of one request. */
export interface RequestReport {
  readonly id: string;
  readonly heads: number;
  /** How often it had its effect. */
  readonly processed: number;
  readonly tries: readonly Readonly<Record<string, unknown>>[];
}

/** A server that misbehaves, frame by frame and byte by byte. It stops with this process, at the latest. */
export class FaultServer {
  readonly #stop: () => Promise<void>;
  readonly #folder: string;
  #report: Promise<FaultReport> | undefined;

  private constructor(
    /** Its address. */
    readonly url: string,
    /** The certificate to trust, in PEM form, where it speaks TLS. */
    readonly ca: string | undefined,
    folder: string,
    stop: () => Promise<void>,
  ) {
    this.#folder = folder;
    this.#stop = stop;
  }

  /** Starts one, by the name of a script that is ready to use, or by a script of your own: `crates/faults/README.md`. */
  static async start(script: string | object, options: FaultServerOptions = {}): Promise<FaultServer> {
    const folder = await mkdtemp(join(tmpdir(), 'oncebox-faults-'));
    const [file, ca] = [join(folder, 'script.json'), join(folder, 'ca.pem')];
    try {
      if (typeof script !== 'string') await writeFile(file, JSON.stringify(script));
      const { said, stop } = await start(
        [
          'faults',
          ...(options.to === undefined ? ['serve'] : ['proxy', '--to', options.to]),
          ...(options.tls ? ['--tls', '--ca-out', ca] : []),
          ...['--port', String(options.port ?? 0), '--json', '--report', join(folder, 'report.json')],
          typeof script === 'string' ? script : file,
        ],
        options,
      );
      return new FaultServer(String(said.url), options.tls ? await readFile(ca, 'utf8') : undefined, folder, stop);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops it, and says what it received and processed. */
  stop(): Promise<FaultReport> {
    this.#report ??= this.#end();
    return this.#report;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #end(): Promise<FaultReport> {
    await this.#stop();
    try {
      return JSON.parse(await readFile(join(this.#folder, 'report.json'), 'utf8')) as FaultReport;
    } finally {
      await rm(this.#folder, { recursive: true, force: true });
    }
  }
}
