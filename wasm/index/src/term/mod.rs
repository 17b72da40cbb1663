//! Erlang's external term format, as `:erlang.term_to_binary/1` writes it: reading and writing.
//!
//! The format is described in "External Term Format" of the Erlang Run-Time System's User's Guide.

mod reader;
mod tag;
mod writer;

pub use reader::{Elements, Kind, Reader};
pub use writer::Writer;
