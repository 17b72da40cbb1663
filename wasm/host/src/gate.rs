//! One at a time, in order: the value behind a gate is lent to one caller, and the others wait in a queue.
//!
//! A caller who finds the gate free walks through: one lock, no message. Another joins the queue and is told by a
//! message when its turn has come; until it enters, the turn is its own, and nobody overtakes it. Waiters die: one
//! whose message cannot be delivered is passed over, and one who dies between message and entry forfeits its turn
//! (its ticket's destructor says so). Whoever leaves, forfeits or joins calls `advance`, so no turn is ever lost.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

/// Lends a `T`; `W` is told when a waiter's turn has come, and `C` names the holder of a suspended call.
pub struct Gate<T, W, C> {
    state: Mutex<State<T, W, C>>,
}

struct State<T, W, C> {
    place: Place<T, C>,
    /// Whose turn it is, told but not yet entered.
    called: Option<Turn>,
    queue: VecDeque<(Turn, W)>,
    next: u64,
}

enum Place<T, C> {
    Free(T),
    /// Lent; to a call that is suspended, if its holder is named.
    Taken(Option<C>),
    Broken(String),
}

/// Why a caller may not enter.
#[derive(Debug)]
pub enum Refusal<C> {
    /// A running call has it, or another caller's turn comes first.
    Busy,
    /// A suspended call has it, and this is who holds that.
    Suspended(C),
    Broken(String),
}

/// What the gate looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Running,
    Suspended,
    Broken,
}

impl<T, W, C: Copy> Gate<T, W, C> {
    pub fn new(value: T) -> Self {
        Self { state: Mutex::new(State { place: Place::Free(value), called: None, queue: VecDeque::new(), next: 0 }) }
    }

    /// Takes the value out, if it is here and nobody else is before the caller.
    pub fn enter(&self, turn: Option<Turn>) -> Result<T, Refusal<C>> {
        let mut state = self.state();
        match &state.place {
            Place::Broken(why) => return Err(Refusal::Broken(why.clone())),
            Place::Taken(None) => return Err(Refusal::Busy),
            Place::Taken(Some(holder)) => return Err(Refusal::Suspended(*holder)),
            Place::Free(_) if state.called != turn => return Err(Refusal::Busy),
            Place::Free(_) => {}
        }
        state.called = None;
        match std::mem::replace(&mut state.place, Place::Taken(None)) {
            Place::Free(value) => Ok(value),
            _ => unreachable!("seen free under the same lock"),
        }
    }

    /// Joins the queue. The caller must then call `advance`.
    pub fn join(&self, waiter: W) -> Turn {
        let mut state = self.state();
        let turn = Turn(state.next);
        state.next += 1;
        state.queue.push_back((turn, waiter));
        turn
    }

    /// Puts the value back. Answers whether somebody waits: then the caller must call `advance`.
    pub fn leave(&self, value: T) -> bool {
        let mut state = self.state();
        state.place = Place::Free(value);
        !state.queue.is_empty()
    }

    /// Whoever has the value left it in a suspended call that belongs to `holder`.
    pub fn suspend(&self, holder: C) {
        self.state().place = Place::Taken(Some(holder));
    }

    /// Whoever has the value goes on with its suspended call.
    pub fn resume(&self) {
        self.state().place = Place::Taken(None);
    }

    /// The value is lost; nobody enters again. The caller must then call `advance`, which tells all who wait.
    pub fn condemn(&self, why: &str) {
        self.state().place = Place::Broken(why.to_owned());
    }

    /// Gives up a turn that was called. Answers whether it was: then the caller must call `advance`.
    pub fn forfeit(&self, turn: Turn) -> bool {
        let mut state = self.state();
        let called = state.called == Some(turn);
        if called {
            state.called = None;
        }
        called
    }

    /// Calls the first in the queue whom `wake` can reach, if the gate is free; all of them if it is broken.
    ///
    /// `wake` runs outside of the lock: it sends a message, and the BEAM has locks of its own.
    pub fn advance(&self, wake: impl Fn(&W) -> bool) {
        while let Some((turn, waiter)) = self.call_first() {
            if !wake(&waiter) {
                self.forfeit(turn);
            }
        }
    }

    fn call_first(&self) -> Option<(Turn, W)> {
        let mut state = self.state();
        match state.place {
            Place::Taken(_) => None,
            Place::Free(_) if state.called.is_some() => None,
            Place::Free(_) => {
                let first = state.queue.pop_front()?;
                state.called = Some(first.0);
                Some(first)
            }
            Place::Broken(_) => state.queue.pop_front(),
        }
    }

    pub fn standing(&self) -> Standing {
        match self.state().place {
            Place::Free(_) => Standing::Free,
            Place::Taken(None) => Standing::Running,
            Place::Taken(Some(_)) => Standing::Suspended,
            Place::Broken(_) => Standing::Broken,
        }
    }

    pub fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    /// No code that can panic runs under this lock, so a poisoned state is a whole one.
    fn state(&self) -> MutexGuard<'_, State<T, W, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
