import { ANSWERS } from '../generated/edge.ts';
import type { Edge } from '../policy/types.ts';

/** One answer of the proxy in front of sandboxes, in place of a sandbox. */
export interface EdgeAnswer {
  readonly name: string;
  readonly status: number;
  /** What its message contains. */
  readonly message: string;
  readonly outcome: Edge;
  readonly meaning: string;
}

/**
 * Recognises an answer of the proxy by its status and the message of its body. Only answers to requests to a sandbox may
 * be read this way, never those of the control plane.
 */
export function edgeAnswer(status: number, message: string): EdgeAnswer | undefined {
  return ANSWERS.find((answer) => answer.status === status && message.includes(answer.message));
}

/** Recognises an answer of the proxy by the text of an RPC's error, where its status was lost. */
export function edgeAnswerOfRpc(message: string): EdgeAnswer | undefined {
  return ANSWERS.find((answer) => message.includes(answer.message));
}
