/** What a sandbox reaches, and by which identity. */

import { InvalidArgumentError } from '../errors.ts';
import { text } from '../validate.ts';

/** All addresses, for `denyOut`. */
export const ALL_TRAFFIC = '0.0.0.0/0';

/** What is done to requests: headers that are set. */
export interface SandboxNetworkTransform {
  /** Headers that are set, by name. */
  headers?: Record<string, string> | undefined;
}

/** What a rule can be made from: placeholders of the sandbox's tokens. */
export interface SandboxNetworkTransformContext {
  /** Placeholders of the sandbox's tokens, by their names. */
  iam: { tokens: Record<string, string> };
}

/** Makes a transform from placeholders. */
export type SandboxNetworkTransformResolver = (ctx: SandboxNetworkTransformContext) => SandboxNetworkTransform;

/** One rule of a host. */
export interface SandboxNetworkRule {
  /** What is done to a request, or a function that says it. */
  transform?: SandboxNetworkTransform | SandboxNetworkTransformResolver | undefined;
}

/** A rule as it is told. */
export interface SandboxNetworkRuleInfo {
  /** What is done to a request. */
  transform?: SandboxNetworkTransform | undefined;
}

/** Rules by host. */
export type SandboxNetworkRules = Record<string, SandboxNetworkRule[]> | Map<string, SandboxNetworkRule[]>;

/** What a selector can be made from. */
export interface SandboxNetworkSelectorContext {
  /** All addresses. */
  allTraffic: string;
  /** The rules, by host. */
  rules: Map<string, SandboxNetworkRule[]>;
}

/** Addresses, networks and hosts, or a function that gives them. */
export type SandboxNetworkSelector = string[] | ((ctx: SandboxNetworkSelectorContext) => string[]);

/** A proxy that a sandbox's own requests go through. */
export interface SandboxEgressProxyOpts {
  /** Its host and port. */
  address: string;
  /** As whom it is used. */
  username?: string | undefined;
  /** The password of that name. */
  password?: string | undefined;
}

/** The same, as it is told. */
export interface SandboxEgressProxyInfo {
  /** Its host and port. */
  address: string;
  /** As whom it is used. */
  username?: string | undefined;
}

/** What a sandbox reaches, and who reaches it. */
export interface SandboxNetworkOpts {
  /** What it reaches although `denyOut` says otherwise. */
  allowOut?: SandboxNetworkSelector | undefined;
  /** What it does not reach. */
  denyOut?: SandboxNetworkSelector | undefined;
  /** What is done to its requests, by host. */
  rules?: SandboxNetworkRules | undefined;
  /** A proxy that its requests go through. */
  egressProxy?: SandboxEgressProxyOpts | undefined;
  /** Whether its ports are reached without its traffic token. Default of the service: true. */
  allowPublicTraffic?: boolean | undefined;
  /** What its servers see as `Host`. */
  maskRequestHost?: string | undefined;
  /** Ports whose servers speak https. */
  httpsPorts?: number[] | undefined;
}

/** What `updateNetwork` sets; what is left out is cleared. */
export interface SandboxNetworkUpdate {
  /** What it reaches although `denyOut` says otherwise. */
  allowOut?: SandboxNetworkSelector | undefined;
  /** What it does not reach. */
  denyOut?: SandboxNetworkSelector | undefined;
  /** What is done to its requests, by host. */
  rules?: SandboxNetworkRules | undefined;
  /** A proxy that its requests go through. */
  egressProxy?: SandboxEgressProxyOpts | undefined;
  /** Whether it reaches the internet. */
  allowInternetAccess?: boolean | undefined;
}

/** A sandbox's network as it is told. */
export interface SandboxNetworkInfo {
  /** What it reaches although `denyOut` says otherwise. */
  allowOut?: string[] | undefined;
  /** What it does not reach. */
  denyOut?: string[] | undefined;
  /** What is done to its requests, by host. */
  rules?: Record<string, SandboxNetworkRuleInfo[]> | undefined;
  /** The proxy that its requests go through. */
  egressProxy?: SandboxEgressProxyInfo | undefined;
  /** Whether its ports are reached without its traffic token. */
  allowPublicTraffic?: boolean | undefined;
  /** What its servers see as `Host`. */
  maskRequestHost?: string | undefined;
  /** Ports whose servers speak https. */
  httpsPorts?: number[] | undefined;
}

/** The kind of a token: `JWT-SVID`, or what the service has else. */
export type SandboxIamTokenType = 'JWT-SVID' | (string & {});

/** A token that a sandbox gets. */
export interface SandboxIamToken {
  /** Whom it is for. */
  audience: string;
  /** Its kind. */
  tokenType: SandboxIamTokenType;
}

/** Identities of a sandbox. */
export interface SandboxIamOpts {
  /** Tokens by name; at most 5. */
  tokens?: Record<string, SandboxIamToken> | undefined;
}

/** Network options as they are sent. */
export function networkBody(network: SandboxNetworkOpts, iam: SandboxIamOpts | undefined): Record<string, unknown> {
  const rules = rulesOf(network.rules);
  return defined({
    allowOut: selected('allowOut', network.allowOut, rules),
    denyOut: selected('denyOut', network.denyOut, rules),
    rules: network.rules === undefined ? undefined : rulesBody(rules, iam),
    egressProxy: network.egressProxy,
    allowPublicTraffic: network.allowPublicTraffic,
    maskRequestHost: network.maskRequestHost,
    httpsPorts: network.httpsPorts,
  });
}

/** An update as it is sent. */
export function updateBody(update: SandboxNetworkUpdate): Record<string, unknown> {
  const { allowInternetAccess, ...network } = update;
  return defined({ ...networkBody(network, undefined), allow_internet_access: allowInternetAccess });
}

/** Identities as they are sent. */
export function iamBody(iam: SandboxIamOpts): Record<string, unknown> {
  const tokens = Object.entries(iam.tokens ?? {});
  if (tokens.length > 5) throw new InvalidArgumentError(`iam: ${tokens.length} tokens, of which a sandbox can have 5`);
  for (const [name, token] of tokens) {
    text(`iam: audience of ${name}`, token.audience);
    text(`iam: tokenType of ${name}`, token.tokenType);
  }
  return { tokens: Object.fromEntries(tokens) };
}

/** Without what is undefined. */
export function defined(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function rulesOf(rules: SandboxNetworkRules | undefined): Map<string, SandboxNetworkRule[]> {
  return rules instanceof Map ? rules : new Map(Object.entries(rules ?? {}));
}

function selected(
  option: string,
  selector: SandboxNetworkSelector | undefined,
  rules: Map<string, SandboxNetworkRule[]>,
): string[] | undefined {
  if (selector === undefined) return undefined;
  const chosen = typeof selector === 'function' ? selector({ allTraffic: ALL_TRAFFIC, rules }) : selector;
  if (!Array.isArray(chosen)) throw new InvalidArgumentError(`${option}: it is no list`);
  return chosen.map((each) => text(option, each));
}

function rulesBody(rules: Map<string, SandboxNetworkRule[]>, iam: SandboxIamOpts | undefined): Record<string, unknown> {
  const names = Object.keys(iam?.tokens ?? {});
  const tokens = Object.fromEntries(names.map((name) => [name, `\${e2b.identity.tokens.${name}}`]));
  const body = ({ transform }: SandboxNetworkRule) => {
    if (transform === undefined) return {};
    return { transform: typeof transform === 'function' ? transform({ iam: { tokens } }) : transform };
  };
  return Object.fromEntries([...rules].map(([host, each]) => [host, each.map(body)]));
}
