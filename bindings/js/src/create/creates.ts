/** The creates of a client: what they learn of the server, what goes on in the background, and what it leaves. */

import { canonical } from '../canonical.ts';
import { createSandbox, killSandbox } from '../generated/operations.ts';
import type { CreateMode, IdempotencyKeys, ServerMemory } from '../policy/create-types.ts';
import { loadEngine } from '../policy/engine.ts';
import type { Caller } from '../retry/caller.ts';
import { timer } from '../retry/clock.ts';
import { type Log, Telling } from '../retry/log.ts';
import { DEFAULT_REQUEST_TIMEOUT_MS, type PolicyOptions, type TimeoutOptions, validateCall } from '../retry/options.ts';
import { Background } from './background.ts';
import { type Created, Driver, Fate, type Leftover } from './driver.ts';
import { CreateNotDone, CreateUnknown, IntentInUse } from './errors.ts';
import { Loss, Losses } from './losses.ts';
import { learn } from './memory.ts';
import { type MakeRequest, type NewSandbox, Wire } from './wire.ts';

/** How creates go about it. */
export interface CreateOptions {
  /** Whether the server honours idempotency keys. Default `auto`: not before it has shown that it does. */
  idempotencyKeys?: IdempotencyKeys;
  /** How long look-ups must stay empty, counted from the loss, before they are believed, in ms. Default 10,000. */
  settleMs?: number;
  /** The bound of what goes on after a call has ended, in ms. Default 30,000. */
  cleanupTimeoutMs?: number;
}

/** One create, or one `resolve`. */
export interface Order {
  /** 32 lower-case hex digits. Given, a sandbox that carries it is looked for first; else it is made. */
  readonly intent?: string | undefined;
  /** Only find out what became of the intent. */
  readonly resolve?: boolean | undefined;
  /** The caller's own idempotency key. It is sent as it is. */
  readonly idempotencyKey?: string | undefined;
  readonly body: NewSandbox;
  readonly signal?: AbortSignal | undefined;
  readonly options?: (PolicyOptions & TimeoutOptions) | undefined;
  /** Gets each attempt, besides the client's. */
  readonly log?: Log | undefined;
  /** Where it is waited for when its client is closed. Default: that of all who have none. */
  readonly background?: Background | undefined;
}

const INTENT = /^[0-9a-f]{32}$/;

/** A create under way. */
interface Flight {
  readonly order: string;
  readonly fate: Fate;
  readonly result: Promise<Created | undefined>;
  readonly over: Promise<void>;
  /** Those who are told what it leaves. */
  readonly owners: Set<Background>;
  waiters: number;
  /** Somebody has the result. */
  isTaken: boolean;
  /** Who asks from now on is not one of those who wait: it is over, or it has failed and is being cleared away. */
  isClosed: boolean;
}

/**
 * What creates of one process have in common, whatever each of them is sent by: the intents of those who are the same are the
 * same creates.
 */
export class Shared {
  /** Those with an intent that was given, by whose they are and their intents: calls with one intent are joined. */
  readonly flights = new Map<string, Flight>();
  /** Of intents that were minted, too: the error of a call that ended unknown names its own. */
  readonly losses = new Losses();
  /** In milliseconds. */
  readonly now: () => number;

  constructor(now: () => number) {
    this.now = now;
  }
}

/** Who waits for a flight. */
interface Waiter {
  readonly order: Order;
  /** How long that one still may, in milliseconds; undefined: as long as the flight does, which has its limit. */
  readonly leftMs: number | undefined;
}

/** Makes sandboxes once each. */
export class Creates {
  private readonly caller: Caller;
  private readonly make: MakeRequest;
  private readonly options: Required<CreateOptions>;
  private readonly timeouts: TimeoutOptions;
  private memory: ServerMemory = { keys: undefined, version: undefined };
  private readonly shared: Shared;
  private readonly who: string;
  private readonly background = new Background();

  /** Those of one `who` in what is `shared` are the same. Default: it is shared with nobody. */
  constructor(
    caller: Caller,
    make: MakeRequest,
    options: CreateOptions & TimeoutOptions = {},
    { shared, who }: { shared: Shared; who: string } = { shared: new Shared(() => caller.now()), who: '' },
  ) {
    const { requestTimeoutMs, ...own } = options;
    for (const [name, value] of Object.entries({ settleMs: own.settleMs, cleanupTimeoutMs: own.cleanupTimeoutMs })) {
      if (value !== undefined && !(typeof value === 'number' && value >= 0 && value <= 2_147_483_647_000)) {
        throw new TypeError(`${name}: ${value} is not a number of milliseconds from 0 to 2147483647000`);
      }
    }
    if (own.idempotencyKeys !== undefined && !['auto', 'honoured', 'ignored'].includes(own.idempotencyKeys)) {
      throw new TypeError(`idempotencyKeys: ${own.idempotencyKeys} is not one of auto, honoured, ignored`);
    }
    this.caller = caller;
    this.make = make;
    this.timeouts = requestTimeoutMs === undefined ? {} : { requestTimeoutMs };
    this.options = {
      idempotencyKeys: own.idempotencyKeys ?? 'auto',
      settleMs: own.settleMs ?? 10_000,
      cleanupTimeoutMs: own.cleanupTimeoutMs ?? 30_000,
    };
    this.shared = shared;
    this.who = who;
  }

