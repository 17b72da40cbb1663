//! Event time: sources, the watermark, the facts that wait for it, and the events that are due.

pub(crate) mod due;
pub(crate) mod sources;
pub(crate) mod waiting;
