// Messages between the page and its worker.
import type { Explanation, Id, Info, Schema, Trace } from "be-tree";

/** The source of the expressions: texts of the page, a generator, or an image. */
export type Source =
  | { kind: "text"; schema: string; expressions: string }
  | { kind: "generated"; count: number; seed: number }
  | { kind: "image"; file: File };

To the worker. A later request replaces pending ones.
export type Request =
  | { kind: "build"; build: number; source: Source }
  | { kind: "search"; build: number; search: number; event: string; selected: Id | null };

/** A fault in one of the texts. Lines and columns count from 1; columns count characters. */
export interface Fault {
  line: number;
  column: number;
  reason: string;
}

export interface Built {
  kind: "built";
  build: number;
  The attributes, unless the schema is invalid.
  schema: Schema | null;
  schemaFault: Fault | null;
  faults: Fault[];
  info: Info | null;
  milliseconds: number;
  The drawing in Graphviz's language, unless the tree is too large.
  drawing: string | null;
  The first generated expressions, and a matching event.
  sample: { expressions: string; event: string; schema: string } | null;
}

export interface Progress {
  kind: "progress";
  build: number;
  done: number;
  count: number;
}

An unreadable image.
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
  `ids` are only the first matches.
  result: {
    count: number;
    ids: Id[];
    The texts of the matches, if the worker has them.
    texts: (string | null)[];
    Images do not trace searches.
    trace: Trace | null;
    milliseconds: number;
    selected: Id | null;
    explanation: Explanation | null;
  } | null;
}

export type Reply = Built | Progress | Refused | Found;
