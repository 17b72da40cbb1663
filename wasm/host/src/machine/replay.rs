//! Applies entries of a pool's log to a replica.

use std::sync::Arc;

use wasmtime::Val;

use super::run::no_inbox;
use super::Machine;
use crate::failure::{Failure, Kind};
use crate::machine::phase::Phase;
use crate::memory::stacks::block_on;

/// The most fuel of a step, far more than a change takes. It ends an infinite loop after about 2 seconds, and 20
/// microseconds for each byte of input.
const MAX_STEP_FUEL: u64 = 10_000_000_000;
const MAX_STEP_FUEL_PER_BYTE: u64 = 100_000;

pub struct LogEntry {
    pub steps: Vec<Step>,
}

/// A call with integer arguments that has succeeded on the same state in another instance.
pub struct Step {
    pub export: Box<[u8]>,
    pub arguments: Vec<i64>,
    pub input: Option<Box<[u8]>>,
}

impl Machine {
    /// Applies entries in order. After a failure the phase stays `Replaying`, and the inconsistent memory must be
    /// dropped. Keeps the arguments of the prepared call.
    pub(super) async fn replay_all(&mut self, entries: &[Arc<LogEntry>], slice: Option<u64>) -> Result<(), Failure> {
        self.phase.set(Phase::Replaying);
        let (params, results) = (std::mem::take(&mut self.params), std::mem::take(&mut self.results));
        for entry in entries {
            for step in &entry.steps {
                self.replay_step(step, slice).await?;
            }
            self.applied += 1;
        }
        self.params = params;
        self.results = results;
        self.phase.set(Phase::Opening);
        Ok(())
    }

    /// Applies entries without yielding, on a dirty scheduler.
    pub fn replay_blocking(&mut self, entries: &[Arc<LogEntry>]) -> Result<(), Failure> {
        let stack = self.stack.clone();
        let _in_use = stack.enter()?;
        self.store.data_mut().forget_refusal();
        let repeated = block_on(self.replay_all(entries, None));
        if repeated.is_err() {
            self.restore_stack_pointer();
        }
        repeated
    }

    async fn replay_step(&mut self, step: &Step, slice: Option<u64>) -> Result<(), Failure> {
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
        let fuel = MAX_STEP_FUEL.saturating_add(MAX_STEP_FUEL_PER_BYTE.saturating_mul(length as u64));
        let Self { store, exports, params, results, .. } = self;
        exports[export].prepare_integers(&step.arguments, params, results)?;
        let _ = store.set_fuel(fuel);
        let outcome = exports[export].call(store, params, results).await;
        outcome.map_err(|error| Failure::from_call(&error, store.data().refused()))?;
        self.uncharged_fuel += fuel - self.store.get_fuel().unwrap_or(fuel);
        if self.results.first().and_then(Val::i32).is_some_and(|status| status != 0) {
            let kind = if self.store.data().refused() { Kind::OutOfMemory } else { Kind::Trap };
            let name = String::from_utf8_lossy(&step.export);
            return Err(Failure::new(
                kind,
                format!("a replica refused a call of {name} that succeeded in another instance"),
            ));
        }
        self.leave_large_inbox(true).await
    }

    /// Returns and resets the fuel of applied entries that no process was charged for.
    pub fn take_uncharged_fuel(&mut self) -> u64 {
        std::mem::take(&mut self.uncharged_fuel)
    }
}
