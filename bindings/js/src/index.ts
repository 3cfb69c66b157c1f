export { type Capabilities, capabilities, type Evidence } from './capabilities.ts';
export type { NativeOptions } from './native/fetch.ts';
export { type CarriesOutcome, carriesOutcome } from './native/protocol.ts';
export type { Runtime } from './platform/types.ts';
export * from './sdk/index.ts';
export { Sandbox as default } from './sdk/sandbox/sandbox.ts';
export { openTransport, type Transport, type TransportOptions } from './transport.ts';
