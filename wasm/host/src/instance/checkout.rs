//! A gate: each of its values is lent to one caller at a time, in order, and other callers wait in a queue.
//!
//! A gate has *places*. A place has its value, or the value is lent, or the place is vacant. A caller that finds a vacant
//! place makes the value first. Values have a rank, and the value of the highest rank is lent first. Among these it is the value
//! that was returned last, because its memory is in the caches. Vacant places come last.
//!
//! A caller that finds a value takes it with one lock and no message. Any other caller joins the queue, and receives a
//! message when its turn has come. Until it enters, one open place is kept for it, and no caller overtakes it. Waiters may
//! die: a waiter whose message cannot be delivered is skipped, and a waiter that dies before it enters gives its turn up by
//! its ticket's destructor. A caller of `leave`, `vacate`, `withdraw` or `join` also calls `advance`, so no turn is ever
//! lost.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

/// A gate. `T` is the value of a place, `W` is a waiter that is woken when its turn has come, and `C` names the holder of a
/// suspended call.
pub struct Gate<T, W, C> {
    state: Mutex<State<T, W, C>>,
}

struct State<T, W, C> {
    places: Vec<Place<T, C>>,
    /// The places that are vacant or have a value. The last one is lent next, and vacant places are at the front.
    open: Vec<usize>,
    /// The turns that were woken and have not entered. At most as many as open places.
    called: Vec<Turn>,
    queue: VecDeque<(Turn, W)>,
    /// The number of waiters that the queue admits.
    room: usize,
    next: u64,
    /// The lowest rank of a value that stays (`require`).
    least: u64,
    broken: Option<String>,
}

enum Place<T, C> {
    Vacant,
    Here(T),
    /// The value is lent. `Some` names the holder of a suspended call.
    Taken(Option<C>),
}

/// The reason why a caller may not enter.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Running calls have all values, or another caller's turn comes first.
    Busy,
    /// The caller holds all values itself, by suspended calls.
    Held,
    /// The place that the caller would enter is vacant: see `claim`.
    Vacant,
    Broken(String),
}

/// The state of a gate as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Running,
    Suspended,
    Broken,
}

impl<T, W, C: Copy + PartialEq> Gate<T, W, C> {
    /// Returns a gate of one place, with a queue of any length.
    pub fn single(value: T) -> Self {
        Self::new(vec![Place::Here(value)], usize::MAX)
    }

    /// Returns a gate of vacant places whose queue admits `room` waiters.
    pub fn vacant(places: usize, room: usize) -> Self {
        Self::new((0..places).map(|_| Place::Vacant).collect(), room)
    }

    fn new(places: Vec<Place<T, C>>, room: usize) -> Self {
        // Reversed, so that the value of the first place is made first.
        let open = (0..places.len()).rev().collect();
        let state =
            State { places, open, called: Vec::new(), queue: VecDeque::new(), room, next: 0, least: 0, broken: None };
        Self { state: Mutex::new(state) }
    }

    /// Takes a value out of its place, if there is one and no other caller has a turn before this one.
    pub fn enter(&self, turn: Option<Turn>, caller: C, rank: impl Fn(&T) -> u64) -> Result<(usize, T), Refusal> {
        let mut state = self.state();
        let last = state.admit(turn, caller)?;
        if let Place::Vacant = state.places[last] {
            return Err(Refusal::Vacant);
        }
        let index = state.highest(rank);
        Ok(state.take_value(turn, index))
    }

    /// Takes the value of the lowest rank, if that is below `rank` and no caller waits.
    pub fn enter_below(&self, limit: u64, rank: impl Fn(&T) -> u64) -> Option<(usize, T)> {
        let mut state = self.state();
        if state.broken.is_some() || !state.queue.is_empty() || !state.calls() {
            return None;
        }
        let lowest = state.values().map(|(index, value)| (rank(value), index)).min()?;
        (lowest.0 < limit).then(|| state.take_value(None, lowest.1))
    }

    /// Returns the lowest and the highest rank of the values that are not lent.
    pub fn ranks(&self, rank: impl Fn(&T) -> u64) -> Option<(u64, u64)> {
        let state = self.state();
        let mut ranks = state.values().map(|(_, value)| rank(value));
        let first = ranks.next()?;
        Some(ranks.fold((first, first), |(low, high), rank| (low.min(rank), high.max(rank))))
    }

    /// Takes the vacant place that refused the caller, which then makes the value and calls `fill` or `vacate`. Returns
    /// `None` if the caller would find a value now.
    pub fn claim(&self, turn: Option<Turn>, caller: C) -> Result<Option<usize>, Refusal> {
        let mut state = self.state();
        let place = state.admit(turn, caller)?;
        if let Place::Here(_) = state.places[place] {
            return Ok(None);
        }
        let last = state.open.len() - 1;
        state.take(turn, last);
        Ok(Some(place))
    }

    /// Puts a new value of this rank into its place. The place is kept for the turn that is returned.
    pub fn fill(&self, place: usize, value: T, rank: u64) -> Turn {
        let mut state = self.state();
        let unfit = state.put(place, value, rank);
        let turn = state.turn();
        state.called.push(turn);
        drop(state);
        drop(unfit);
        turn
    }

    /// Joins the queue, if it has room. The caller must then call `advance`.
    pub fn join(&self, waiter: W) -> Option<Turn> {
        let mut state = self.state();
        // Waiters for which there is an open place do not count.
        let called_next = state.open.len() - state.called.len();
        if state.queue.len() >= state.room.saturating_add(called_next) {
            return None;
        }
        let turn = state.turn();
        state.queue.push_back((turn, waiter));
        Some(turn)
    }

