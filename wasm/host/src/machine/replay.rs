//! Applies entries of the log to a replica.

use std::sync::Arc;

use wasmtime::Val;

use super::run::no_inbox;
use super::Machine;
use crate::failure::{Failure, Kind};
use crate::machine::phase::Phase;
use crate::memory::stacks::block_on;

/// Far more fuel than a change takes: it ends a module that loops for ever, after about 2 seconds, and 20 microseconds for each
/// byte of input.
const PATIENCE: u64 = 10_000_000_000;
const PATIENCE_PER_BYTE: u64 = 100_000;

pub struct Entry {
    pub steps: Vec<Step>,
}

/// A call whose arguments are integers, and which has succeeded elsewhere on the same state.
pub struct Step {
    pub export: Box<[u8]>,
    pub arguments: Vec<i64>,
    pub input: Option<Box<[u8]>>,
}

impl Machine {
    /// Applies entries, in order. If that fails or is cut off, the memory is of no further use, and the phase remains
    /// `Replaying`. The arguments of the order that follows stay as they are.
    pub(super) async fn repeat_all(&mut self, entries: &[Arc<Entry>], slice: Option<u64>) -> Result<(), Failure> {
        self.phase.set(Phase::Replaying);
        let (params, results) = (std::mem::take(&mut self.params), std::mem::take(&mut self.results));
        for entry in entries {
            for step in &entry.steps {
                self.repeat(step, slice).await?;
            }
            self.applied += 1;
        }
        self.params = params;
        self.results = results;
        self.phase.set(Phase::Opening);
        Ok(())
    }

    /// Applies entries at once, on a dirty scheduler.
    pub fn repeat_now(&mut self, entries: &[Arc<Entry>]) -> Result<(), Failure> {
        let stack = self.stack.clone();
        let _in_use = stack.enter()?;
        self.store.data_mut().forget_refusal();
        let repeated = block_on(self.repeat_all(entries, None));
        if repeated.is_err() {
            self.restore_stack_pointer();
        }
        repeated
    }

    async fn repeat(&mut self, step: &Step, slice: Option<u64>) -> Result<(), Failure> {
        let _ = self.store.fuel_async_yield_interval(slice);
        let length = step.input.as_ref().map_or(0, |input| input.len());
        if let Some(input) = &step.input {
            if self.inbox.as_ref().ok_or_else(no_inbox)?.capacity < input.len() {
                self.open_inbox(input.len()).await?;
            }
            let address = self.inbox.as_ref().map_or(0, |inbox| inbox.address);
            self.write(address, input)?;
        }
        let export = self.export(&step.export)?;
        let fuel = PATIENCE.saturating_add(PATIENCE_PER_BYTE.saturating_mul(length as u64));
        let Self { store, exports, params, results, .. } = self;
        exports[export].prepare_integers(&step.arguments, params, results)?;
        let _ = store.set_fuel(fuel);
        let outcome = exports[export].call(store, params, results).await;
        outcome.map_err(|error| Failure::from_call(&error, store.data().refused()))?;
        self.owed += fuel - self.store.get_fuel().unwrap_or(fuel);
        if self.results.first().and_then(Val::i32).is_some_and(|status| status != 0) {
            let kind = if self.store.data().refused() { Kind::OutOfMemory } else { Kind::Trap };
            let name = String::from_utf8_lossy(&step.export);
            return Err(Failure::new(kind, format!("a replica refused a call of {name} that another one accepted")));
        }
        self.leave_large_inbox(true).await
    }

    /// Returns the fuel of repeated calls since this was last asked.
    pub fn take_owed(&mut self) -> u64 {
        std::mem::take(&mut self.owed)
    }
}
