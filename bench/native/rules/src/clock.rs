//! The time that this thread has had a processor, so that other work on the machine does not count. Where the system does not tell,
//! it is the time of a clock. The system counts at its ticks, so a single short measurement is wrong and the mean of many is right.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the time since an arbitrary moment.
pub fn now() -> Duration {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    on_processor().unwrap_or_else(|| STARTED.get_or_init(Instant::now).elapsed())
}

/// Returns the first field of Linux's schedstat, nanoseconds on a processor.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}
