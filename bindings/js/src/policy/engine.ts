import { platform } from '#platform';
import {
  readLedger,
  readPolicy,
  readVerdict,
  type Turn,
  writeAttempt,
  writeBody,
  writeFacts,
  writePolicy,
  writeTurn,
} from './codec.ts';
import { readAction, readServer, writeCreateCall, writeInput } from './create-codec.ts';
import { CREATE_RULES, type CreateCall, type CreateInput, type CreateStep, type ServerMemory } from './create-types.ts';
import { Reader, Writer } from './message.ts';
import {
  type CallFacts,
  type LedgerState,
  type Policy,
  type PolicyAttempt,
  PRESETS,
  type PresetName,
  PURPOSES,
  type Purpose,
  type RequestBody,
  RULES,
  type Rule,
  type Verdict,
} from './types.ts';

/** The module's exports: see `wasm/src/lib.rs`. Handles and addresses are numbers. */
interface Exports extends WebAssembly.Exports {
  readonly memory: WebAssembly.Memory;
  message(length: number): number;
  preset(number: number): number;
  read_retry_after(): number;
  read_http_date(): number;
  read_should_retry(): number;
  budget_new(tokens: number): number;
  budget_available(budget: number, now: number): number;
  budget_free(budget: number): void;
  call_new(): number;
  call_judge(call: number, budget: number): number;
  call_resend(call: number, budget: number): number;
  call_start_look_up(call: number, budget: number): number;
  call_look_up(call: number, budget: number): number;
  call_adopted(call: number, budget: number): number;
  call_ledger(call: number): number;
  call_free(call: number): void;
  create_new(): number;
  create_step(create: number, budget: number): number;
  create_record(create: number): void;
  create_state(create: number): number;
  create_lost_for(create: number, now: number): number;
  create_free(create: number): void;
}

/** Tokens in a full budget (`BUDGET_CAPACITY`). */
export const BUDGET_CAPACITY = 500;

let loading: Promise<Engine> | undefined;

/** The policy, loaded once. */
export function loadEngine(): Promise<Engine> {
  loading ??= platform
    .loadPolicy()
    .then((module) => WebAssembly.instantiate(module))
    .then((instance) => new Engine(instance.exports as Exports))
    .catch((error) => {
      // A page's Content-Security-Policy is the usual reason; what failed once may be tried again.
      loading = undefined;
      const message = `the policy module could not be loaded: ${error} (a Content-Security-Policy needs 'wasm-unsafe-eval')`;
      throw new Error(message, { cause: error });
    });
  return loading;
}

/** The policy: what to do after an attempt, decided by the same code as in every other language. */
export class Engine {
  private readonly exports: Exports;

  constructor(exports: Exports) {
    this.exports = exports;
  }

  /** A preset's policy. */
  preset(name: PresetName): Policy {
    return readPolicy(this.answer(this.exports.preset(PRESETS.indexOf(name))));
  }

  /**
   * A usable `Retry-After` in seconds from receipt.
   * @param clock the local clock in whole seconds since 1970
   */
  retryAfter(value: string | null, date: string | null, clock: number): number | undefined {
    if (value === null) return undefined;
    this.tell(
      new Writer()
        .text(value)
        .text(date ?? undefined)
        .f64(clock),
    );
    return number(this.exports.read_retry_after());
  }

  /** An HTTP date in seconds since 1970. */
  httpDate(value: string | null, clock: number): number | undefined {
    if (value === null) return undefined;
    this.tell(new Writer().text(value).f64(clock));
    return number(this.exports.read_http_date());
  }

  /** What `Should-Retry` says, where present. */
  shouldRetry(value: string | null): boolean | undefined {
    if (value === null) return undefined;
    this.tell(new Writer().text(value));
    return this.exports.read_should_retry() !== 0;
  }

  /** A retry budget with this many tokens, which calls share. Give it back with `free`. */
  budget(tokens: number = BUDGET_CAPACITY): PolicyBudget {
    return new PolicyBudget(this.exports, this.exports.budget_new(tokens));
  }

  /** One call's ledger. Give it back with `free`. */
  call(policy: Policy, facts: CallFacts): PolicyCall {
    this.tell(writeFacts(writePolicy(new Writer(), policy), facts));
    return new PolicyCall(this, this.exports, this.exports.call_new());
  }

  /** One create. Give it back with `free`. */
  create(call: CreateCall): CreateMachine {
    this.tell(writeCreateCall(new Writer(), call));
    const handle = this.exports.create_new();
    if (handle === 0) throw new TypeError(`intent: ${JSON.stringify(call.intent)} is not 32 lower-case hex digits`);
    return new CreateMachine(this, this.exports, handle);
  }

  /** Puts a message where the next export reads it. */
  tell(message: Writer): void {
    const bytes = message.finish();
    const at = this.exports.message(bytes.length);
    new Uint8Array(this.exports.memory.buffer).set(bytes, at);
  }