    /// Puts a value of this rank back. Returns whether somebody waits; the caller must then call `advance`.
    pub fn leave(&self, place: usize, value: T, rank: u64) -> bool {
        let mut state = self.state();
        let unfit = state.put(place, value, rank);
        let is_awaited = !state.queue.is_empty();
        drop(state);
        // A value is dropped outside of the lock.
        drop(unfit);
        is_awaited
    }

    /// Drops the values whose rank is below `least`, now or when they are put back. Their places are vacant then.
    pub fn require(&self, least: u64, rank: impl Fn(&T) -> u64) {
        let mut state = self.state();
        state.least = least;
        let is_unfit = |place: &Place<T, C>| matches!(place, Place::Here(value) if rank(value) < least);
        let unfit: Vec<usize> = (0..state.places.len()).filter(|place| is_unfit(&state.places[*place])).collect();
        let dropped: Vec<_> = unfit.iter().map(|place| state.empty(*place)).collect();
        drop(state);
        drop(dropped);
    }

    /// Makes a place whose value is lost vacant. Returns whether somebody waits; the caller must then call `advance`.
    pub fn vacate(&self, place: usize) -> bool {
        let mut state = self.state();
        state.places[place] = Place::Vacant;
        state.open.insert(0, place);
        !state.queue.is_empty()
    }

    /// Records that the value belongs to a suspended call of `holder`.
    pub fn suspend(&self, place: usize, holder: C) {
        self.state().places[place] = Place::Taken(Some(holder));
    }

    /// Records that the suspended call that has the value runs again.
    pub fn resume(&self, place: usize) {
        self.state().places[place] = Place::Taken(None);
    }

    /// Breaks the gate, because a value is lost and cannot be made again. No caller enters any more. The caller must then
    /// call `advance`, which wakes all waiters.
    pub fn condemn(&self, why: &str) {
        self.state().broken = Some(why.to_owned());
    }

    /// Gives up a turn, called or not. Returns whether it was called; the caller must then call `advance`.
    pub fn withdraw(&self, turn: Turn) -> bool {
        let mut state = self.state();
        if let Some(index) = state.called.iter().position(|called| *called == turn) {
            state.called.swap_remove(index);
            return true;
        }
        // The queue is in the order of turns.
        let waiter = match state.queue.binary_search_by_key(&turn, |(turn, _)| *turn) {
            Ok(index) => state.queue.remove(index),
            Err(_) => None,
        };
        drop(state);
        // The waiter's data is freed outside of the lock.
        drop(waiter);
        false
    }

    /// Wakes a waiter from the head of the queue for each open place, and skips those that `wake` cannot reach. If the gate
    /// is broken, wakes all waiters.
    ///
    /// `wake` runs outside of the lock, because it sends a message and the BEAM has locks of its own.
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

    pub fn places(&self) -> usize {
        self.state().places.len()
    }

    /// Returns the number of places that have a value, lent or not.
    pub fn made(&self) -> usize {
        self.state().places.iter().filter(|place| !matches!(place, Place::Vacant)).count()
    }

    /// No code that can panic runs under this lock, so a poisoned state is consistent.
    fn state(&self) -> MutexGuard<'_, State<T, W, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, W, C: Copy + PartialEq> State<T, W, C> {
    /// Returns the open place that the caller may have.
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

    /// Takes the open place at `index`, and removes the turn that was called for it.
    fn take(&mut self, turn: Option<Turn>, index: usize) -> (usize, Place<T, C>) {
        self.called.retain(|called| Some(*called) != turn);
        let place = self.open.remove(index);
        (place, std::mem::replace(&mut self.places[place], Place::Taken(None)))
    }

    fn take_value(&mut self, turn: Option<Turn>, index: usize) -> (usize, T) {
        match self.take(turn, index) {
            (place, Place::Here(value)) => (place, value),
            _ => unreachable!("the caller found a value in this open place"),
        }
    }

    /// Returns the open places that have a value, from the one that was returned last, by their indexes in `open`. Vacant places
    /// are at the front of `open`.
    fn values(&self) -> impl Iterator<Item = (usize, &T)> {
        self.open.iter().enumerate().rev().map_while(|(index, place)| match &self.places[*place] {
            Place::Here(value) => Some((index, value)),
            _ => None,
        })
    }

    /// Returns the index in `open` of the value of the highest rank, and among these of the one that was returned last. There is a
    /// value.
    fn highest(&self, rank: impl Fn(&T) -> u64) -> usize {
        let mut best = (0, self.open.len() - 1);
        for (index, value) in self.values() {
            let rank = rank(value);
            if rank > best.0 {
                best = (rank, index);
            }
        }
        best.1
    }

    /// Puts a value into its place, or returns it if its rank is too low.
    fn put(&mut self, place: usize, value: T, rank: u64) -> Option<T> {
        if rank < self.least {
            self.places[place] = Place::Vacant;
            self.open.insert(0, place);
            return Some(value);
        }
        self.places[place] = Place::Here(value);
        self.open.push(place);
        None
    }

    /// Makes a place vacant that has its value. Returns the place as it was.
    fn empty(&mut self, place: usize) -> Place<T, C> {
        self.open.retain(|open| *open != place);
        self.open.insert(0, place);
        std::mem::replace(&mut self.places[place], Place::Vacant)
    }

    /// Returns whether there are more open places than called turns.
    fn calls(&self) -> bool {
        self.open.len() > self.called.len()
    }

    fn turn(&mut self) -> Turn {
        self.next += 1;
        Turn(self.next)
    }
}
