/** What tells that a sandbox of a template is ready. */

import { InvalidArgumentError } from '../errors.ts';
import { quote } from '../shell.ts';
import { milliseconds, text, whole } from '../validate.ts';

/** A command that succeeds once the sandbox is ready; it is run again and again until then. */
export class ReadyCmd {
  private readonly cmd: string;

  constructor(cmd: string) {
    this.cmd = text('readyCmd', cmd);
  }

  /** The command line. */
  getCmd(): string {
    return this.cmd;
  }
}

/** Ready once something listens on a port. Needs `ss` in the template. */
export function waitForPort(port: number): ReadyCmd {
  return new ReadyCmd(`[ -n "$(ss -Htuln sport = :${whole('port', port, 1, 65_535)})" ]`);
}

/** Ready once a URL answers with a status. Needs `curl` in the template. */
export function waitForURL(url: string, statusCode = 200): ReadyCmd {
  const status = whole('statusCode', statusCode, 100, 999);
  return new ReadyCmd(`curl -s -o /dev/null -w "%{http_code}" ${quote(text('url', url))} | grep -q "${status}"`);
}

/** Ready once a process of this name runs. Needs `pgrep` in the template. */
export function waitForProcess(processName: string): ReadyCmd {
  return new ReadyCmd(`pgrep ${quote(text('processName', processName))} > /dev/null`);
}

/** Ready once there is such a file. */
export function waitForFile(filename: string): ReadyCmd {
  return new ReadyCmd(`[ -f ${quote(text('filename', filename))} ]`);
}

/** Ready after a time, in **milliseconds**; at least a second. */
export function waitForTimeout(timeout: number): ReadyCmd {
  return new ReadyCmd(`sleep ${Math.max(1, Math.floor(milliseconds('timeout', timeout) / 1000))}`);
}

/** The command line of what was given. */
export function readyLine(ready: string | ReadyCmd): string {
  if (ready instanceof ReadyCmd) return ready.getCmd();
  if (typeof ready !== 'string') throw new InvalidArgumentError('readyCommand: it is neither a text nor a ReadyCmd');
  return text('readyCommand', ready);
}
