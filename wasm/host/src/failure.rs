//! A failure: a kind, which Elixir turns into `BeTree.Error`, and a message for people.

use wasmtime::{Error, Trap, WasmBacktrace};

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
        Self { kind, message: message.into() }
    }

    pub fn bad_module(message: impl Into<String>) -> Self {
        Self::new(Kind::BadModule, message)
    }

    /// Returns the failure of a call. A trap after a refused growth of the memory follows from that refusal, because
    /// compiled languages then execute `unreachable`.
    pub fn from_call(error: &Error, memory_refused: bool) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => {
                Self::new(Kind::OutOfFuel, "the call used all of its fuel; give it a larger budget")
            }
            Some(trap) if memory_refused => Self::new(
                Kind::OutOfMemory,
                format!("the module asked for more memory than its limit, and stopped: {}", place(*trap, error)),
            ),
            Some(trap) => Self::new(Kind::Trap, place(*trap, error)),
            // Without a trap no wasm ran: the host had no stack or no memory for the call.
            None => Self::new(Kind::OutOfMemory, format!("the host could not run the call: {error:#}")),
        }
    }
}

/// Returns the trap's own message, with the function's name if the module has it.
fn place(trap: Trap, error: &Error) -> String {
    let function = error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|backtrace| backtrace.frames().first())
        .and_then(|frame| frame.func_name().map(str::to_owned));
    match function {
        Some(name) => format!("{trap} in the function {name}"),
        None => trap.to_string(),
    }
}
