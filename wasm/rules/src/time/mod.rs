//! Event time: sources, the watermark, waiting facts, and due events.

pub(crate) mod due;
pub(crate) mod sources;
pub(crate) mod waiting;
