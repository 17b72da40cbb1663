//! Failures by themselves: the library can only be linked into the BEAM.

// The test uses a part of it.
#[allow(dead_code)]
#[path = "../src/failure.rs"]
mod failure;

use failure::{Failure, Kind};
use rustix::io::Errno;
use wasmtime::Error;

/// The most bytes of a message that are kept.
const LONGEST: usize = 4_096;

#[test]
fn a_short_message_stays_as_it_is() {
    for message in ["", "a module", &"x".repeat(LONGEST)] {
        assert_eq!(Failure::bad_module(message).message, message);
    }
}

#[test]
fn a_long_message_is_cut_between_characters_and_counts_what_is_left_out() {
    // Characters of one to four bytes, so that the cut falls inside of most of them.
    for character in ["x", "é", "€", "🦀"] {
        for shift in 0..4 {
            let message = format!("{}{}", "-".repeat(shift), character.repeat(2 * LONGEST / character.len()));
            let shortened = Failure::bad_module(message.clone()).message;
            let (kept, note) = shortened.split_once("... (").expect("the message is cut");
            assert!(message.starts_with(kept) && kept.len() <= LONGEST && kept.len() > LONGEST - 4);
            assert_eq!(note, format!("{} bytes are left out)", message.len() - kept.len()));
        }
    }
}

#[test]
fn memory_that_the_system_refuses_is_no_fault_of_a_module() {
    let refused = Failure::from_compiler(&Error::from(Errno::NOMEM).context("mmap failed"));
    assert_eq!(refused.kind, Kind::OutOfMemory);
    assert!(refused.message.contains("no memory to compile") && refused.message.contains("ulimit -v"));
    let invalid = Failure::from_compiler(&Error::msg("unknown opcode").context("at 7"));
    assert_eq!(invalid.kind, Kind::BadModule);
    assert_eq!(invalid.message, "not a WebAssembly module that can run here: at 7: unknown opcode");
}
