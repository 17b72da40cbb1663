// What the page of rules and its worker say to each other.
import type { Notice, RulesInfo, StoredFact } from "be-tree/rules";

import type { Fault } from "./protocol";

/** To the worker. A later request replaces an earlier one that has not begun. */
export interface Request {
  run: number;
  rules: string;
  script: string;
}

/** The notices of a line of the script. */
export interface Told {
  line: number;
  notices: Notice[];
}

/** The facts of a type that are left, newest first: the first of them, and their number. */
export interface Left {
  type: string;
  count: number;
  facts: StoredFact[];
}

export interface Ran {
  kind: "ran";
  run: number;
  rulesFault: Fault | null;
  faults: Fault[];
  result: { told: Told[]; left: Left[]; info: RulesInfo; warnings: string[]; milliseconds: number } | null;
}

export type Reply = { kind: "ready" } | Ran;
