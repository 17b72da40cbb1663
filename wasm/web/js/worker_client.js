// An index in a worker: the calls of a `BeTree` as promises. A worker that does not answer in time is ended, and the next call begins
// another one with the same subscriptions.

import {
  checkTimeout,
  fromId,
  toConstants,
  toExpression,
  toId,
  toIds,
  toList,
  toOptions,
  toSubscriptions,
  wrong,
} from "./arguments.js";
import { BeTreeError } from "./error.js";
import { toJson } from "./event.js";
import { read } from "./image_bytes.js";
import { checkOnMismatch, toAttributes, withDefault } from "./schema.js";

const OPTIONS = ["onMismatch", "timeout", "maxMemory"];
const BOUNDS = ["budget", "timeout"];
const SEARCH = ["ids", "onMismatch", ...BOUNDS];
/** A later end than timers have means none. */
const LATEST = 2 ** 31 - 1;
/** The calls that an index ends at their time by itself, with the places of their options, and how much longer it may take then. */
const BOUNDED = { insert: 2, put: 2, insertAll: 1, search: 1, searchMany: 1, explain: 2 };
const GRACE = 1_000;

/** The bytes of an image, in place of a schema. */
class ImageBytes {
  constructor(bytes) {
    this.bytes = bytes;
  }
}

/**
 * Returns the class of an entry, whose workers `begin` makes: `begin(onMessage, onFailure)` returns `{post, end}`. A worker holds the
 * process while `post` waits for its answer, and not afterwards.
 */
export function workerOf(begin) {
  return class BeTreeWorker {
    // The message that begins a worker, without subscriptions.
    #start;
    #timeout;
    // The changes since then: subscriptions by id, and deleted ids of the image.
    #subscriptions = new Map();
    #deleted = new Set();
    #worker = null;
    // The end of the call before.
    #last = Promise.resolve();
    // Ends the running call with an error.
    #stop = () => {};
    #isTerminated = false;
    #restarts = 0;
    #steps = 0;

    constructor(schema, options) {
      const { onMismatch, timeout, maxMemory } = toOptions(options, OPTIONS, "BeTreeWorker");
      this.#timeout = toTimeout(timeout, Infinity);
      if (schema instanceof ImageBytes) {
        this.#start = { image: schema.bytes };
      } else {
        withDefault(toAttributes(schema), onMismatch);
        this.#start = { schema, options: { onMismatch }, maxMemory };
      }
    }

    static async load(image, options) {
      toOptions(options, ["timeout"], "load");
      return new BeTreeWorker(new ImageBytes((await read(image)).slice()), options);
    }

    async insert(id, expression, options) {
      await this.#insert("insert", id, expression, options);
    }

    async #insert(method, id, expression, options) {
      const { constants, ...bounds } = toOptions(options, ["constants", ...BOUNDS], method);
      const subscription = toSubscription({ id, expression, constants });
      const made = { method, arguments: [id, subscription.expression, { constants, ...bounds }] };
      await this.#call(made, bounds, () => this.#note(subscription));
    }

    async put(id, expression, options) {
      await this.#insert("put", id, expression, options);
    }

    async insertAll(subscriptions, options) {
      const bounds = toOptions(options, BOUNDS, "insertAll");
      const list = toSubscriptions(subscriptions, "insertAll").map(toSubscription);
      const note = () => list.forEach((subscription) => this.#note(subscription));
      return this.#call({ method: "insertAll", arguments: [list, bounds] }, bounds, note);
    }

    async delete(id) {
      toId(id);
      await this.#call({ method: "delete", arguments: [id] }, {}, () => {
        this.#subscriptions.delete(fromId(id));
        if (this.#start.image !== undefined) this.#deleted.add(fromId(id));
      });
    }

    async clear() {
      await this.#call({ method: "clear", arguments: [] }, {}, () => this.#subscriptions.clear());
    }

    async has(id) {
      return this.#call({ method: "has", arguments: [id] });
    }

    async get(id) {
      return this.#call({ method: "get", arguments: [id] });
    }

    async ids() {
      return this.#call({ method: "ids", arguments: [] });
    }

    async size() {
      return this.#call({ property: "size" });
    }

    async search(event, options) {
      const given = toOptions(options, SEARCH, "search");
      const made = this.#call({ method: "search", arguments: [toText(event, given), toPlain(given)] }, given);
      return made.catch((error) => rethrow(error, event));
    }

    async searchMany(events, options) {
      const given = toOptions(options, SEARCH, "searchMany");
      const texts = toList(events, "searchMany").map((event) => toText(event, given));
      const made = this.#call({ method: "searchMany", arguments: [texts, toPlain(given)] }, given);
      return made.catch((error) => rethrow(error, events[error.position]));
    }

    async explain(event, id, options) {
      const given = toOptions(options, ["onMismatch", ...BOUNDS], "explain");
      const made = this.#call({ method: "explain", arguments: [toText(event, given), id, given] }, given);
      return made.catch((error) => rethrow(error, event));
    }

    async profile(events, options) {
      const given = toOptions(options, ["onMismatch", "timeout"], "profile");
      const texts = toList(events, "profile").map((event) => toText(event, given));
      const { timeout, ...inner } = given;
      return this.#call({ method: "profile", arguments: [texts, inner] }, { timeout });
    }

    async info() {
      return this.#call({ method: "info", arguments: [] });
    }

    get steps() {
      return this.#steps;
    }

    get restarts() {
      return this.#restarts;
    }

    terminate() {
      this.#isTerminated = true;
      this.#stop(terminated());
      this.#worker?.end();
      this.#worker = null;
      this.#subscriptions.clear();
    }

    async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
      this.terminate();
    }

    #note(subscription) {
      const id = fromId(subscription.id);
      this.#subscriptions.set(id, subscription);
      // In a worker that begins anew, the one of the image goes first.
      if (this.#start.image !== undefined) this.#deleted.add(id);
    }

    /** Calls of the worker run one after the other. `note` keeps what a change did. */
    #call(call, { timeout } = {}, note = () => {}) {
      const limit = toTimeout(timeout, this.#timeout);
      const made = this.#last.then(async () => {
        if (this.#isTerminated) throw terminated();
        this.#worker ?? (await this.#begin());
        const isBounded = this.#start.image === undefined && call.method in BOUNDED;
        const { result, steps } = await this.#ask(
          bounded(call, isBounded ? limit : undefined),
          limit,
          isBounded ? GRACE : 0,
        );
        this.#steps = steps;
        note();
        return result;
      });
      this.#last = made.catch(() => {});
      return made;
    }

    async #begin() {
      const start = { ...this.#start, subscriptions: [...this.#subscriptions.values()], deleted: [...this.#deleted] };
      this.#worker = begin(
        (answer) => this.#answered(answer),
        (error) => this.#end(notStarted(error)),
      );
      await this.#ask({ start }, Infinity, 0);
    }

    #answered = () => {};

    /** Returns the worker's answer, or ends the worker after a time. */
    #ask(message, limit, grace) {
      return new Promise((resolve, reject) => {
        const timer = limit > LATEST ? null : setTimeout(() => this.#end(late(limit)), limit + grace);
        const done = () => {
          clearTimeout(timer);
          this.#stop = this.#answered = () => {};
        };
        this.#stop = (error) => {
          done();
          reject(error);
        };
        this.#answered = ({ error, ...answer }) => {
          done();
          if (error === undefined) return resolve(answer);
          // After a trap the index is lost, and a worker that has not begun has none.
          if (error.kind === "trap" || message.start !== undefined) this.#end(null);
          reject(toError(error));
        };
        try {
          this.#worker.post(message);
        } catch (error) {
          this.#stop(wrong(`an argument cannot be sent to the worker: ${error.message}`));
        }
      });
    }

    #end(error) {
      this.#worker?.end();
      this.#worker = null;
      this.#restarts += 1;
      this.#stop(error);
    }
  };
}