  /** Whether the server is known to have v1 only. */
  get speaksV1(): boolean {
    return this.memory.version === 'v1';
  }

  /**
   * Makes a sandbox, or finds it; undefined when a resolved intent has none. Throws `CreateNotDone`, `CreateUnknown`,
   * `IntentInUse`, or the reason of the signal: what was sent by then is looked for and killed in the background.
   */
  async create(order: Order): Promise<Created | undefined> {
    validateCall(order.options ?? {});
    if (order.intent !== undefined && !INTENT.test(order.intent)) {
      throw new TypeError(`intent: ${JSON.stringify(order.intent)} is not 32 lower-case hex digits`);
    }
    order.signal?.throwIfAborted();
    const { caller } = this;
    const timeoutMs = this.timeoutOf(order);
    const began = caller.now();
    for (let mine = order; ; ) {
      const { flight, joined } = this.flightOf(mine);
      // Zero would be no limit.
      const leftMs = timeoutMs === 0 ? undefined : Math.max(1, timeoutMs - (caller.now() - began));
      // It was given up, or has failed, and is being cleared away: what this call finds must not be what that one kills.
      if (flight.isClosed || flight.fate.abandoned.aborted) await this.after(flight, { order, leftMs });
      else return await this.waitFor(flight, { order, leftMs: joined ? leftMs : undefined });
      // What was waited for counts.
      const rest = timeoutMs === 0 ? 0 : Math.max(1, timeoutMs - (caller.now() - began));
      mine = { ...order, options: { ...order.options, requestTimeoutMs: rest } };
    }
  }

  /** Waits for what those without a client do in the background, which has its own bounds, and says what it left. */
  close(): Promise<readonly Leftover[]> {
    return this.background.close();
  }

  private timeoutOf({ options }: Order): number {
    return options?.requestTimeoutMs ?? this.timeouts.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS;
  }

  private flightOf(order: Order): { flight: Flight; joined: boolean } {
    const told = canonical([order.resolve ?? false, order.idempotencyKey, order.body]);
    const { flights } = this.shared;
    const given = order.resolve || order.intent === undefined ? undefined : this.keyOf(order.intent);
    const under = given === undefined ? undefined : flights.get(given);
    if (under !== undefined) {
      if (under.order !== told)
        throw new IntentInUse('another create with the same intent and other options is under way');
      return { flight: under, joined: true };
    }
    const flight = this.launch(order, told);
    if (given !== undefined) {
      flights.set(given, flight);
      flight.over.then(() => flights.delete(given));
    }
    return { flight, joined: false };
  }

  private keyOf(intent: string): string {
    return `${this.who}\n${intent}`;
  }

  private async waitFor(flight: Flight, { order, leftMs }: Waiter): Promise<Created | undefined> {
    const { signal } = order;
    this.own(flight, order.background ?? this.background);
    flight.waiters += 1;
    let isLate = false;
    try {
      const result = await first(flight.result, signal, leftMs);
      signal?.throwIfAborted();
      if (result === LATE) {
        isLate = true;
        const { intent = '' } = order;
        throw new CreateUnknown({ reason: 'deadline', intent, candidate: undefined }, []);
      }
      flight.isTaken = true;
      return result;
    } catch (error) {
      // Whoever was told how it ended may look for what it made by the intent: that stays.
      if (!signal?.aborted && !isLate) flight.isTaken = true;
      else if (flight.waiters === 1 && !flight.isTaken) this.giveUp(flight, order);
      throw signal?.aborted ? signal.reason : error;
    } finally {
      flight.waiters -= 1;
    }
  }

  /** Nobody waits any more: what was sent is looked for and killed, and what was made is killed, too. */
  private giveUp(flight: Flight, order: Order): void {
    flight.fate.abandon();
    // Whoever only looks has made nothing.
    if (order.resolve) return;
    const kill = async (): Promise<void> => {
      await flight.over;
      const created = await flight.result.catch(() => undefined);
      if (created === undefined) return;
      const { intent, sandbox } = created;
      const call = this.make(killSandbox, { parameters: [sandbox.sandboxID] });
      const options = { ...order.options, requestTimeoutMs: this.options.cleanupTimeoutMs };
      const status = await this.caller.send({ ...call, options, log: order.log }).then(
        ({ response }) => response.status,
        () => 0,
      );
      if (status !== 404 && (status < 200 || status >= 300)) {
        leave(flight, { intent, sandboxes: [sandbox.sandboxID], maybeMore: false });
      }
    };
    const killed = kill();
    for (const owner of flight.owners) this.goOn(owner, killed);
  }

