//! The tests of the crate from outside, in one program, because each program takes seconds to compile and link.

#[path = "../support/heap.rs"]
mod heap;
#[cfg(not(target_arch = "wasm32"))]
#[path = "../support/recipe.rs"]
mod recipe;
#[path = "../support/mod.rs"]
mod support;

mod adversarial;
mod alternatives;
mod batch;
mod buckets;
mod churn;
mod dense;
mod estimates;
mod event;
mod exceptions;
mod explain;
mod footprint;
mod growth;
mod joined;
mod language;
mod layers;
mod memory;
mod objects;
mod oracle;
mod order;
mod prepared;
mod profile;
mod reasons;
mod refusals;
mod room;
mod sequences;
mod stops;
mod trace;
mod unfit;
mod wide;
mod work;
