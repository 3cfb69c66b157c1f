// A browser: whoever opened the page calls this.
import { run } from './scenarios.mjs';

globalThis.runSmoke = run;
