// What the page and its worker say to each other.
import type { Explanation, Id, Info, Schema, Trace } from "be-tree";

/** The source of the expressions: texts of the page, a generator, or an image. */
export type Source =
  | { kind: "text"; schema: string; expressions: string }
  | { kind: "generated"; count: number; seed: number }
  | { kind: "image"; file: File };

/** To the worker. A later request replaces earlier ones that have not begun. */
export type Request =
  | { kind: "build"; build: number; source: Source }
  | { kind: "search"; build: number; search: number; event: string; selected: Id | null };

/** A fault in one of the texts. Lines and columns count from 1; columns count characters. */
export interface Fault {
  line: number;
  column: number;
  /** The characters that are marked. Without it the word at the column is. */
  length?: number;
  reason: string;
}

export interface Built {
  kind: "built";
  build: number;
  /** The attributes, unless the schema has a fault. */
  schema: Schema | null;
  schemaFault: Fault | null;
  faults: Fault[];
  info: Info | null;
  milliseconds: number;
  /** The drawing in Graphviz's language, unless the tree is too large for one. */
  drawing: string | null;
  /** The first generated expressions and an event for them. */
  sample: { expressions: string; event: string; schema: string } | null;
}

export interface Progress {
  kind: "progress";
  build: number;
  done: number;
  count: number;
}

/** An image that cannot be read. */
export interface Refused {
  kind: "refused";
  build: number;
  reason: string;
}

export interface Found {
  kind: "found";
  build: number;
  search: number;
  fault: Fault | null;
  /** `ids` are the first matches only. */
  result: {
    count: number;
    ids: Id[];
    /** The matches' texts, where the worker has them. */
    texts: (string | null)[];
    /** An image does not trace. */
    trace: Trace | null;
    milliseconds: number;
    selected: Id | null;
    explanation: Explanation | null;
  } | null;
}

export type Reply = Built | Progress | Refused | Found;
