export { type Capabilities, capabilities } from './capabilities.ts';
export type { Runtime } from './platform/types.ts';
