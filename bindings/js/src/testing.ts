export { type Capabilities, capabilities } from './capabilities.ts';
