//! Reserves the memory of a step before the step begins.
//!
//! A step that lacks room is rolled back and repeated once there is room. An engine in a sandbox is interrupted at any instruction,
//! which its allocator would not survive. So it may defer allocations: the operation then fails at a point where the engine is
//! consistent, and the caller makes room in a call that nothing interrupts.

use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::memory::Full;
use crate::selection::Selection;
use crate::step::{Scratch, Step, StepLimits};

impl Engine {
    /// Runs a step once, and commits it.
    #[inline]
    fn attempt<T>(&mut self, run: &impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Full> {
        let Engine { program, words, scratch, limits, .. } = self;
        scratch.tested = None;
        let mut step = Step { program, words, scratch, limits: StepLimits { facts: limits.facts } };
        let value = run(&mut step)?;
        step.commit()?;
        Ok(value)
    }

    /// Runs a step, and makes room and repeats it while it lacks room.
    #[inline]
    pub(crate) fn retried<T>(&mut self, run: impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Error> {
        loop {
            match self.attempt(&run) {
                Ok(value) => return Ok(value),
                Err(full) => self.provide(full)?,
            }
        }
    }

    /// Runs a read-only function on a step.
    pub(crate) fn examine<T>(&mut self, look: impl Fn(&Step) -> T) -> Result<T, Error> {
        self.recover();
        self.retried(|step| Ok(look(step)))
    }

    /// Rolls back an interrupted step, if there is one.
    pub fn recover(&mut self) {
        self.words.undo();
        self.scratch.released.clear();
    }

    /// Forbids allocation except in [`Engine::make_room`]. An operation that lacks room ends as `out_of_memory`, and
    /// [`Engine::lacks_room`] is then true. So an operation can be interrupted anywhere: it uses the allocator for nothing that
    /// outlives it.
    pub fn defer_memory(&mut self) {
        self.defers = true;
    }

    /// Returns whether the last operation failed for lack of room that [`Engine::make_room`] can make.
    pub fn lacks_room(&self) -> bool {
        self.lacked.is_some()
    }

    /// Makes the room that the last operation lacked. It must not be interrupted.
    ///
    /// Errors: `out_of_memory`.
    pub fn make_room(&mut self) -> Result<(), Error> {
        match self.lacked.take() {
            Some(full) => self.grow(full),
            None => Ok(()),
        }
    }

    /// Forgets the memory of condition searches, which the caller frees all at once.
    pub fn abandon_searches(&mut self) {
        let Scratch { selections, selected, .. } = &mut self.scratch;
        for ty in &*selected {
            selections[*ty].iter_mut().for_each(Selection::abandon);
        }
    }

    #[cold]
    fn provide(&mut self, full: Full) -> Result<(), Error> {
        if !self.defers || full == Full::Facts {
            return self.grow(full);
        }
        self.recover();
        self.lacked = Some(full);
        Err(Error::new(Kind::OutOfMemory, "the step lacks room; make room and go on"))
    }

    fn grow(&mut self, full: Full) -> Result<(), Error> {
        self.recover();
        let refused =
            || Error::new(Kind::OutOfMemory, "there is no memory for the step; retract facts or allow more memory");
        match full {
            Full::Notices(words) => {
                let notices = &mut self.scratch.notices;
                let left = (self.limits.memory / 4).saturating_sub(self.words.bytes() / 4 + notices.len());
                let least = words as usize;
                let more = least.max(notices.len()).max(256).min(left.max(least));
                if more > left {
                    return Err(refused());
                }
                notices.try_reserve_exact(more).map_err(|_| refused())?;
                notices.resize(notices.len() + more, 0);
                Ok(())
            }
            Full::Released => {
                let released = &mut self.scratch.released;
                let more = (2 * released.capacity()).max(64);
                released.try_reserve_exact(more).map_err(|_| refused())
            }
            full => self.words.grow(full),
        }
    }
}
