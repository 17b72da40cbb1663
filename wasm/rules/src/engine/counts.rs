//! Counts and sizes of an engine, and the progress of its call.

/// The counts and sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The inserted facts, without those waiting for the watermark.
    pub facts: u32,
    /// The facts waiting for the watermark.
    pub waiting: u32,
    /// The facts ever inserted, from outside or by rules, waiting ones included.
    pub asserted: u64,
    /// The facts that arrived behind the watermark.
    pub late: u64,
    /// The firings since the engine was made.
    pub firings: u64,
    /// The pending notices.
    pub notices: u32,
    /// The bytes that the facts and their indices take, spare capacity included.
    pub memory_bytes: usize,
    /// The high-water mark of the bytes in use.
    pub used_bytes: usize,
}

/// The progress of a call since [`Engine::begin`](crate::Engine::begin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The position in the call's input. Its meaning is the caller's.
    pub position: u32,
    /// The number of the fact that was inserted last, in this call or before.
    pub last_asserted: u64,
    /// The firings of the call.
    pub firings: u32,
    /// The facts of the call that arrived behind the watermark.
    pub late: u32,
}
