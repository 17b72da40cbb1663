//! The folders of the crate are layers: code uses what is in its own folder and in those before it. No files use each other in a
//! circle.

#[path = "../../index/tests/support/layers.rs"]
mod layers;

use layers::Crate;

/// From the lowest layer to the highest; `lib.rs` says what each is about.
const LAYERS: [&str; 10] =
    ["failure", "system", "terms", "memory", "compile", "machine", "instance", "output", "calls", "nifs"];

#[test]
fn no_folder_uses_a_later_one() {
    Crate::read(env!("CARGO_MANIFEST_DIR")).check_layers(&LAYERS, 50);
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    Crate::read(env!("CARGO_MANIFEST_DIR")).check_circles(50);
}
