/** The errors of the SDK: the official classes, and those that tell more than they can. */

import type { Outcome } from '../policy/types.ts';
import type { Attempt } from '../retry/history.ts';

/** What is known of a failure, beside its message. */
export interface Evidence {
  /** The HTTP status of the server's answer. */
  statusCode?: number | undefined;
  /** The server's `error_code`. */
  errorCode?: string | undefined;
  /** What is known of the call's last attempt. */
  outcome?: Outcome | undefined;
  /** Every attempt of the call, oldest first. */
  attempts?: readonly Attempt[] | undefined;
  /** When the server wants to be asked again, in seconds. */
  retryAfter?: number | undefined;
  /** What was caught. */
  cause?: unknown;
}

/** The root of all errors of this package's SDK. The official classes below it keep their relations to one another. */
export class OnceboxError extends Error {
  /** The HTTP status of the server's answer, where there was one. */
  statusCode?: number;
  /** The server's `error_code`, where it sent one. */
  errorCode?: string;
  /**
   * What is known of the call's last attempt; absent where nothing was tried, a stream had begun, or the last of several requests
   * was not done and an earlier one was.
   */
  outcome?: Outcome;
  /** Every attempt of the call, oldest first. */
  attempts: readonly Attempt[] = [];
  /** When the server wants to be asked again, in **seconds**, where it said so. */
  retryAfter?: number;

  constructor(message?: string, evidence: Evidence = {}) {
    super(message, 'cause' in evidence ? { cause: evidence.cause } : undefined);
    // Not `new.target.name`: bundlers shorten names.
    this.name = 'OnceboxError';
    if (evidence.statusCode !== undefined) this.statusCode = evidence.statusCode;
    if (evidence.errorCode !== undefined) this.errorCode = evidence.errorCode;
    if (evidence.outcome !== undefined) this.outcome = evidence.outcome;
    if (evidence.attempts !== undefined) this.attempts = evidence.attempts;
    if (evidence.retryAfter !== undefined) this.retryAfter = evidence.retryAfter;
  }
}

/** Any failure that has no class of its own. */
export class SandboxError extends OnceboxError {
  override name = 'SandboxError';
}

/**
 * A limit of time was met: the request's (`requestTimeoutMs`), a command's (`timeoutMs`), or the sandbox's own lifetime.
 */
export class TimeoutError extends SandboxError {
  override name = 'TimeoutError';
}

/** The sandbox does not run: it was killed, paused, or its time ran out. */
export class SandboxNotRunningError extends TimeoutError {
  override name = 'SandboxNotRunningError';
}

/** The sandbox runs, or nobody knows, and the daemon in it does not answer. */
export class SandboxUnreachableError extends TimeoutError {
  override name = 'SandboxUnreachableError';
}

/** An argument is wrong. Raised before anything is sent, or told by the server (400). */
export class InvalidArgumentError extends SandboxError {
  override name = 'InvalidArgumentError';
}

/** The sandbox's disk is full (507). */
export class NotEnoughSpaceError extends SandboxError {
  override name = 'NotEnoughSpaceError';
}

/** There is no such thing (404). */
export class NotFoundError extends SandboxError {
  override name = 'NotFoundError';
}

/** There is no such file. */
export class FileNotFoundError extends NotFoundError {
  override name = 'FileNotFoundError';
}

/** There is no such sandbox. */
export class SandboxNotFoundError extends NotFoundError {
  override name = 'SandboxNotFoundError';
}

/** The template is too old for what was asked, or wrong. */
export class TemplateError extends SandboxError {
  override name = 'TemplateError';
}

/** The server's rate limit was met (429); `retryAfter` says for how long, where the server did. */
export class RateLimitError extends SandboxError {
  override name = 'RateLimitError';
}

/** The daemon in the sandbox did not answer, so that the sandbox was not paused. */
export class GuestUnresponsiveError extends SandboxError {
  override name = 'GuestUnresponsiveError';
}

/** The API key is missing or wrong (401). */
export class AuthenticationError extends OnceboxError {
  override name = 'AuthenticationError';
}

/** Git was refused by the server it speaks to. */
export class GitAuthError extends AuthenticationError {
  override name = 'GitAuthError';
}

/** The branch has no upstream. */
export class GitUpstreamError extends SandboxError {
  override name = 'GitUpstreamError';
}

/** The service is busy (503). */
export class ServiceBusyError extends OnceboxError {
  override name = 'ServiceBusyError';
  override readonly statusCode = 503;
}

