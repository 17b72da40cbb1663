// The language of rules in the editor: colors and completion. The engine alone decides what rules are.
import { completeFromList, type CompletionContext } from "@codemirror/autocomplete";
import { StreamLanguage } from "@codemirror/language";

const WORDS = [
  ...[
    "fact",
    "rule",
    "priority",
    "when",
    "then",
    "none",
    "either",
    "or",
    "and",
    "not",
    "in",
    "is",
    "null",
    "if",
    "else",
  ],
  ...["count", "sum", "min", "max", "after", "before", "within", "of", "assert", "modify", "retract", "notify", "let"],
  ...["integer", "float", "string", "boolean", "optional", "strict", "on_mismatch", "undefined", "div", "mod"],
  ...["milliseconds", "seconds", "minutes", "hours", "days"],
];
const KEYWORDS = new Set(WORDS);

/** Colors. A text that is no rule is colored too. */
export const rulesLanguage = StreamLanguage.define({
  name: "rules",
  token(stream) {
    if (stream.match(/^#.*/)) return "comment";
    if (stream.eatSpace()) return null;
    if (stream.match(/^(["'])(?:(?!\1).)*\1?/)) return "string";
    if (stream.match(/^\d+(\.\d+)?/)) return "number";
    if (stream.match(/^(<=|>=|<>|[<>=+*/-])/)) return "operator";
    const word = stream.match(/^[A-Za-z_]\w*/) as RegExpMatchArray | null;
    if (!word) {
      stream.next();
      return null;
    }
    if (word[0] === "true" || word[0] === "false") return "bool";
    if (KEYWORDS.has(word[0])) return "keyword";
    return stream.match(/^\s*\(/, false) ? "labelName" : "propertyName";
  },
});

/** Completes keywords, and the names of the text. */
export function completeRules(context: CompletionContext) {
  if (!context.explicit && !context.matchBefore(/\w{2,}/)) return null;
  const names = new Set(context.state.doc.toString().match(/[A-Za-z_]\w+/g));
  const keywords = WORDS.map((label) => ({ label, type: "keyword" }));
  const others = [...names].filter((name) => !KEYWORDS.has(name)).map((label) => ({ label, type: "variable" }));
  return completeFromList([...keywords, ...others])(context);
}

/** Completes the calls of a script, and the types and fields that the rules declare. */
export function completeScript(rules: () => string) {
  return (context: CompletionContext) => {
    if (!context.matchBefore(/"\w*/)) return null;
    const declared = [...rules().matchAll(/\bfact\s+(\w+)\s*\(([^)]*)/g)];
    const fields = declared.flatMap(([, , fields]) => [...fields!.matchAll(/(\w+)\s*:/g)].map(([, name]) => name!));
    const names = new Set(["advance", "retract", "at", ...declared.map(([, type]) => type!), ...fields]);
    return completeFromList([...names].map((label) => ({ label, type: "property" })))(context);
  };
}
