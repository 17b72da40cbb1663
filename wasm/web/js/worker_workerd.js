// Cloudflare Workers have no workers of their own.

import { BeTreeError } from "./error.js";

export { BeTreeError };

export class BeTreeWorker {
  constructor() {
    throw new BeTreeError({
      kind: "not_loaded",
      message: "Cloudflare Workers cannot begin a worker; search in a BeTree, with budget or timeout",
    });
  }
}
