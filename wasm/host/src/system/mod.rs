//! Resources of the operating system besides memory: threads, memory mappings and file descriptors.
//!
//! `background` runs jobs on threads of the library, `quota` limits mappings and descriptors, and `counts` counts live objects.

pub mod background;
pub mod counts;
pub mod quota;
