//! Quotas of memory mappings and file descriptors, which the operating system limits for each process.
//!
//! Without mappings the VM aborts at its next allocation. Without descriptors its sockets and files fail. So this
//! library takes only a part of either, and refuses further requests. Each value that owns mappings or a descriptor
//! holds a `Taken` in a field that is dropped after them, so a count falls only after the release.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::failure::{Failure, Kind};
use crate::system::background;

pub struct Quota {
    /// The name of the resource, in the plural.
    noun: &'static str,
    /// The operating system's name of the limit.
    name: &'static str,
    limit: usize,
    /// The way to raise the limit.
    remedy: &'static str,
    /// The most that this library takes.
    max: AtomicUsize,
    /// A further amount for calls, so that existing instances can still be called.
    reserve: usize,
    taken: AtomicUsize,
    /// Releases at least this amount of what is kept only to save time, or all of it. Called before a refusal.
    reclaim: OnceLock<fn(usize)>,
}

/// The most that a refusal of a call releases, which runs on a scheduler: a stack is closed in some microseconds.
const MAX_RECLAIMED_BY_CALL: usize = 16;

/// The library recounts the mappings of others each time its own count crosses a multiple of this.
const RECOUNT_INTERVAL: usize = 2_048;

/// An amount of a quota that is taken until this is dropped.
pub struct Taken {
    quota: &'static Quota,
    amount: usize,
}

/// Returns the quota of memory mappings: 15/16 of the process's limit, less the mappings that others in the process
/// own. A further 1/32 is reserved for calls.
pub fn mappings() -> &'static Quota {
    static MAPPINGS: OnceLock<Quota> = OnceLock::new();
    MAPPINGS.get_or_init(|| {
        let limit = os::max_map_count();
        Quota {
            noun: "memory mappings",
            name: "vm.max_map_count",
            limit,
            remedy: "sysctl -w vm.max_map_count=262144",
            max: AtomicUsize::new(available(limit, os::mapped())),
            reserve: limit / 32,
            taken: AtomicUsize::new(0),
            reclaim: OnceLock::new(),
        }
    })
}

/// Returns the most mappings for this library, of `limit` with `others` in use. The remaining 1/16 is for calls, and
/// for mappings of others until the next recount.
fn available(limit: usize, others: usize) -> usize {
    (limit - limit / 16).saturating_sub(others)
}

/// Returns the quota of file descriptors: half of the process's limit.
pub fn descriptors() -> &'static Quota {
    static DESCRIPTORS: OnceLock<Quota> = OnceLock::new();
    DESCRIPTORS.get_or_init(|| {
        let limit = os::open_files();
        Quota {
            noun: "file descriptors",
            name: "RLIMIT_NOFILE",
            limit,
            remedy: "ulimit -n 65536",
            max: AtomicUsize::new(limit / 2),
            reserve: 0,
            taken: AtomicUsize::new(0),
            reclaim: OnceLock::new(),
        }
    })
}

impl Quota {
    /// Sets the function that releases at least an amount of what is kept only to save time, or all of it.
    pub fn reclaim_by(&self, reclaim: fn(usize)) {
        let _ = self.reclaim.set(reclaim);
    }

    /// Takes `amount` for `user`, a noun with an article for the error text.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the quota has less left.
    pub fn take(&'static self, amount: usize, user: &str) -> Result<Taken, Failure> {
        self.take_up_to(self.max.load(Ordering::Relaxed), amount, user, usize::MAX)
    }

    /// Takes `amount` for a call, which may use the reserve.
    pub fn take_for_call(&'static self, amount: usize) -> Result<Taken, Failure> {
        let max = self.max.load(Ordering::Relaxed).saturating_add(self.reserve);
        self.take_up_to(max, amount, "a call", MAX_RECLAIMED_BY_CALL)
    }

    /// Takes `amount` if no more than `max` is then taken. Reclaims at most `reclaimed` for that.
    fn take_up_to(&'static self, max: usize, amount: usize, user: &str, reclaimed: usize) -> Result<Taken, Failure> {
        let more = |taken: usize| taken.checked_add(amount).filter(|sum| *sum <= max);
        let take = || self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let taken = take().or_else(|taken| match self.reclaim.get() {
            Some(reclaim) => {
                reclaim(taken.saturating_add(amount).saturating_sub(max).min(reclaimed));
                take()
            }
            None => Err(taken),
        });
        match taken {
            Ok(taken) => {
                if taken / RECOUNT_INTERVAL != (taken + amount) / RECOUNT_INTERVAL {
                    recount_later();
                }
                Ok(Taken { quota: self, amount })
            }
            Err(taken) => {
                // Others may have released mappings since the last count.
                recount_later();
                let Self { noun, name, limit, remedy, .. } = self;
                Err(Failure::new(
                    Kind::Overloaded,
                    format!(
                        "{user} needs {amount} more {noun}, but this node's trees, indexes and calls hold {taken} of \
                         the {max} that they may take of the limit {name}, which is {limit}; let go of some, or raise \
                         the limit before the node starts: {remedy}"
                    ),
                ))
            }
        }
    }

    /// Returns the operating system's limit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Recounts the mappings that the library does not own. Runs on the reaper's thread, because it can take 10
/// milliseconds.
fn recount_later() {
    static AWAITED: AtomicBool = AtomicBool::new(false);
    if AWAITED.swap(true, Ordering::Relaxed) {
        return;
    }
    background::later(|| {
        AWAITED.store(false, Ordering::Relaxed);
        let quota = mappings();
        let others = os::mapped().saturating_sub(quota.taken());
        quota.max.store(available(quota.limit, others), Ordering::Relaxed);
    });
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.quota.taken.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
mod os {
    use std::fs;

    use rustix::process::{getrlimit, Resource};

    /// The default of Linux, if its setting cannot be read.
    const DEFAULT_MAPPINGS: usize = 65_530;

    pub fn max_map_count() -> usize {
        let text = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_MAPPINGS)
    }

    pub fn mapped() -> usize {
        fs::read("/proc/self/maps").map_or(0, |maps| maps.iter().filter(|byte| **byte == b'\n').count())
    }

    pub fn open_files() -> usize {
        let soft = getrlimit(Resource::Nofile).current;
        soft.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
    }
}

/// Other systems have no such limit on mappings, and a snapshot there has no descriptor.
#[cfg(not(target_os = "linux"))]
mod os {
    pub fn max_map_count() -> usize {
        usize::MAX
    }

    pub fn mapped() -> usize {
        0
    }

    pub fn open_files() -> usize {
        usize::MAX
    }
}
