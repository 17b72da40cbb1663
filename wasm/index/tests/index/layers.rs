//! The folders of the crate are layers: code uses what is in its own folder and in those before it. No files use each other in a
//! circle.

// Left out in the sandbox, because there are no files.
#![cfg(not(target_arch = "wasm32"))]

#[path = "../support/layers.rs"]
mod reader;

use reader::Crate;

/// From the lowest layer to the highest; `lib.rs` says what each is about.
const LAYERS: [&str; 23] = [
    "error",
    "cost",
    "support",
    "handles",
    "sketch",
    "term",
    "model",
    "language",
    "event",
    "statistics",
    "patterns",
    "compile",
    "catalog",
    "eval",
    "plan",
    "tree",
    "boolean",
    "reasons",
    "room",
    "index",
    "search",
    "shard",
    "diagnostics",
];

#[test]
fn no_folder_uses_a_later_one() {
    Crate::read(env!("CARGO_MANIFEST_DIR")).check_layers(&LAYERS, 100);
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    Crate::read(env!("CARGO_MANIFEST_DIR")).check_circles(300);
}
