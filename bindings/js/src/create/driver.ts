/** Does what the create machine says, one action at a time. */

import type { CreateAction, CreateInput, ListedSandbox, ServerMemory } from '../policy/create-types.ts';
import type { CreateMachine, Engine } from '../policy/engine.ts';
import type { LedgerState, Purpose } from '../policy/types.ts';
import type { Caller, OperationCall, SingleAttempt } from '../retry/caller.ts';
import { ABORTED, orAborted } from '../retry/clock.ts';
import type { Attempt } from '../retry/history.ts';
import type { Subject, Telling } from '../retry/log.ts';
import type { Origin } from '../retry/origins.ts';
import { CreateNotDone, CreateUnknown, type LastAnswer } from './errors.ts';
import type { Loss } from './losses.ts';
import { answerOf, failureOf, isSuccess, listedIn, MAX_PAGES, type SandboxJson, sandboxIn, type Wire } from './wire.ts';

/** What became of the sandbox that a caller got. */
export class Fate {
  /** The sandbox of the same intent that stays in its place: this one was a double, and is killed. */
  lostTo: string | undefined;
  private readonly unwanted = new AbortController();
  private over: Promise<void> = Promise.resolve();

  /** What its create does goes on until then: doubles are swept, and one of them looks like a copy of the sandbox. */
  goesOn(over: Promise<void>): void {
    this.over = over;
  }

  /** Comes back when nothing is swept any more: from then on a copy, which copies the tag, is no double. */
  swept(): Promise<void> {
    return this.over;
  }

  /** Nobody wants the sandbox any more, and none in its place: its handle killed it, or the call was given up. */
  abandon(): void {
    this.unwanted.abort();
  }

  /** Aborts when it is abandoned. */
  get abandoned(): AbortSignal {
    return this.unwanted.signal;
  }
}

/** A sandbox, and how it was got. */
export interface Created {
  /** As the server answered. */
  readonly sandbox: SandboxJson;
  readonly intent: string;
  readonly how: 'acknowledged' | 'adopted';
  readonly attempts: readonly Attempt[];
  readonly fate: Fate;
}

/** What is left when a create has come to its very end. */
export interface Leftover {
  readonly intent: string;
  /** Sandboxes that were seen and may live on. */
  readonly sandboxes: readonly string[];
  /** Whether there may be more than those. */
  readonly maybeMore: boolean;
}

/** What a driver is made of. */
export interface Drive {
  readonly caller: Caller;
  readonly engine: Engine;
  readonly machine: CreateMachine;
  readonly wire: Wire;
  readonly origin: Origin;
  readonly intent: string;
  /** On the caller's clock, in milliseconds. */
  readonly began: number;
  /** In seconds; undefined: none. */
  readonly deadline: number | undefined;
  readonly cleanupTimeout: number;
  /** In milliseconds; undefined: the caller's. */
  readonly attemptTimeoutMs: number | undefined;
  readonly fate: Fate;
  readonly telling: Telling;
  readonly loss: Loss;
  readonly remember: (memory: ServerMemory) => void;
  /** The call ended: with a sandbox, with none since none carries a resolved intent, or with an error. */
  readonly publish: (end: Created | undefined | Error) => void;
}

/** Carries one create, or one `resolve`, to its very end. */
export class Driver {
  private readonly drive: Drive;
  /** When the call ended; from then on the cleanup's bound holds. */
  private endedAt: number | undefined;
  private abandoned = false;
  private sends = 0;
  private listVersion: 'v1' | 'v2' = 'v2';
  private answer: LastAnswer | undefined;
  private made: SandboxJson | undefined;
  /** Requests whose attempts the log has still to be told of. */
  private untold: Subject[] = [];
  private told = 0;

  constructor(drive: Drive) {
    this.drive = drive;
  }

  /** Runs to the end, which is after the caller has the result: doubles are swept, and what nobody wants is killed. */
  async run(): Promise<Leftover | undefined> {
    try {
      return await this.toTheEnd();
    } catch (error) {
      this.keepLoss();
      throw error;
    }
  }

