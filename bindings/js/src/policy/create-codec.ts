/** The create machine's values as messages; see `codec.ts`. */

import { readReturnReason, writeOutcome, writePolicy } from './codec.ts';
import {
  API_VERSIONS,
  CREATE_MODES,
  type CreateAction,
  type CreateAnswer,
  type CreateCall,
  type CreateInput,
  type Failure,
  HOWS,
  IDEMPOTENCY_KEYS,
  KEY_EVIDENCE,
  type ListedSandbox,
  NOT_DONE_REASONS,
  type ServerMemory,
  UNKNOWN_REASONS,
} from './create-types.ts';
import type { Reader, Writer } from './message.ts';
import { CONNECTIONS } from './types.ts';

export function writeCreateCall(to: Writer, call: CreateCall): Writer {
  writePolicy(to.variant(CREATE_MODES, call.mode).text(call.intent), call.policy);
  to.time(call.requestTimeout).variant(IDEMPOTENCY_KEYS, call.idempotencyKeys);
  to.f64(call.settle).f64(call.cleanupTimeout).text(call.idempotencyKey).f64(call.began);
  to.optionalVariant(KEY_EVIDENCE, call.server.keys).optionalVariant(API_VERSIONS, call.server.version);
  return to.time(call.earlierLoss);
}

export function writeInput(to: Writer, input: CreateInput): Writer {
  switch (input.kind) {
    case 'continue':
      return to.u8(0);
    case 'answered':
      return writeAnswer(to.u8(1), input);
    case 'probed':
      return to
        .u8(2)
        .u32(input.status ?? 0)
        .time(input.date);
    case 'listed':
      to.u8(3).bool(input.complete).u32(input.sandboxes.length);
      for (const sandbox of input.sandboxes) writeListed(to, sandbox);
      return to.time(input.date);
    case 'list_failed':
      return writeFailure(to.u8(4), input);
    case 'adopted':
      return to.u8(5);
    case 'adopt_gone':
      return to.u8(6);
    case 'adopt_failed':
      return writeFailure(to.u8(7), input);
    case 'killed':
      return to.u8(8).texts(input.left).time(input.retryAfter);
    case 'abandoned':
      return to.u8(9).bool(input.sent);
  }
}

function writeAnswer(to: Writer, answer: CreateAnswer): Writer {
  to.u32(answer.connection ?? 0)
    .bool(answer.otherConnection)
    .u32(answer.failedDials ?? 0);
  writeOutcome(to, answer.outcome).bool(answer.error !== undefined);
  if (answer.error !== undefined) to.text(answer.error.errorCode).text(answer.error.message);
  return to.text(answer.sandbox).time(answer.date);
}

function writeListed(to: Writer, sandbox: ListedSandbox): Writer {
  to.text(sandbox.id).f64(sandbox.startedAt).bool(sandbox.paused);
  if (sandbox.intent === null) return to.u8(0);
  if (sandbox.intent === undefined) return to.u8(1);
  return to.u8(2).text(sandbox.intent);
}

function writeFailure(to: Writer, failure: Failure): Writer {
  return to
    .u32(failure.status ?? 0)
    .time(failure.retryAfter)
    .time(failure.date);
}

export function readServer(from: Reader): ServerMemory {
  return { keys: from.optionalVariant(KEY_EVIDENCE), version: from.optionalVariant(API_VERSIONS) };
}

function readVersion(from: Reader) {
  return from.optionalVariant(API_VERSIONS) ?? 'v2';
}

export function readAction(from: Reader): CreateAction {
  const kind = from.u8();
  switch (kind) {
    case 0:
      return {
        kind: 'send',
        number: from.u32(),
        key: from.text(),
        version: readVersion(from),
        connection: from.variant(CONNECTIONS),
      };
    case 1:
      return { kind: 'wait', until: from.f64() };
    case 2:
      return { kind: 'probe' };
    case 3:
      return { kind: 'look_up', version: readVersion(from) };
    case 4:
      return { kind: 'adopt', id: from.text(), paused: from.bool() };
    case 5:
      return { kind: 'done', id: from.text(), how: from.variant(HOWS) };
    case 6: {
      const place = from.u8();
      const reason = place === 0 ? { returned: readReturnReason(from) } : NOT_DONE_REASONS[place - 1];
      if (reason === undefined) break;
      return { kind: 'not_done', reason, status: from.u32() || undefined, retryAfter: from.time() };
    }
    case 7:
      return {
        kind: 'unknown',
        intent: from.text(),
        reason: from.variant(UNKNOWN_REASONS),
        candidate: from.optionalText(),
      };
    case 8:
      return { kind: 'superseded', lost: from.text(), by: from.text() };
    case 9:
      return { kind: 'kill', ids: from.texts() };
    case 10:
      return { kind: 'finished', left: from.texts(), certain: from.bool() };
  }
  throw new Error(`the policy module asked for action ${kind}: it is not ours`);
}
