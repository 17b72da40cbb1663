//! So many at a time, in order: the values behind a gate are lent to one caller each, and the others wait in a queue.
//!
//! A gate has *places*. A place holds a value, or its value is lent, or it is vacant: then whoever comes upon it makes
//! the value first. Of the values that are there, the one that came back last goes out first, for it is warm; a vacant
//! place comes after all of them.
//!
//! A caller who finds a value walks through: one lock, no message. Another joins the queue and is told by a message
//! when its turn has come; until it enters, one of the open places is kept for it, and nobody overtakes it. Waiters
//! die: one whose message cannot be delivered is passed over, and one who dies before it enters gives its turn up (its
//! ticket's destructor says so). Whoever leaves, vacates, withdraws or joins calls `advance`, so no turn is ever lost.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

/// Lends a `T` from each of its places; `W` is told when a waiter's turn has come, and `C` names the holder of a
/// suspended call.
pub struct Gate<T, W, C> {
    state: Mutex<State<T, W, C>>,
}

struct State<T, W, C> {
    places: Vec<Place<T, C>>,
    /// The places that are vacant or hold a value; the next is the last, and the vacant ones come first.
    open: Vec<usize>,
    /// Whose turn it is, told but not yet entered: no more than there are open places.
    called: Vec<Turn>,
    queue: VecDeque<(Turn, W)>,
    /// How many may wait.
    room: usize,
    next: u64,
    broken: Option<String>,
}

enum Place<T, C> {
    Vacant,
    Here(T),
    /// Lent; to a call that is suspended, if its holder is named.
    Taken(Option<C>),
}

/// Why a caller may not enter.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Running calls have all values, or another caller's turn comes first.
    Busy,
    /// The caller holds all values itself, by calls that are suspended.
    Held,
    /// The place that the caller would enter is vacant: see `claim`.
    Vacant,
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

impl<T, W, C: Copy + PartialEq> Gate<T, W, C> {
    /// A gate of one place, with a queue of any length.
    pub fn single(value: T) -> Self {
        Self::new(vec![Place::Here(value)], usize::MAX)
    }

    /// A gate of vacant places, and how many may wait.
    pub fn vacant(places: usize, room: usize) -> Self {
        Self::new((0..places).map(|_| Place::Vacant).collect(), room)
    }

    fn new(places: Vec<Place<T, C>>, room: usize) -> Self {
        // The first place is the first to be made.
        let open = (0..places.len()).rev().collect();
        let state = State { places, open, called: Vec::new(), queue: VecDeque::new(), room, next: 0, broken: None };
        Self { state: Mutex::new(state) }
    }

    /// Takes a value out of its place, if one is here and nobody else is before the caller.
    pub fn enter(&self, turn: Option<Turn>, caller: C) -> Result<(usize, T), Refusal> {
        let mut state = self.state();
        let place = state.admit(turn, caller)?;
        if let Place::Vacant = state.places[place] {
            return Err(Refusal::Vacant);
        }
        match state.take(turn) {
            Place::Here(value) => Ok((place, value)),
            _ => unreachable!("an open place that is not vacant has a value"),
        }
    }

    /// Takes the vacant place that refused the caller, for it to make the value. Then comes `fill` or `vacate`. Answers
    /// nothing where the caller would find a value by now.
    pub fn claim(&self, turn: Option<Turn>, caller: C) -> Result<Option<usize>, Refusal> {
        let mut state = self.state();
        let place = state.admit(turn, caller)?;
        if let Place::Here(_) = state.places[place] {
            return Ok(None);
        }
        state.take(turn);
        Ok(Some(place))
    }

    /// Puts the value that was made into its place, where it is kept for whoever has the turn.
    pub fn fill(&self, place: usize, value: T) -> Turn {
        let mut state = self.state();
        state.put(place, value);
        let turn = state.turn();
        state.called.push(turn);
        turn
    }

    /// Joins the queue, if it has room. The caller must then call `advance`.
    pub fn join(&self, waiter: W) -> Option<Turn> {
        let mut state = self.state();
        // Those who are about to be called do not have to wait.
        let called_next = state.open.len() - state.called.len();
        if state.queue.len() >= state.room.saturating_add(called_next) {
            return None;
        }
        let turn = state.turn();
        state.queue.push_back((turn, waiter));
        Some(turn)
    }

    /// Puts a value back. Answers whether somebody waits: then the caller must call `advance`.
    pub fn leave(&self, place: usize, value: T) -> bool {
        let mut state = self.state();
        state.put(place, value);
        !state.queue.is_empty()
    }