  private async toTheEnd(): Promise<Leftover | undefined> {
    const { machine, origin, remember } = this.drive;
    let input: CreateInput = { kind: 'continue' };
    for (;;) {
      const { action } = machine.step(input, this.turn(), origin.budget);
      const { server, ledger } = machine.state();
      remember(server);
      this.tell(ledger.records);
      if (action.kind === 'finished') return this.left(action.left, action.certain);
      input = this.ended(action) ?? (await this.carryOut(action));
    }
  }

  /** Whether the action is an end or news of one, which ask for nothing but to go on. */
  private ended(action: CreateAction): CreateInput | undefined {
    const { fate, intent, loss } = this.drive;
    // First: whoever has the result may ask again at once.
    if (action.kind === 'unknown') this.keepLoss();
    if (action.kind === 'done' || action.kind === 'not_done') loss.forget();
    switch (action.kind) {
      case 'done':
        this.publish(this.done(action));
        break;
      case 'not_done':
        this.publish(
          action.reason === 'absent'
            ? undefined
            : new CreateNotDone({ ...action, intent, answer: this.answer }, this.history()),
        );
        break;
      case 'unknown':
        this.publish(new CreateUnknown(action, this.history()));
        break;
      case 'superseded':
        fate.lostTo = action.by;
        return { kind: 'continue' };
      default:
        return undefined;
    }
    this.endedAt ??= this.elapsed();
    return { kind: 'continue' };
  }

  /** For later calls with the intent: what was lost now may still have its effect. */
  private keepLoss(): void {
    const lostFor = this.drive.machine.lostFor(this.elapsed());
    if (lostFor !== undefined) this.drive.loss.keep(lostFor * 1000);
  }

  /** Its caller has the result, and its log the end. */
  private publish(end: Created | undefined | Error): void {
    const { publish, telling, fate } = this.drive;
    const seconds = this.elapsed();
    if (end instanceof Error) telling.failed(end, fate.abandoned.aborted, seconds);
    else telling.answered(this.lastStatus(), this.history(), seconds);
    publish(end);
  }

  private lastStatus(): number {
    const outcome = this.history().findLast(({ outcome }) => outcome.kind === 'responded')?.outcome;
    return outcome?.kind === 'responded' ? outcome.status : 0;
  }

  /** The log, of what is new in the history. */
  private tell(records: LedgerState['records']): void {
    const { telling } = this.drive;
    for (const { connection: _, ...record } of records.slice(this.told)) {
      this.told += 1;
      telling.attempt({ number: this.told, ...record }, this.untold.shift());
    }
    // One that was given up on the way is in no history.
    this.untold = [];
  }

  private done(action: CreateAction & { kind: 'done' }): Created | Error {
    const { intent, fate } = this.drive;
    const sandbox = this.made;
    if (sandbox?.sandboxID !== action.id) return new Error(`sandbox ${action.id} was not described`);
    return { sandbox, intent, how: action.how, attempts: this.history(), fate };
  }

  /** One action, or the caller going away. What a sweep asks for is waited for: it has to know what it killed. */
  private async carryOut(action: CreateAction): Promise<CreateInput> {
    if (this.abandoned || (this.endedAt !== undefined && action.kind !== 'wait'))
      return this.execute(action, undefined);
    const gone = this.drive.fate.abandoned;
    const input = await orAborted(this.execute(action, gone), gone);
    if (input !== ABORTED && !gone.aborted) return input;
    this.abandoned = true;
    return { kind: 'abandoned', sent: action.kind === 'send' };
  }

  private async execute(action: CreateAction, signal: AbortSignal | undefined): Promise<CreateInput> {
    const { wire, engine } = this.drive;
    switch (action.kind) {
      case 'send': {
        this.sends += 1;
        const made = await this.attempt(wire.send(action.version, action.key), this.sends, signal);
        this.made = sandboxIn(made) ?? this.made;
        const { response, body } = made;
        this.answer = response && !isSuccess(made) ? { response, body } : undefined;
        return { kind: 'answered', ...answerOf(made, engine) };
      }
      case 'wait':
        await this.waitUntil(action.until, signal);
        return { kind: 'continue' };
      case 'probe': {
        const { status, date } = failureOf(await this.recorded('look_up', wire.probe(), signal), engine);
        return { kind: 'probed', status, date };
      }
      case 'look_up':
        this.listVersion = action.version;
        return this.lookUp(action.version, signal);
      case 'adopt': {
        const made = await this.recorded('look_up', wire.adopt(this.listVersion, action.id), signal);
        this.made = sandboxIn(made);
        const failure = failureOf(made, engine);
        if (this.made !== undefined) return { kind: 'adopted' };
        return failure.status === 404 ? { kind: 'adopt_gone' } : { kind: 'adopt_failed', ...failure };
      }
      case 'kill':
        return this.kill(action.ids);
      default:
        return { kind: 'continue' };
    }
  }