  /** Reads an export's answer. */
  answer(at: number): Reader {
    return new Reader(this.exports.memory.buffer, at);
  }
}

/** A token bucket, shared by calls. */
export class PolicyBudget {
  private readonly exports: Exports;
  readonly handle: number;

  constructor(exports: Exports, handle: number) {
    this.exports = exports;
    this.handle = handle;
  }

  /** Whole tokens at this time of its clock, in seconds. */
  available(now: number): number {
    return this.exports.budget_available(this.handle, now);
  }

  free(): void {
    this.exports.budget_free(this.handle);
  }
}

/** One call's ledger, and what decides about it. */
export class PolicyCall {
  private readonly engine: Engine;
  private readonly exports: Exports;
  private readonly handle: number;

  constructor(engine: Engine, exports: Exports, handle: number) {
    this.engine = engine;
    this.exports = exports;
    this.handle = handle;
  }

  /** After an attempt. */
  judge(attempt: PolicyAttempt, body: RequestBody, turn: Turn, budget?: PolicyBudget): Judged {
    this.engine.tell(writeAttempt(writeBody(writeTurn(new Writer(), turn), body), attempt));
    return this.decided(this.exports.call_judge(this.handle, budget?.handle ?? 0));
  }

  /** The reconciler wants the request sent again. */
  resend(turn: Turn, budget?: PolicyBudget): Judged {
    this.engine.tell(writeTurn(new Writer(), turn));
    return this.decided(this.exports.call_resend(this.handle, budget?.handle ?? 0));
  }

  /** The reconciler wants to begin a look-up: a verdict if something stops it. */
  startLookUp(turn: Turn): Judged {
    this.engine.tell(writeTurn(new Writer(), turn));
    return this.decided(this.exports.call_start_look_up(this.handle, 0));
  }

  /** The reconciler's own attempt ended. */
  lookUp(purpose: Purpose, attempt: PolicyAttempt, turn: Turn): Judged {
    this.engine.tell(writeAttempt(writeTurn(new Writer(), turn).variant(PURPOSES, purpose), attempt));
    return this.decided(this.exports.call_look_up(this.handle, 0));
  }

  /** The reconciler ended the call well. */
  adopted(turn: Turn, budget?: PolicyBudget): void {
    this.engine.tell(writeTurn(new Writer(), turn));
    this.exports.call_adopted(this.handle, budget?.handle ?? 0);
  }

  /** What the call has spent, and its attempts. */
  ledger(): LedgerState {
    return readLedger(this.engine.answer(this.exports.call_ledger(this.handle)));
  }

  free(): void {
    this.exports.call_free(this.handle);
  }

  private decided(at: number): Judged {
    const answer = this.engine.answer(at);
    return { verdict: readVerdict(answer), rule: RULES[answer.u8()] };
  }
}

/** A verdict, and the rule that it comes from where one decided. No verdict: nothing stops the reconciler. */
export interface Judged {
  readonly verdict: Verdict | undefined;
  readonly rule: Rule | undefined;
}

/** One create that happens once. */
export class CreateMachine {
  private readonly engine: Engine;
  private readonly exports: Exports;
  private readonly handle: number;

  constructor(engine: Engine, exports: Exports, handle: number) {
    this.engine = engine;
    this.exports = exports;
    this.handle = handle;
  }

  /** Tells what happened, and says what to do now. */
  step(input: CreateInput, turn: Turn, budget?: PolicyBudget): CreateStep {
    this.engine.tell(writeInput(writeTurn(new Writer(), turn), input));
    const answer = this.engine.answer(this.exports.create_step(this.handle, budget?.handle ?? 0));
    return { action: readAction(answer), rule: answer.variant(CREATE_RULES) };
  }

  /** Writes an attempt of a page, a fetch, a probe or a kill into the history. */
  record(purpose: Purpose, attempt: PolicyAttempt, turn: Turn): void {
    this.engine.tell(writeAttempt(writeTurn(new Writer(), turn).variant(PURPOSES, purpose), attempt));
    this.exports.create_record(this.handle);
  }

  /** How many sends may have made a sandbox, what is known of the server, and the ledger. */
  state(): { readonly sends: number; readonly server: ServerMemory; readonly ledger: LedgerState } {
    const answer = this.engine.answer(this.exports.create_state(this.handle));
    return { sends: answer.u32(), server: readServer(answer), ledger: readLedger(answer) };
  }

  /** How long ago, at this time of the call's, the last loss was whose outcome is not known. Undefined: there is none. */
  lostFor(now: number): number | undefined {
    return number(this.exports.create_lost_for(this.handle, now));
  }

  free(): void {
    this.exports.create_free(this.handle);
  }
}

function number(value: number): number | undefined {
  return Number.isNaN(value) ? undefined : value;
}
