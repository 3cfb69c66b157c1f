// Cloudflare's runtime: the configuration is the request's body.
import { run } from './scenarios.mjs';

export default {
  async fetch(request) {
    return Response.json(await run(await request.json()));
  },
};