  private async lookUp(version: 'v1' | 'v2', signal: AbortSignal | undefined): Promise<CreateInput> {
    const { wire, engine } = this.drive;
    const sandboxes: ListedSandbox[] = [];
    let date: number | undefined;
    let token = '';
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const made = await this.recorded('look_up', wire.page(version, token), signal);
      const failure = failureOf(made, engine);
      const listed = listedIn(made);
      if (listed === undefined) {
        // What earlier pages held still counts.
        if (page === 0) return { kind: 'list_failed', ...failure };
        break;
      }
      date = failure.date;
      sandboxes.push(...listed);
      token = made.response?.headers.get('x-next-token') ?? '';
      if (token === '') return { kind: 'listed', complete: true, sandboxes, date };
    }
    return { kind: 'listed', complete: false, sandboxes, date };
  }

  private async kill(ids: readonly string[]): Promise<CreateInput> {
    const { wire, engine } = this.drive;
    const left: string[] = [];
    let retryAfter: number | undefined;
    for (const id of ids) {
      const made = await this.recorded('kill', wire.kill(id), undefined);
      const failure = failureOf(made, engine);
      if (!isSuccess(made) && failure.status !== 404) left.push(id);
      if (failure.retryAfter !== undefined) retryAfter = Math.max(retryAfter ?? 0, failure.retryAfter);
    }
    return { kind: 'killed', left, retryAfter };
  }

  private async waitUntil(until: number, signal: AbortSignal | undefined): Promise<void> {
    const { caller, began } = this.drive;
    const ms = began + until * 1000 - caller.now();
    if (ms > 0) await caller.sleep(ms, signal);
  }

  /** Makes one attempt within what is left to the call, or to what goes on after it. */
  private attempt(call: OperationCall, number: number, signal: AbortSignal | undefined): Promise<SingleAttempt> {
    const { caller, began, deadline, cleanupTimeout, attemptTimeoutMs } = this.drive;
    const until = this.endedAt === undefined ? deadline : this.endedAt + cleanupTimeout;
    const left = until === undefined ? undefined : Math.max(0, (until - this.elapsed()) * 1000);
    this.untold.push({ method: call.operation.method, url: call.url, operation: call.operation.id });
    const options = { ...call.options, attemptTimeoutMs };
    return caller.attempt({ ...call, options, ...(signal === undefined ? {} : { signal }) }, number, began, left);
  }

  /** An attempt that is no send, written into the history. */
  private async recorded(
    purpose: Purpose,
    call: OperationCall,
    signal: AbortSignal | undefined,
  ): Promise<SingleAttempt> {
    const made = await this.attempt(call, 1, signal);
    const { outcome, started } = made;
    this.drive.machine.record(purpose, { outcome, started, failedDials: made.failedDials }, this.turn());
    return made;
  }

  private turn() {
    const { caller, origin, began } = this.drive;
    return { now: this.elapsed(), random: caller.random(), callStarted: origin.since(began) };
  }

  private elapsed(): number {
    return Math.max(0, (this.drive.caller.now() - this.drive.began) / 1000);
  }

  private history(): readonly Attempt[] {
    const { records } = this.drive.machine.state().ledger;
    return Object.freeze(records.map(({ connection: _, ...record }, index) => ({ number: index + 1, ...record })));
  }

  private left(sandboxes: readonly string[], certain: boolean): Leftover | undefined {
    if (sandboxes.length === 0 && certain) return undefined;
    return { intent: this.drive.intent, sandboxes, maybeMore: !certain };
  }
}
