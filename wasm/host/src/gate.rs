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

#[cfg(test)]
mod tests {
    use super::*;

    type TestGate = Gate<&'static str, u32, u32>;

    fn told(gate: &TestGate, dead: &[u32]) -> Vec<u32> {
        let told = std::cell::RefCell::new(Vec::new());
        gate.advance(|waiter| {
            told.borrow_mut().push(*waiter);
            !dead.contains(waiter)
        });
        told.into_inner()
    }

    #[test]
    fn lends_to_one_at_a_time() {
        let gate = TestGate::new("machine");
        let machine = gate.enter(None).unwrap();
        assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
        assert!(!gate.leave(machine));
        assert!(gate.enter(None).is_ok());
    }

    #[test]
    fn calls_waiters_in_order_and_lets_nobody_overtake() {
        let gate = TestGate::new("machine");
        let machine = gate.enter(None).unwrap();
        let first = gate.join(1);
        let second = gate.join(2);
        assert_eq!(told(&gate, &[]), []);
        assert!(gate.leave(machine));
        assert_eq!(told(&gate, &[]), [1]);
        assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
        assert!(matches!(gate.enter(Some(second)), Err(Refusal::Busy)));
        let machine = gate.enter(Some(first)).unwrap();
        assert!(gate.leave(machine));
        assert_eq!(told(&gate, &[]), [2]);
        assert!(gate.enter(Some(second)).is_ok());
    }

    #[test]
    fn passes_over_the_dead() {
        let gate = TestGate::new("machine");
        let machine = gate.enter(None).unwrap();
        gate.join(1);
        let second = gate.join(2);
        let third = gate.join(3);
        gate.leave(machine);
        assert_eq!(told(&gate, &[1]), [1, 2]);
        assert!(gate.forfeit(second));
        assert!(!gate.forfeit(second));
        assert_eq!(told(&gate, &[]), [3]);
        assert!(gate.enter(Some(third)).is_ok());
    }

    #[test]
    fn a_waiter_who_joins_a_free_gate_is_called_at_once() {
        let gate = TestGate::new("machine");
        let turn = gate.join(1);
        assert_eq!(told(&gate, &[]), [1]);
        assert!(gate.enter(Some(turn)).is_ok());
    }

    #[test]
    fn names_the_holder_of_a_suspended_call() {
        let gate = TestGate::new("machine");
        let machine = gate.enter(None).unwrap();
        gate.suspend(7);
        assert_eq!(gate.standing(), Standing::Suspended);
        assert!(matches!(gate.enter(None), Err(Refusal::Suspended(7))));
        gate.resume();
        assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
        gate.leave(machine);
        assert_eq!(gate.standing(), Standing::Free);
    }

    #[test]
    fn a_broken_gate_tells_all_who_wait() {
        let gate = TestGate::new("machine");
        gate.enter(None).unwrap();
        let turn = gate.join(1);
        gate.join(2);
        gate.condemn("why");
        assert_eq!(told(&gate, &[1]), [1, 2]);
        assert!(matches!(gate.enter(Some(turn)), Err(Refusal::Broken(why)) if why == "why"));
        assert!(matches!(gate.enter(None), Err(Refusal::Broken(_))));
    }
}
