//! A stand-in holds an instance that replaces another one until that other one changes. It is stored under the version
//! of the other instance, and found only under the same version.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustler::{Resource, ResourceArc};

use crate::instance::Instance;

/// A stand-in as a resource.
#[derive(Default)]
pub struct StandIn(Mutex<Option<(u64, ResourceArc<Instance>)>>);

#[rustler::resource_impl]
impl Resource for StandIn {}

impl StandIn {
    /// Stores an instance, unless one of a later version is stored.
    pub fn put(&self, version: u64, instance: ResourceArc<Instance>) {
        let mut held = self.lock();
        if held.as_ref().is_none_or(|(before, _)| *before <= version) {
            *held = Some((version, instance));
        }
    }

    /// Returns the instance of this version, if one is stored. Drops an instance of an earlier version.
    pub fn get(&self, version: u64) -> Option<ResourceArc<Instance>> {
        let mut held = self.lock();
        if held.as_ref().is_some_and(|(before, _)| *before < version) {
            *held = None;
        }
        held.as_ref().filter(|(there, _)| *there == version).map(|(_, instance)| instance.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, ResourceArc<Instance>)>> {
        // A panic can only happen before or after an assignment, so the value is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
