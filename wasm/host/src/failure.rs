//! A failure: a kind, which Elixir turns into `BeTree.Error`, and a message for people.

use std::fmt::{Display, Write};

use rustix::io::Errno;
use wasmtime::{Error, OutOfMemory, Trap, WasmBacktrace};

/// The most bytes of a message. It may contain a name from a module, which may be as long as the module.
const MAX_MESSAGE_BYTES: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BadModule,
    NotFound,
    OutOfFuel,
    OutOfMemory,
    Overloaded,
    Trap,
    Type,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
}

impl Failure {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: shortened(message.into()) }
    }

    pub fn bad_module(message: impl Into<String>) -> Self {
        Self::new(Kind::BadModule, message)
    }

    /// Returns the failure of compiling a module: refused memory, or a fault of the module.
    pub fn from_compiler(error: &Error) -> Self {
        if lacks_memory(error) {
            return Self::no_memory(format!("the host has no memory to compile the module: {error:#}"));
        }
        Self::not_a_module(error)
    }

    /// Returns the failure for bytes that cannot be compiled.
    pub fn not_a_module(why: &impl Display) -> Self {
        Self::bad_module(format!("not a WebAssembly module that can run here: {why:#}"))
    }

    /// Returns the failure for memory or addresses that the system refuses to the process.
    pub fn no_memory(what: impl Display) -> Self {
        let mend = "give the machine more memory, or raise the limit of the process (ulimit -v)";
        Self::new(Kind::OutOfMemory, format!("{what}; {mend}"))
    }

    /// Returns the failure of a call. A trap after a refused growth of the memory counts as a lack of memory, because
    /// compiled languages react to the refusal with `unreachable`.
    pub fn from_call(error: &Error, memory_refused: bool) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => {
                Self::new(Kind::OutOfFuel, "the call used all of its fuel; give it a larger budget")
            }
            Some(trap) if memory_refused => Self::new(
                Kind::OutOfMemory,
                format!(
                    "the module asked for more memory than its limit, and stopped: {}",
                    describe_trap(*trap, error)
                ),
            ),
            Some(trap) => Self::new(Kind::Trap, describe_trap(*trap, error)),
            // Without a trap no code ran: the host had no stack or no memory for the call.
            None => Self::new(Kind::OutOfMemory, format!("the host could not run the call: {error:#}")),
        }
    }
}

/// Returns whether the cause is memory that the system refused, not the module.
pub fn lacks_memory(error: &Error) -> bool {
    let refuses = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref() == Some(&Errno::NOMEM);
    error.is::<OutOfMemory>() || error.chain().any(refuses)
}

/// Cuts a long text between two characters, and notes the omitted bytes.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let end = text.floor_char_boundary(MAX_MESSAGE_BYTES);
        let omitted = text.len() - end;
        text.truncate(end);
        // Writing to a string does not fail.
        let _ = write!(text, "... ({omitted} bytes are left out)");
    }
    text
}

/// Returns the trap's own message, with the function's name if the module has it.
fn describe_trap(trap: Trap, error: &Error) -> String {
    let function = error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|backtrace| backtrace.frames().first())
        .and_then(|frame| frame.func_name().map(str::to_owned));
    match function {
        Some(name) => format!("{trap} in the function {name}"),
        None => trap.to_string(),
    }
}
