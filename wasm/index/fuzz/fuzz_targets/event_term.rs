//! Whatever the bytes: an event or an error, from a term under names and from those in the order of the schema.

#![no_main]

mod event;

use be_tree_index::event::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The version byte goes without saying.
    let term = [&[131], bytes].concat();
    for format in [Format::Term, Format::Record, Format::Records] {
        if let Err(error) = event::check(format, &term) {
            assert_eq!(error.column, None, "{error}");
        }
    }
});
