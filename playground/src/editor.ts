// An editor of one text, with the faults that the index finds below the lines, and a mark at lines that match.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionSource,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, syntaxHighlighting } from "@codemirror/language";
import {
  Compartment,
  EditorState,
  type Extension,
  RangeSet,
  RangeSetBuilder,
  StateEffect,
  StateField,
} from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  EditorView,
  GutterMarker,
  gutter,
  keymap,
  lineNumbers,
  WidgetType,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

import type { Fault } from "./protocol";

interface Options {
  parent: HTMLElement;
  /** What a screen reader says of the editor. */
  label: string;
  language: Extension;
  complete: CompletionSource;
  /** Lines have numbers, and marks if they match. */
  isNumbered?: boolean;
  onChange: () => void;
  onLine?: (line: number) => void;
}

const setFaults = StateEffect.define<readonly Fault[]>();
const setMatches = StateEffect.define<readonly number[]>();

/** The line below a fault: a caret below its character, and the reason. */
class FaultWidget extends WidgetType {
  constructor(
    readonly before: string,
    readonly reason: string,
  ) {
    super();
  }

  override eq(other: FaultWidget) {
    return other.before === this.before && other.reason === this.reason;
  }

  toDOM() {
    const line = document.createElement("div");
    line.className = "cm-fault-line";
    // The line's own characters, unseen, so that the caret stands below the fault whatever their width.
    const space = document.createElement("span");
    space.className = "cm-fault-space";
    space.setAttribute("aria-hidden", "true");
    space.textContent = this.before;
    const reason = document.createElement("span");
    reason.textContent = `^ ${this.reason}`;
    line.append(space, reason);
    return line;
  }
}

/** Returns the offsets of a fault. Its column and its length count characters. */
function placeOf(state: EditorState, fault: Fault) {
  const line = state.doc.line(Math.min(fault.line, state.doc.lines));
  const before = Array.from(line.text)
    .slice(0, fault.column - 1)
    .join("");
  const from = line.from + before.length;
  const behind = line.text.slice(before.length);
  const marked =
    fault.length === undefined ? /^(\w+|.?)/u.exec(behind)![0] : Array.from(behind).slice(0, fault.length).join("");
  return { line, before, from, to: from + marked.length };
}

function faultDecorations(state: EditorState, faults: readonly Fault[]): DecorationSet {
  const ranges = faults.flatMap((fault) => {
    const { line, before, from, to } = placeOf(state, fault);
    const below = Decoration.widget({ widget: new FaultWidget(before, fault.reason), block: true, side: 1 }).range(
      line.to,
    );
    return to > from ? [Decoration.mark({ class: "cm-fault" }).range(from, to), below] : [below];
  });
  return Decoration.set(ranges, true);
}

const faultField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    const effect = transaction.effects.find((given) => given.is(setFaults));
    return effect ? faultDecorations(transaction.state, effect.value) : decorations.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

class MatchMarker extends GutterMarker {
  override elementClass = "cm-match-mark";

  override toDOM() {
    return document.createTextNode("✓");
  }
}

const mark = new MatchMarker();
const matchLine = Decoration.line({ class: "cm-match" });

const matchField = StateField.define<RangeSet<GutterMarker>>({
  create: () => RangeSet.empty,
  update(marks, transaction) {
    const effect = transaction.effects.find((given) => given.is(setMatches));
    if (!effect) return marks.map(transaction.changes);
    const { doc } = transaction.state;
    const builder = new RangeSetBuilder<GutterMarker>();
    effect.value
      .filter((line) => line <= doc.lines)
      .forEach((line) => builder.add(doc.line(line).from, doc.line(line).from, mark));
    return builder.finish();
  },
  provide: (field) =>
    EditorView.decorations.from(field, (marks) => {
      const builder = new RangeSetBuilder<Decoration>();
      for (let range = marks.iter(); range.value; range.next()) builder.add(range.from, range.from, matchLine);
      return builder.finish();
    }),
});

const numbered: Extension = [
  lineNumbers(),
  matchField,
  gutter({
    class: "cm-match-gutter",
    markers: (view) => view.state.field(matchField),
    initialSpacer: () => mark,
  }),
];

export class Editor {
  readonly #view: EditorView;
  readonly #readOnly = new Compartment();
  /** A text that the page sets is no change of the user's. */
  #isSetting = false;

  constructor({ parent, label, language, complete, isNumbered, onChange, onLine }: Options) {
    let line = 0;
    this.#view = new EditorView({
      parent,
      extensions: [
        isNumbered ? numbered : [],
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ override: [complete], icons: false }),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
        language,
        syntaxHighlighting(classHighlighter),
        faultField,
        this.#readOnly.of([]),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !this.#isSetting) onChange();
          const at = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (onLine && !this.#isSetting && (update.selectionSet || update.docChanged) && at !== line)
            onLine((line = at));
        }),
      ],
    });
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  /** Replaces the text, and forgets its history. */
  set(text: string, isReadOnly = false) {
    if (text === this.text && this.#view.state.readOnly === isReadOnly) return;
    this.#isSetting = true;
    const effects = [
      this.#readOnly.reconfigure(EditorState.readOnly.of(isReadOnly)),
      ...(this.#view.state.field(matchField, false) ? [setMatches.of([])] : []),
      setFaults.of([]),
    ];
    this.#view.dispatch({
      changes: { from: 0, to: this.#view.state.doc.length, insert: text },
      effects,
      selection: { anchor: 0 },
    });
    this.#isSetting = false;
  }

  showFaults(faults: readonly Fault[]) {
    this.#view.dispatch({ effects: setFaults.of(faults) });
  }

  /** Marks lines, given ascending. */
  showMatches(lines: readonly number[]) {
    this.#view.dispatch({ effects: setMatches.of(lines) });
  }
}