/** Returns a call with the timeout of the index, which has none if the call has none. */
function bounded(call, limit) {
  const place = BOUNDED[call.method];
  if (place === undefined) return call;
  const options = { ...call.arguments[place], timeout: limit === Infinity ? undefined : limit };
  return { ...call, arguments: call.arguments.map((argument, at) => (at === place ? options : argument)) };
}

function toTimeout(timeout, standard) {
  checkTimeout(timeout);
  return timeout ?? standard;
}

function toSubscription({ id, expression, constants }) {
  toId(id);
  const values = toConstants(constants);
  const text = toExpression(expression);
  const given = values === undefined ? {} : { constants: Object.fromEntries(values) };
  return { id, expression: typeof text === "string" ? text : text.slice(), ...given };
}

/** The event as it is now, since its owner may change it before the worker reads it. */
function toText(event, { onMismatch }) {
  checkOnMismatch(onMismatch, "the option onMismatch");
  return toJson(event, true);
}

/** A column counts in the text of an event, not in the JSON that is made of an object. */
function rethrow(error, event) {
  if (!(error instanceof BeTreeError) || typeof event === "string") throw error;
  throw new BeTreeError({ ...error.cause, column: null });
}

function toPlain({ ids, ...options }) {
  return ids === undefined ? options : { ...options, ids: toIds(ids) };
}

/** Errors cross as their causes, because only those keep their fields. */
function toError({ cause, name, message }) {
  return cause === undefined ? Object.assign(new Error(message), { name }) : new BeTreeError(cause, cause.text);
}

function late(limit) {
  return new BeTreeError({
    kind: "timeout",
    message: `the call reached its timeout of ${limit} ms; its worker was ended`,
  });
}

function terminated() {
  return new BeTreeError({ kind: "freed", message: "this worker was terminated; make a new one" });
}

function notStarted(error) {
  return new BeTreeError({ kind: "not_loaded", message: `the worker cannot run: ${error.message ?? error}` });
}
