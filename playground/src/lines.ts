// The text of the expressions: one a line, whose number is its id.
import type { Constants } from "be-tree";

export interface Line {
  id: number;
  expression: string;
  constants: Constants;
}

// A comment that gives constants to the lines below: `# with flight_id = 10, campaign_id = 20`.
const WITH = /^#\s*with\s+(.*)$/;
const CONSTANT = /([a-z_]+)\s*=\s*(-?\d+)/g;

/** Returns the expressions of a text. Empty lines and lines that begin with `#` have none. */
export function readLines(text: string): Line[] {
  const lines: Line[] = [];
  let constants: Record<string, bigint> = {};
  text.split("\n").forEach((line, place) => {
    const given = WITH.exec(line.trim());
    if (given) {
      const pairs = given[1]!.matchAll(CONSTANT);
      constants = Object.fromEntries([...pairs].map(([, name, value]) => [name!, BigInt(value!)]));
    } else if (line.trim() !== "" && !line.trim().startsWith("#")) {
      lines.push({ id: place + 1, expression: line, constants });
    }
  });
  return lines;
}
