/// <reference lib="esnext.disposable" />
/** An index in a worker. */

import {
  BeTreeError,
  type Bounds,
  type Event,
  type EventOptions,
  type Explanation,
  type ExplainOptions,
  type Fields,
  type Found,
  type Id,
  type Info,
  type InsertOptions,
  type OnMismatch,
  type Profile,
  type SearchOptions,
  type Stored,
  type Subscription,
} from "./index.js";

export { BeTreeError };

export interface WorkerOptions {
  onMismatch?: OnMismatch | undefined;
  /** The most milliseconds of each call, counted from its turn. A call may have its own. */
  timeout?: number | undefined;
  /** The most memory of the worker's module, in bytes. */
  maxMemory?: number | undefined;
}

/**
 * An index in a worker, whose calls return promises. Calls run one after the other. They reject as those of a `BeTree` throw.
 *
 * A call that does not end at its time rejects with the kind `timeout`. An index ends it by itself; the worker of an image, or one that
 * does not answer, is ended, and the next call begins another one with the same subscriptions.
 */
export class BeTreeWorker<I extends Id = Id> {
  /** Begins a worker at the first call. */
  constructor(schema: Fields, options?: WorkerOptions);

  /** Reads an image, with which each worker begins. */
  static load<I extends Id = Id>(
    image: Uint8Array | ArrayBuffer | { arrayBuffer(): Promise<ArrayBuffer> },
    options?: { timeout?: number | undefined },
  ): Promise<BeTreeWorker<I>>;

  insert(id: I, expression: string | Uint8Array, options?: InsertOptions): Promise<void>;
  put(id: I, expression: string | Uint8Array, options?: InsertOptions): Promise<void>;
  insertAll(subscriptions: readonly Subscription<I>[], options?: Bounds): Promise<number>;
  delete(id: I): Promise<void>;
  clear(): Promise<void>;
  has(id: I): Promise<boolean>;
  get(id: I): Promise<Stored<I> | undefined>;
  ids(): Promise<Found<I>[]>;
  size(): Promise<number>;
  search(event: Event, options?: SearchOptions): Promise<Found<I>[]>;
  searchMany(events: readonly Event[], options?: SearchOptions): Promise<Found<I>[][]>;
  explain(event: Event, id: I, options?: ExplainOptions): Promise<Explanation>;
  profile(events: readonly Event[], options?: EventOptions & { timeout?: number | undefined }): Promise<Profile>;
  info(): Promise<Info>;

  /** The steps of the last call that was answered. */
  readonly steps: number;

  /** How many workers were ended. */
  readonly restarts: number;

  /** Ends the worker. The running call and later ones reject with the kind `freed`. */
  terminate(): void;

  [Symbol.asyncDispose](): Promise<void>;
}
