/** A durable command that is followed: however often the connection is cut, every byte comes once and in order. */

import { fromBase64 } from '../../envd/base64.ts';
import {
  CommandLostError,
  ConnectionLostError,
  NotDoneError,
  NotEnoughSpaceError,
  SandboxError,
  SpoolFullError,
  TimeoutError,
} from '../../errors.ts';
import { randomHex, sleep } from '../../runtime.ts';
import type { Attached } from '../attached.ts';
import type { CommandEvent } from '../events.ts';
import { waitBefore } from '../follow.ts';
import { Frames, type Output, type Said } from './frames.ts';
import { cutBy, isPassing, type Spool, Words, type WrapperCall } from './spool.ts';

const NAMES: Record<Output, string> = { stdout: 'standard output', stderr: 'standard error' };

/** How much of a durable command's outputs is known, in bytes: where to go on reading. */
export interface Offsets {
  /** Of its standard output. */
  readonly stdout: number;
  /** Of its standard error. */
  readonly stderr: number;
}

/** What starts the command: the wrapper's arguments after those of the reader. */
export interface Launch {
  readonly args: readonly string[];
  readonly surroundings: NonNullable<WrapperCall['surroundings']>;
}

/** Reads the spool of a command, session after session. */
export class Following {
  private readonly reader = randomHex(8);
  private readonly action: string;
  private readonly known: { stdout: number; stderr: number };
  private readonly queue: Said[] = [];
  private session: { attached: Attached; frames: Frames; words: Words } | undefined;
  private sessions = 0;
  /** Sessions in a row of which nothing came. */
  private inVain = 0;
  /** Whether the command may have been started. */
  private begun: boolean;

  constructor(
    private readonly spool: Spool,
    from: Offsets,
    /** Until the wrapper has answered. */
    private launch: Launch | undefined,
    private readonly signal: AbortSignal,
  ) {
    this.known = { stdout: from.stdout, stderr: from.stderr };
    this.begun = launch === undefined;
    this.action = `follow the durable command ${spool.id}`;
  }

  /** What was told of its outputs. */
  get offsets(): Offsets {
    return { ...this.known };
  }

  /** Resolves once the wrapper has answered, to how much input there is. */
  async begin(): Promise<number> {
    const close = () => this.close();
    this.signal.addEventListener('abort', close, { once: true });
    try {
      const said = await this.said();
      if (said.type !== 'hello') throw this.spool.refused(this.action, said);
      this.launch = undefined;
      this.begun = true;
      return said.input;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      this.signal.removeEventListener('abort', close);
    }
  }

  /**
   * Gives what the command does until it ends.
   *
   * @throws what ended the following where that was no exit.
   */
  async *events(): AsyncGenerator<CommandEvent, void> {
    const close = () => this.close();
    this.signal.addEventListener('abort', close, { once: true });
    try {
      for (;;) {
        const said = await this.said();
        switch (said.type) {
          case 'hello':
            break;
          case 'piece':
            this.inVain = 0;
            this.known[said.output] += said.data.length;
            yield { type: said.output, data: said.data, offset: this.known[said.output] };
            break;
          case 'more':
            this.close();
            this.inVain = 0;
            break;
          case 'from': {
            const { output, offset } = said;
            const reason =
              `${NAMES[output]} of durable command ${this.spool.id} from byte ${this.known[output]} to ${offset} made ` +
              'room for more when all who read then had taken it (spoolLimit)';
            this.close();
            this.known[output] = offset;
            yield { type: 'gap', reason };
            break;
          }
          case 'ended':
            yield this.end(said);
            return;
          case 'lost': {
            const { stdout, stderr } = this.known;
            throw new CommandLostError(
              `durable command ${this.spool.id} has vanished, and how it ended is not known; it had written ${stdout} ` +
                `and ${stderr} bytes`,
            );
          }
          default:
            throw this.spool.refused(this.action, said);
        }
      }
    } finally {
      this.signal.removeEventListener('abort', close);
      this.close();
    }
  }

  /** The next thing that the wrapper says, in this session or in another. */
  private async said(): Promise<Said> {
    for (;;) {
      const next = this.queue.shift();
      if (next !== undefined) return next;
      try {
        this.session ??= await this.open();
        const { attached, frames, words } = this.session;
        const { data, end } = await attached.next();
        if (data?.stdout !== undefined) this.queue.push(...frames.push(fromBase64(data.stdout)));
        if (data?.stderr !== undefined) words.add(data.stderr);
        // It says so before, unless somebody has killed it.
        if (end && this.queue.length === 0) throw words.failed(this.action, end.status ?? '');
      } catch (error) {
        await this.lost(error);
      }
    }
  }

  /** Has the wrapper read from where we are. */
  private async open(): Promise<{ attached: Attached; frames: Frames; words: Words }> {
    await sleep(waitBefore(this.inVain), this.signal);
    this.sessions += 1;
    const { stdout, stderr } = this.known;
    const args = [stdout, stderr, this.reader, this.sessions].map(String);
    const { launch } = this;
    const call: WrapperCall = launch
      ? { mode: 'run', args: [...args, ...launch.args], surroundings: launch.surroundings }
      : { mode: 'tail', args };
    const attached = await this.spool.start(this.action, call, this.signal);
    return { attached, frames: new Frames(), words: new Words(this.spool.options.secrets) };
  }

  private close(): void {
    this.session?.attached.close(this.signal.reason);
    this.session = undefined;
  }

  /** A session ended, and not by its own word. Throws where another would not help. */
  private async lost(error: unknown): Promise<void> {
    this.close();
    if (this.signal.aborted) throw this.signal.reason;
    const why = cutBy(this.action, error);
    if (!(why instanceof Error)) throw why;
    this.begun ||= !(why instanceof NotDoneError);
    this.inVain += 1;
    const { id, options } = this.spool;
    const passes = isPassing(why);
    if (passes && this.inVain <= options.reattachments) return;
    const { stdout, stderr } = this.known;
    const message =
      `${why.message}; nothing came of ${this.inVain} attempts in a row (reattachments); its outputs are known up to ` +
      `${stdout} and ${stderr} bytes, and attaching to ${JSON.stringify(id)} goes on from there`;
    if (!passes) {
      why.message = message;
      throw await options.envd.afterLoss(why);
    }
    const { attempts, outcome } = why as SandboxError;
    const told = this.begun ? ConnectionLostError : NotDoneError;
    throw await options.envd.afterLoss(new told(message, { attempts, outcome, cause: why }));
  }

  private end(said: Said & { type: 'ended' }): CommandEvent {
    const name = `durable command ${this.spool.id}`;
    switch (said.reason) {
      case 'own':
        return { type: 'exit', exitCode: said.code, ...(said.leftBehind ? { leftBehind: true } : {}) };
      case 'timeout':
        throw new TimeoutError(`${name} ran for longer than its timeoutMs (0 is no limit): the sandbox killed it`);
      case 'full':
        throw new SpoolFullError(
          `${name} was killed: nobody had taken its output when ${said.bound} bytes of it were kept (spoolLimit, whenFull)`,
        );
      case 'disk':
        throw new NotEnoughSpaceError(
          `${name} was killed: its output could not be kept, as the sandbox's disk is full`,
        );
      default:
        throw new SandboxError(`${name} ended for ${said.reason satisfies never}`);
    }
  }
}
