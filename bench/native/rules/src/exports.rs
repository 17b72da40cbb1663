//! Exports of the sandboxed module: prepare a job once, then fill and run it in turns.

// The linter counts exported names as unsafe code.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::jobs::{self, Job};

thread_local! {
    static JOB: RefCell<Option<Box<dyn Job>>> = const { RefCell::new(None) };
}

fn with<T>(call: impl FnOnce(&mut dyn Job) -> T) -> T {
    JOB.with_borrow_mut(|job| call(job.as_mut().expect("a job is prepared first").as_mut()))
}

/// Prepares the job with a number, in the order of [`jobs::NAMES`].
#[no_mangle]
pub extern "C" fn prepare(number: u32, size: u32) {
    let job = jobs::prepare(jobs::NAMES[number as usize], size).expect("the name is one of the list");
    JOB.set(Some(job));
}

/// Prepares the next input.
#[no_mangle]
pub extern "C" fn fill() {
    with(|job| job.fill());
}

/// Handles the input.
#[no_mangle]
pub extern "C" fn run() {
    with(|job| job.run());
}

/// Returns a total of the job, or `u64::MAX` after the last one.
#[no_mangle]
pub extern "C" fn total(position: u32) -> u64 {
    with(|job| job.totals().get(position as usize).map_or(u64::MAX, |(_, total)| *total))
}