    /// The value of a place is lost, and another can be made. Answers whether somebody waits: then the caller must call
    /// `advance`.
    pub fn vacate(&self, place: usize) -> bool {
        let mut state = self.state();
        state.places[place] = Place::Vacant;
        state.open.insert(0, place);
        !state.queue.is_empty()
    }

    /// Whoever has the value left it in a suspended call that belongs to `holder`.
    pub fn suspend(&self, place: usize, holder: C) {
        self.state().places[place] = Place::Taken(Some(holder));
    }

    /// Whoever has the value goes on with its suspended call.
    pub fn resume(&self, place: usize) {
        self.state().places[place] = Place::Taken(None);
    }

    /// A value is lost for which there is no other; nobody enters again. The caller must then call `advance`, which
    /// tells all who wait.
    pub fn condemn(&self, why: &str) {
        self.state().broken = Some(why.to_owned());
    }

    /// Gives up a turn, called or not. Answers whether it was called: then the caller must call `advance`.
    pub fn withdraw(&self, turn: Turn) -> bool {
        let mut state = self.state();
        if let Some(index) = state.called.iter().position(|called| *called == turn) {
            state.called.swap_remove(index);
            return true;
        }
        // Turns stand in the queue in order.
        let waiter = match state.queue.binary_search_by_key(&turn, |(turn, _)| *turn) {
            Ok(index) => state.queue.remove(index),
            Err(_) => None,
        };
        drop(state);
        // What a waiter has is not freed under the lock.
        drop(waiter);
        false
    }

    /// Calls as many from the head of the queue as there are open places, passing over those whom `wake` cannot reach;
    /// all of them if the gate is broken.
    ///
    /// `wake` runs outside of the lock: it sends a message, and the BEAM has locks of its own.
    pub fn advance(&self, wake: impl Fn(&W) -> bool) {
        while let Some((turn, waiter)) = self.call_first() {
            if !wake(&waiter) {
                self.withdraw(turn);
            }
        }
    }

    fn call_first(&self) -> Option<(Turn, W)> {
        let mut state = self.state();
        if state.broken.is_some() {
            return state.queue.pop_front();
        }
        if !state.calls() {
            return None;
        }
        let first = state.queue.pop_front()?;
        state.called.push(first.0);
        Some(first)
    }

    pub fn standing(&self) -> Standing {
        let state = self.state();
        if state.broken.is_some() {
            Standing::Broken
        } else if !state.open.is_empty() {
            Standing::Free
        } else if state.places.iter().any(|place| matches!(place, Place::Taken(None))) {
            Standing::Running
        } else {
            Standing::Suspended
        }
    }

    pub fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    /// How many places have a value, lent or not.
    pub fn made(&self) -> usize {
        self.state().places.iter().filter(|place| !matches!(place, Place::Vacant)).count()
    }

    /// No code that can panic runs under this lock, so a poisoned state is a whole one.
    fn state(&self) -> MutexGuard<'_, State<T, W, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, W, C: Copy + PartialEq> State<T, W, C> {
    /// The open place that the caller may have, if it may have one.
    fn admit(&self, turn: Option<Turn>, caller: C) -> Result<usize, Refusal> {
        if let Some(why) = &self.broken {
            return Err(Refusal::Broken(why.clone()));
        }
        let Some(&place) = self.open.last() else {
            let held = |place: &Place<T, C>| matches!(place, Place::Taken(Some(holder)) if *holder == caller);
            return Err(if self.places.iter().all(held) { Refusal::Held } else { Refusal::Busy });
        };
        let admitted = match turn {
            Some(turn) => self.called.contains(&turn),
            None => self.queue.is_empty() && self.calls(),
        };
        if admitted {
            Ok(place)
        } else {
            Err(Refusal::Busy)
        }
    }

    /// Takes the next open place, by a turn that was called if there is one.
    fn take(&mut self, turn: Option<Turn>) -> Place<T, C> {
        self.called.retain(|called| Some(*called) != turn);
        let place = self.open.pop().expect("admit found it");
        std::mem::replace(&mut self.places[place], Place::Taken(None))
    }

    fn put(&mut self, place: usize, value: T) {
        self.places[place] = Place::Here(value);
        self.open.push(place);
    }

    /// Whether there is an open place for one more than those whose turn was called.
    fn calls(&self) -> bool {
        self.open.len() > self.called.len()
    }

    fn turn(&mut self) -> Turn {
        self.next += 1;
        Turn(self.next)
    }
}
