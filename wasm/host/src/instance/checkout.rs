//! A checkout lends each of its values to one caller at a time, in the order of their requests.
//!
//! A checkout has *places*. A place has a value, its value is lent, or it is vacant. A caller that finds a vacant place
//! fills it with a new value. Values have a rank, and `check_out` lends the value of the highest rank. Among equal
//! ranks it lends the value that was returned last, whose memory is in the caches. Vacant places come last.
//!
//! A caller that finds a value takes it with one lock and no message. Any other caller joins a first-in-first-out
//! queue, and receives a message when its turn has come. Until it checks a value out, one open place is reserved for
//! it, and no caller overtakes it. Waiters may die: `advance` skips a waiter whose message cannot be delivered, and the
//! destructor of a ticket withdraws the turn of a waiter that dies later. A caller of `check_in`, `vacate`, `withdraw`
//! or `join` also calls `advance`, so that no turn is lost.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

/// `T` is a value, `W` is a waiter in the queue, and `C` identifies the caller that holds a suspended call.
pub struct Checkout<T, W, C> {
    state: Mutex<State<T, W, C>>,
}

struct State<T, W, C> {
    places: Vec<Place<T, C>>,
    /// The places that are not lent: vacant ones first, then those with a value. The last one is lent next.
    open: Vec<usize>,
    /// The turns whose waiters were woken and have not checked a value out: at most one for each open place.
    called: Vec<Turn>,
    queue: VecDeque<(Turn, W)>,
    /// The most waiters in the queue that have no open place yet.
    max_waiters: usize,
    next: u64,
    /// The lowest rank of a value that is kept (`drop_below`).
    min_rank: u64,
    broken: Option<String>,
}

enum Place<T, C> {
    Vacant,
    Here(T),
    /// The value is lent. `Some` is the holder of its suspended call.
    Taken(Option<C>),
}

/// The reason why no value is lent to a caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// All values are lent, or the turn of another caller comes first.
    Busy,
    /// The caller itself holds all values by suspended calls, so it would wait for ever.
    Held,
    /// The next place is vacant, and the caller must fill it (`claim`).
    Vacant,
    Broken(String),
}

/// The state of all places together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Free,
    Running,
    Suspended,
    Broken,
}

impl<T, W, C: Copy + PartialEq> Checkout<T, W, C> {
    /// Returns a checkout of one value, whose queue is unbounded.
    pub fn single(value: T) -> Self {
        Self::new(vec![Place::Here(value)], usize::MAX)
    }

    /// Returns a checkout of vacant places, whose queue has at most `max_waiters` waiters.
    pub fn vacant(places: usize, max_waiters: usize) -> Self {
        Self::new((0..places).map(|_| Place::Vacant).collect(), max_waiters)
    }

    fn new(places: Vec<Place<T, C>>, max_waiters: usize) -> Self {
        // Reversed, so that the first place is filled first.
        let open = (0..places.len()).rev().collect();
        let state = State {
            places,
            open,
            called: Vec::new(),
            queue: VecDeque::new(),
            max_waiters,
            next: 0,
            min_rank: 0,
            broken: None,
        };
        Self { state: Mutex::new(state) }
    }

    /// Lends the value of the highest rank, unless none is free or another caller's turn comes first.
    pub fn check_out(
        &self,
        turn: Option<Turn>,
        caller: C,
        rank: impl Fn(&T) -> u64,
    ) -> Result<(usize, T), Unavailable> {
        let mut state = self.state();
        let last = state.admit(turn, caller)?;
        if let Place::Vacant = state.places[last] {
            return Err(Unavailable::Vacant);
        }
        let index = state.index_of_highest(rank);
        Ok(state.take_value(turn, index))
    }