  /** Who closes that waits for the flight, and is told what it leaves. */
  private own(flight: Flight, owner: Background): void {
    if (flight.owners.has(owner)) return;
    flight.owners.add(owner);
    this.goOn(owner, flight.over);
  }

  /** A create that somebody still waits for has its own deadline; it is not waited for beyond twice the cleanup's. */
  private goOn(owner: Background, work: Promise<void>): void {
    owner.goOn(work, 2 * this.options.cleanupTimeoutMs);
  }

  /** Waits until a flight has been cleared away. */
  private async after(flight: Flight, { order, leftMs }: Waiter): Promise<void> {
    const { signal, intent = '' } = order;
    if ((await first(flight.over, signal, leftMs)) !== LATE) return;
    const reason = { returned: 'deadline_passed' } as const;
    const nothing = { status: undefined, retryAfter: undefined, answer: undefined };
    throw new CreateNotDone({ reason, intent, ...nothing }, []);
  }

  private launch(order: Order, told: string): Flight {
    const fate = new Fate();
    let publish: (end: Created | undefined | Error) => void = () => {};
    const result = new Promise<Created | undefined>((resolve, reject) => {
      publish = (end) => (end instanceof Error ? reject(end) : resolve(end));
    });
    // Whoever waits sees it; when nobody does any more, it is no news.
    const owners = new Set<Background>();
    const over = this.drive(order, fate, publish, owners).catch((error: unknown) => {
      publish(error instanceof Error ? error : new Error(String(error)));
    });
    fate.goesOn(over);
    const flight: Flight = { order: told, fate, result, over, owners, waiters: 0, isTaken: false, isClosed: false };
    const close = (): void => {
      flight.isClosed = true;
    };
    // Whoever waits sees it; when nobody does any more, it is no news. Whoever asks after a failure wants it tried again.
    result.catch(close);
    over.then(close);
    return flight;
  }

  private async drive(
    order: Order,
    fate: Fate,
    publish: (end: Created | undefined | Error) => void,
    owners: ReadonlySet<Background>,
  ): Promise<void> {
    const { caller, options, shared } = this;
    const began = caller.now();
    const intent = order.intent ?? freshIntent();
    const loss = new Loss(shared.losses, this.keyOf(intent), options.settleMs, shared.now);
    const engine = await loadEngine();
    const timeoutMs = this.timeoutOf(order);
    const deadline = timeoutMs === 0 ? undefined : timeoutMs / 1000;
    const mode: CreateMode = order.resolve ? 'resolve' : order.intent === undefined ? 'new' : 'given';
    const wire = new Wire(this.make, intent, order.body);
    const policy = await caller.policy(order.options);
    const lostForMs = loss.earlierMs;
    const machine = engine.create({
      mode,
      intent,
      policy,
      requestTimeout: deadline,
      idempotencyKeys: options.idempotencyKeys,
      settle: options.settleMs / 1000,
      cleanupTimeout: options.cleanupTimeoutMs / 1000,
      idempotencyKey: order.idempotencyKey,
      began: Date.now() / 1000,
      server: this.memory,
      earlierLoss: lostForMs === undefined ? undefined : lostForMs / 1000,
    });
    const origin = caller.origin(this.make(createSandbox, {}).url, engine);
    try {
      const cleanupTimeout = options.cleanupTimeoutMs / 1000;
      let before = this.memory;
      const remember = (learnt: ServerMemory): void => {
        this.memory = learn(this.memory, before, learnt);
        before = learnt;
      };
      const { url } = this.make(createSandbox, {});
      const telling = new Telling(order.log, { method: 'POST', url, operation: createSandbox.id });
      const driver = new Driver({
        ...{ caller, engine, machine, wire, origin, intent, began, deadline, cleanupTimeout, fate },
        ...{ remember, publish, telling, loss, attemptTimeoutMs: order.options?.attemptTimeoutMs },
      });
      const left = await driver.run();
      if (left !== undefined) leave({ owners }, left);
    } finally {
      origin.leave();
      machine.free();
    }
  }
}

function leave({ owners }: { readonly owners: ReadonlySet<Background> }, left: Leftover): void {
  for (const owner of owners) owner.leave(left);
}

/** The time was over first. */
const LATE = Symbol('late');

/** A promise, or an abort at once, or the end of a time: whatever comes of the promise then, nobody wants it. */
function first<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  leftMs: number | undefined,
): Promise<T | typeof LATE> {
  if (signal === undefined && leftMs === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => end(() => reject(signal?.reason));
    const stop = leftMs === undefined ? () => {} : timer(leftMs, () => end(() => resolve(LATE)));
    const end = (settle: () => void): void => {
      stop();
      signal?.removeEventListener('abort', onAbort);
      settle();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    promise.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    );
  });
}

/** An intent of random bytes: nobody else has it. */
function freshIntent(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
