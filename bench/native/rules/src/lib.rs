//! Workloads of rules, measured natively and compiled to WebAssembly ([`exports`]) in the sandbox.

pub mod exports;
pub mod input;
pub mod jobs;
pub mod random;

// The rules and facts of Manners and Waltzdb are those of the tests.
#[path = "../../../../wasm/rules/tests/support/mod.rs"]
pub mod support;
