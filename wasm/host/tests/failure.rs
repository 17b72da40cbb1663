//! Tests of failures without the rest of the library, which links only into the BEAM.

// The test uses a part of it.
#[allow(dead_code)]
#[path = "../src/failure.rs"]
mod failure;

use failure::{Failure, Kind};
use rustix::io::Errno;
use wasmtime::Error;

/// The most bytes of a message that are kept.
const MAX_MESSAGE_BYTES: usize = 4_096;

#[test]
fn keeps_a_message_of_at_most_the_limit() {
    for message in ["", "a module", &"x".repeat(MAX_MESSAGE_BYTES)] {
        assert_eq!(Failure::bad_module(message).message, message);
    }
}

#[test]
fn cuts_a_long_message_between_characters_and_counts_omitted_bytes() {
    // Characters of one to four bytes, so that the cut falls inside of most of them.
    for character in ["x", "é", "€", "🦀"] {
        for shift in 0..4 {
            let message = format!("{}{}", "-".repeat(shift), character.repeat(2 * MAX_MESSAGE_BYTES / character.len()));
            let shortened = Failure::bad_module(message.clone()).message;
            let (kept, note) = shortened.split_once("... (").expect("the message is cut");
            assert!(message.starts_with(kept) && kept.len() <= MAX_MESSAGE_BYTES && kept.len() > MAX_MESSAGE_BYTES - 4);
            assert_eq!(note, format!("{} bytes are left out)", message.len() - kept.len()));
        }
    }
}

#[test]
fn from_compiler_tells_refused_memory_from_an_invalid_module() {
    let refused = Failure::from_compiler(&Error::from(Errno::NOMEM).context("mmap failed"));
    assert_eq!(refused.kind, Kind::OutOfMemory);
    assert!(refused.message.contains("no memory to compile") && refused.message.contains("ulimit -v"));
    let invalid = Failure::from_compiler(&Error::msg("unknown opcode").context("at 7"));
    assert_eq!(invalid.kind, Kind::BadModule);
    assert_eq!(invalid.message, "not a WebAssembly module that can run here: at 7: unknown opcode");
}
