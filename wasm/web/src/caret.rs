//! The line of a text in which an error lies, over a caret below the fault.

use wasm_bindgen::prelude::wasm_bindgen;

/// The characters that are shown before the caret, and from it on: as many as fit on a terminal's line.
const BEFORE: usize = 40;
const FROM: usize = 32;
const ELLIPSIS: &str = "...";

/// Returns the line of `text` with the character `column`, counted from 1, cut to a window, and a second line with a caret
/// below that character.
#[wasm_bindgen]
pub fn caret(text: &str, column: usize) -> String {
    let at = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    let (before, from) = text.split_at(at);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let mut head: Vec<char> = before[line_start..].chars().rev().take(BEFORE + 1).collect();
    let mut line = String::new();
    let mut caret = head.len();
    if head.len() > BEFORE {
        head.truncate(BEFORE);
        line.push_str(ELLIPSIS);
        caret = BEFORE + ELLIPSIS.len();
    }
    line.extend(head.iter().rev().map(|&character| shown(character)));
    let tail: Vec<char> = from.chars().take_while(|&character| character != '\n').take(FROM + 1).collect();
    line.extend(tail.iter().take(FROM).map(|&character| shown(character)));
    if tail.len() > FROM {
        line.push_str(ELLIPSIS);
    }
    format!("{line}\n{}^", " ".repeat(caret))
}

/// Returns a character that takes the place of one.
fn shown(character: char) -> char {
    if character.is_ascii_control() {
        ' '
    } else {
        character
    }
}