    /// Lends the value of the lowest rank if that rank is below `limit` and no caller waits.
    pub fn check_out_below(&self, limit: u64, rank: impl Fn(&T) -> u64) -> Option<(usize, T)> {
        let mut state = self.state();
        if state.broken.is_some() || !state.queue.is_empty() || !state.has_unreserved_place() {
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

    /// Reserves a vacant place, which the caller must `fill` or `vacate`. Returns `None` if a value has become free
    /// meanwhile.
    pub fn claim(&self, turn: Option<Turn>, caller: C) -> Result<Option<usize>, Unavailable> {
        let mut state = self.state();
        let place = state.admit(turn, caller)?;
        if let Place::Here(_) = state.places[place] {
            return Ok(None);
        }
        let last = state.open.len() - 1;
        state.take(turn, last);
        Ok(Some(place))
    }

    /// Puts a new value into its place. The place is reserved for the returned turn.
    pub fn fill(&self, place: usize, value: T, rank: u64) -> Turn {
        let mut state = self.state();
        let unfit = state.put(place, value, rank);
        let turn = state.turn();
        state.called.push(turn);
        drop(state);
        drop(unfit);
        turn
    }

    /// Joins the queue, or returns `None` if it is full. The caller must then call `advance`.
    pub fn join(&self, waiter: W) -> Option<Turn> {
        let mut state = self.state();
        // A waiter with an open place is about to be woken, so it does not count.
        let unreserved = state.open.len() - state.called.len();
        if state.queue.len() >= state.max_waiters.saturating_add(unreserved) {
            return None;
        }
        let turn = state.turn();
        state.queue.push_back((turn, waiter));
        Some(turn)
    }

    /// Returns a value to its place. If the result is true, callers wait, and the caller must call `advance`.
    pub fn check_in(&self, place: usize, value: T, rank: u64) -> bool {
        let mut state = self.state();
        let unfit = state.put(place, value, rank);
        let is_awaited = !state.queue.is_empty();
        drop(state);
        // Drop the value outside of the lock.
        drop(unfit);
        is_awaited
    }

    /// Drops the values whose rank is below `min_rank`, now or when they are returned, and vacates their places.
    pub fn drop_below(&self, min_rank: u64, rank: impl Fn(&T) -> u64) {
        let mut state = self.state();
        state.min_rank = min_rank;
        let is_unfit = |place: &Place<T, C>| matches!(place, Place::Here(value) if rank(value) < min_rank);
        let unfit: Vec<usize> = (0..state.places.len()).filter(|place| is_unfit(&state.places[*place])).collect();
        let dropped: Vec<_> = unfit.iter().map(|place| state.empty(*place)).collect();
        drop(state);
        drop(dropped);
    }

    /// Vacates a place whose value is lost. If the result is true, callers wait, and the caller must call `advance`.
    pub fn vacate(&self, place: usize) -> bool {
        let mut state = self.state();
        state.places[place] = Place::Vacant;
        state.open.insert(0, place);
        !state.queue.is_empty()
    }

    /// Records that a suspended call of `holder` has the value.
    pub fn suspend(&self, place: usize, holder: C) {
        self.state().places[place] = Place::Taken(Some(holder));
    }

    /// Records that the call which has the value runs again.
    pub fn resume(&self, place: usize) {
        self.state().places[place] = Place::Taken(None);
    }

    /// Refuses all further callers, because a value is lost for good. The caller must then call `advance`, which wakes
    /// all waiters.
    pub fn poison(&self, why: &str) {
        self.state().broken = Some(why.to_owned());
    }

    /// Gives up a turn. If the result is true, the turn had come, and the caller must call `advance`.
    pub fn withdraw(&self, turn: Turn) -> bool {
        let mut state = self.state();
        if let Some(index) = state.called.iter().position(|called| *called == turn) {
            state.called.swap_remove(index);
            return true;
        }
        // The queue is sorted by turn.
        let waiter = match state.queue.binary_search_by_key(&turn, |(turn, _)| *turn) {
            Ok(index) => state.queue.remove(index),
            Err(_) => None,
        };
        drop(state);
        // Drop the waiter outside of the lock.
        drop(waiter);
        false
    }

    /// Wakes the first waiter in the queue for each open place, and skips dead waiters, for which `wake` returns false.
    /// Wakes all waiters of a poisoned checkout.
    ///
    /// Calls `wake` outside of the lock: it sends a message, for which the BEAM takes locks of its own.
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
        if !state.has_unreserved_place() {
            return None;
        }
        let first = state.queue.pop_front()?;
        state.called.push(first.0);
        Some(first)
    }

    pub fn status(&self) -> Status {
        let state = self.state();
        if state.broken.is_some() {
            Status::Broken
        } else if !state.open.is_empty() {
            Status::Free
        } else if state.places.iter().any(|place| matches!(place, Place::Taken(None))) {
            Status::Running
        } else {
            Status::Suspended
        }
    }

    pub fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    pub fn places(&self) -> usize {
        self.state().places.len()
    }

    /// Returns the number of values, lent or not.
    pub fn filled(&self) -> usize {
        self.state().places.iter().filter(|place| !matches!(place, Place::Vacant)).count()
    }

    /// No code that can panic runs under this lock, so the state of a poisoned lock is consistent.
    fn state(&self) -> MutexGuard<'_, State<T, W, C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, W, C: Copy + PartialEq> State<T, W, C> {
    /// Returns the place that is next in turn, if the caller may have it.
    fn admit(&self, turn: Option<Turn>, caller: C) -> Result<usize, Unavailable> {
        if let Some(why) = &self.broken {
            return Err(Unavailable::Broken(why.clone()));
        }
        let Some(&place) = self.open.last() else {
            let held = |place: &Place<T, C>| matches!(place, Place::Taken(Some(holder)) if *holder == caller);
            return Err(if self.places.iter().all(held) { Unavailable::Held } else { Unavailable::Busy });
        };
        let admitted = match turn {
            Some(turn) => self.called.contains(&turn),
            None => self.queue.is_empty() && self.has_unreserved_place(),
        };
        if admitted {
            Ok(place)
        } else {
            Err(Unavailable::Busy)
        }
    }

    /// Marks the place at `index` of `open` as lent, and ends the caller's turn. Returns its former content.
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

    /// Returns the values that are not lent, the last returned first, each with its index in `open`.
    fn values(&self) -> impl Iterator<Item = (usize, &T)> {
        self.open.iter().enumerate().rev().map_while(|(index, place)| match &self.places[*place] {
            Place::Here(value) => Some((index, value)),
            _ => None,
        })
    }

    /// Returns the index in `open` of the value to lend. The caller has found that one exists.
    fn index_of_highest(&self, rank: impl Fn(&T) -> u64) -> usize {
        let mut best = (0, self.open.len() - 1);
        for (index, value) in self.values() {
            let rank = rank(value);
            if rank > best.0 {
                best = (rank, index);
            }
        }
        best.1
    }

    /// Puts a value into its place, or vacates the place and returns a value of a too low rank.
    fn put(&mut self, place: usize, value: T, rank: u64) -> Option<T> {
        if rank < self.min_rank {
            self.places[place] = Place::Vacant;
            self.open.insert(0, place);
            return Some(value);
        }
        self.places[place] = Place::Here(value);
        self.open.push(place);
        None
    }

    /// Vacates a place that has its value. Returns its former content.
    fn empty(&mut self, place: usize) -> Place<T, C> {
        self.open.retain(|open| *open != place);
        self.open.insert(0, place);
        std::mem::replace(&mut self.places[place], Place::Vacant)
    }

    /// Returns whether an open place is not reserved for a called turn.
    fn has_unreserved_place(&self) -> bool {
        self.open.len() > self.called.len()
    }

    fn turn(&mut self) -> Turn {
        self.next += 1;
        Turn(self.next)
    }
}