/** A template's build failed. */
export class BuildError extends OnceboxError {
  override name = 'BuildError';
}

/** The files of a template could not be sent. */
export class FileUploadError extends BuildError {
  override name = 'FileUploadError';
}

/** Any failure of volumes that has no class of its own. */
export class VolumeError extends OnceboxError {
  override name = 'VolumeError';
}

/** There is no such volume. */
export class VolumeNotFoundError extends VolumeError {
  override name = 'VolumeNotFoundError';
}

/** There is no such path in the volume. */
export class VolumePathNotFoundError extends VolumeError {
  override name = 'VolumePathNotFoundError';
}

/** Any failure of secrets that has no class of its own. */
export class SecretError extends OnceboxError {
  override name = 'SecretError';
}

/** There is no such secret. */
export class SecretNotFoundError extends SecretError {
  override name = 'SecretNotFoundError';
}

/** The request certainly had no effect: nothing of it was sent, or whoever took it refused it. It may be made again. */
export class NotDoneError extends SandboxError {
  override name = 'NotDoneError';
}

/**
 * It was sent, no whole answer came, and nobody knows what it did; or a part of it was done, and the rest was not. It is not made
 * again by itself.
 */
export class OutcomeUnknownError extends SandboxError {
  override name = 'OutcomeUnknownError';
  /** Of a create: what `resolve(intent)` settles, from any process. */
  intent?: string;
  /** Ids of what may have been made although nobody knows; empty: none was found, or it could not be looked for. */
  candidates: readonly string[] = [];
}

/** A connection was lost in the middle of an answer, and what followed could not be had either. */
export class ConnectionLostError extends SandboxError {
  override name = 'ConnectionLostError';
}

/** A download was cut, and nothing tells that the rest would be of the same file. */
export class CannotResumeError extends SandboxError {
  override name = 'CannotResumeError';
}

/** This runtime, or this server, cannot do that. The message says what can be done instead. */
export class UnsupportedError extends SandboxError {
  override name = 'UnsupportedError';
}

/** The sandbox was given up: another one was made by the same intent, and it is the one that stays. */
export class SupersededError extends SandboxError {
  override name = 'SupersededError';
}

/** The intent, or the idempotency key, was used for another request before (409). */
export class IntentMismatchError extends InvalidArgumentError {
  override name = 'IntentMismatchError';
}

/** How a command ended and what it wrote. */
export interface CommandResult {
  /** The exit code; 0 is success, 128 + n that signal n ended it where a shell says so. */
  exitCode: number;
  /** The daemon's words about how it ended, where it has any. */
  error?: string | undefined;
  /** What it wrote to its standard output; of a terminal: all output. */
  stdout: string;
  /** What it wrote to its standard error. */
  stderr: string;
}

/** A command ended with an exit code other than 0. */
export class CommandExitError extends SandboxError implements CommandResult {
  override name = 'CommandExitError';
  private readonly result: CommandResult;

  constructor(result: CommandResult) {
    const words = result.error || result.stderr.trim().slice(-2000);
    super(`the command ended with exit code ${result.exitCode}${words ? `: ${words}` : ''}`);
    this.result = result;
  }

  /** The exit code. */
  get exitCode(): number {
    return this.result.exitCode;
  }

  /** The daemon's words about how it ended, where it has any. */
  get error(): string | undefined {
    return this.result.error;
  }

  /** What it wrote to its standard output. */
  get stdout(): string {
    return this.result.stdout;
  }

  /** What it wrote to its standard error. */
  get stderr(): string {
    return this.result.stderr;
  }
}

/**
 * A command's stream was cut and attached to again, so that some of its output may be missing. What there is, and how the
 * command ended, is here.
 */
export class OutputLostError extends SandboxError implements CommandResult {
  override name = 'OutputLostError';
  readonly exitCode: number;
  readonly error: string | undefined;
  readonly stdout: string;
  readonly stderr: string;

  constructor(message: string, result: CommandResult, evidence?: Evidence) {
    super(message, evidence);
    this.exitCode = result.exitCode;
    this.error = result.error;
    this.stdout = result.stdout;
    this.stderr = result.stderr;
  }
}

/** A durable command wrote more than its spool holds, and was killed for it, as it was asked to be (`whenFull`). */
export class SpoolFullError extends SandboxError {
  override name = 'SpoolFullError';
}

/** A process ended, and how was told while nobody was attached. There is no exit code. */
export class CommandLostError extends SandboxError {
  override name = 'CommandLostError';
}
