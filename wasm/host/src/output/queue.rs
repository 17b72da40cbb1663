//! The queue of full pages, with the limits and the counts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::limits::{Amount, Limits, Overflow};
use super::open::Open;
use super::page::Page;

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The writer must be woken if `wake`.
    Pushed {
        wake: bool,
    },
    Full,
    Dropped,
    Disconnected,
}

/// Pages for the sink, in order.
pub struct Job {
    pub pages: Vec<Page>,
    /// The dropped messages that no earlier job told the sink.
    pub dropped: u64,
}

/// The room of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It is overloaded.
    None,
    Some(Amount),
    /// It is empty, so it takes a page of any size.
    Empty,
}

/// What a sweep of the open pages found.
pub struct Sweep {
    /// When the next open page is due.
    pub next: Option<Duration>,
    /// Some due pages have no room in the queue.
    pub stuck: bool,
}

pub struct Queue {
    state: Mutex<State>,
    closed: AtomicBool,
    /// The number of changes of the settings.
    epoch: AtomicU64,
    /// Copies of the limits of pages, for senders without the lock.
    page_bytes: AtomicUsize,
    page_messages: AtomicUsize,
}

struct State {
    limits: Limits,
    pages: VecDeque<Page>,
    queued: Amount,
    in_hand: Option<InHand>,
    overloaded: bool,
    /// Senders wait for room, so another one may not go before them.
    waiting: bool,
    /// The writer knows that the queue has pages.
    ready: bool,
    /// The writer knows that there are open pages.
    awake: bool,
    /// The senders with open pages, and some that had one.
    open: Vec<Arc<Open>>,
    senders: Vec<Weak<Open>>,
    /// The accepted messages of senders that ended.
    accepted: u64,
    delivered: u64,
    dropped: u64,
    /// The refused messages among the dropped ones: no sender accepted them.
    refused: u64,
    /// The dropped messages that the sink was told.
    told: u64,
    lost: u64,
    /// The messages that entered the queue, and those that left it. A flush waits until the second number reaches the first.
    entered: u64,
    left: u64,
}

struct InHand {
    amount: Amount,
    dropped: u64,
    since: Option<Instant>,
}

impl Queue {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                limits,
                pages: VecDeque::new(),
                queued: Amount::default(),
                in_hand: None,
                overloaded: false,
                waiting: false,
                ready: false,
                awake: false,
                open: Vec::new(),
                senders: Vec::new(),
                accepted: 0,
                delivered: 0,
                dropped: 0,
                refused: 0,
                told: 0,
                lost: 0,
                entered: 0,
                left: 0,
            }),
            closed: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            page_bytes: AtomicUsize::new(limits.page),
            page_messages: AtomicUsize::new(limits.page_messages()),
        })
    }

    /// Replaces the limits, and returns the new epoch.
    pub fn configure(&self, limits: Limits) -> u64 {
        self.state().limits = limits;
        self.page_bytes.store(limits.page, Ordering::Relaxed);
        self.page_messages.store(limits.page_messages(), Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn page(&self) -> (usize, usize) {
        (self.page_bytes.load(Ordering::Relaxed), self.page_messages.load(Ordering::Relaxed))
    }

    /// Lists a sender with an open page. Returns whether the writer must be woken.
    pub fn list(&self, open: Arc<Open>) -> bool {
        let mut state = self.state();
        state.open.push(open);
        !std::mem::replace(&mut state.awake, true)
    }

    /// Sets whether senders wait for room.
    pub fn set_waiting(&self, waiting: bool) {
        self.state().waiting = waiting;
    }

    /// Moves an open page, if there is one, into the queue, and a message that goes `alone` behind it. Without room for both
    /// neither is moved, and the message is treated as the limits say.
    pub fn push(&self, open: &mut Option<Page>, alone: Option<&[u8]>, turn: bool) -> Outcome {
        let mut amount = open.as_ref().map_or(Amount::default(), Page::amount);
        if let Some(message) = alone {
            amount += Amount { bytes: message.len() as u64, messages: 1 };
        }
        if amount.messages == 0 {
            return Outcome::Pushed { wake: false };
        }
        let mut state = self.state();
        if state.waiting && !turn && state.limits.overflow == Overflow::Block {
            return Outcome::Full;
        }
        if !state.admit(amount) {
            match state.limits.overflow {
                Overflow::Block => return Outcome::Full,
                Overflow::DropNew => {
                    state.dropped += 1;
                    state.refused += 1;
                    return Outcome::Dropped;
                }
                Overflow::DropOld => state.evict_for(amount),
                Overflow::Disconnect => {
                    self.closed.store(true, Ordering::Release);
                    return Outcome::Disconnected;
                }
            }
        }
        state.push(open);
        state.push(&mut alone.map(Page::new));
        Outcome::Pushed { wake: !std::mem::replace(&mut state.ready, true) }
    }

    /// Moves an open page into the queue, and returns whether it had room.
    pub fn push_if_room(&self, page: &mut Option<Page>) -> bool {
        let Some(amount) = page.as_ref().map(Page::amount) else { return true };
        let mut state = self.state();
        if !state.has_room(amount) {
            if state.limits.overflow != Overflow::DropOld {
                return false;
            }
            state.evict_for(amount);
        }
        state.push(page);
        true
    }

    /// Returns the open page of a new sender.
    pub fn enter(&self) -> Arc<Open> {
        let open = Arc::default();
        self.state().senders.push(Arc::downgrade(&open));
        open
    }

    /// Ends a sender. Its page moves into the queue. Without room it may take as much again as the limits allow, because its
    /// messages were accepted, and is dropped beyond that.
    pub fn leave(&self, open: &Open) {
        let mut sender = open.lock();
        if std::mem::replace(&mut sender.ended, true) {
            return;
        }
        self.push_if_room(&mut sender.page);
        let mut state = self.state();
        state.accepted += sender.accepted;
        let Some(amount) = sender.page.as_ref().map(Page::amount) else { return };
        let hard = state.limits.hard;
        if (state.used() + amount).fits(hard + hard) {
            state.push(&mut sender.page);
        } else {
            state.dropped += amount.messages;
            sender.page = None;
        }
    }

    /// Moves the open pages that are as old as `linger` into the queue.
    pub fn sweep(&self, linger: Duration) -> Sweep {
        let mut open = {
            let mut state = self.state();
            state.awake = false;
            std::mem::take(&mut state.open)
        };
        let now = Instant::now();
        let mut sweep = Sweep { next: None, stuck: false };
        open.retain(|open| {
            let mut sender = open.lock();
            if let Some(page) = &sender.page {
                let age = now.saturating_duration_since(page.since);
                if age < linger {
                    let left = linger - age;
                    sweep.next = Some(sweep.next.map_or(left, |next| next.min(left)));
                    return true;
                }
                if !self.push_if_room(&mut sender.page) {
                    sweep.stuck = true;
                    return true;
                }
            }
            sender.listed = false;
            false
        });
        let mut state = self.state();
        state.awake |= !open.is_empty();
        state.open.append(&mut open);
        sweep
    }

    /// Moves all open pages into the queue, whatever its limits are: a flush happens seldom. Returns the number of messages that
    /// have ever entered the queue.
    pub fn flush(&self) -> u64 {
        for open in self.senders() {
            let mut sender = open.lock();
            self.state().push(&mut sender.page);
        }
        self.state().entered
    }

    /// Returns the number of messages that have ever left the queue: delivered, lost or dropped.
    pub fn left(&self) -> u64 {
        self.state().left
    }

    /// Takes pages of at least `bytes`, if there are so many, from the head of the queue.
    pub fn next(&self, bytes: usize) -> Option<Job> {
        let mut state = self.state();
        let dropped = state.dropped - state.told;
        if state.in_hand.is_some() || (state.pages.is_empty() && dropped == 0) {
            state.ready = state.in_hand.is_some();
            return None;
        }
        let since = state.pages.front().map(|page| page.since);
        let mut job = Job { pages: Vec::new(), dropped };
        let mut amount = Amount::default();
        while (amount.bytes as usize) < bytes {
            let Some(page) = state.pages.pop_front() else { break };
            amount += page.amount();
            job.pages.push(page);
        }
        state.queued -= amount;
        state.in_hand = Some(InHand { amount, dropped, since });
        Some(job)
    }

    /// Ends the job in hand. Returns its lateness: the age of its oldest page.
    pub fn settle(&self, delivered: bool) -> Duration {
        let mut state = self.state();
        let Some(job) = state.in_hand.take() else { return Duration::ZERO };
        state.left += job.amount.messages;
        if delivered {
            state.delivered += job.amount.messages;
            state.told += job.dropped;
        } else {
            state.lost += job.amount.messages;
        }
        state.overloaded &= !state.used().fits(state.limits.soft());
        job.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the room for senders that wait.
    pub fn room(&self) -> Room {
        let mut state = self.state();
        let used = state.used();
        if used.messages > 0 && state.overloaded && !used.fits(state.limits.soft()) {
            return Room::None;
        }
        state.overloaded = false;
        let hard = state.limits.hard;
        match used.messages {
            0 => Room::Empty,
            _ => Room::Some(Amount {
                bytes: hard.bytes.saturating_sub(used.bytes),
                messages: hard.messages.saturating_sub(used.messages),
            }),
        }
    }

    /// Closes the queue, and counts its pages and the open ones as dropped or as lost.
    pub fn close(&self, dropped: bool) {
        self.closed.store(true, Ordering::Release);
        let mut open = 0;
        for sender in self.senders() {
            let mut sender = sender.lock();
            sender.listed = false;
            open += sender.page.take().map_or(0, |page| page.amount().messages);
        }
        let mut state = self.state();
        let messages = open + state.queued.messages;
        state.left += state.queued.messages;
        state.pages.clear();
        state.open.clear();
        (state.ready, state.awake) = (false, false);
        state.queued = Amount::default();
        state.overloaded = false;
        if dropped {
            state.dropped += messages;
        } else {
            state.lost += messages;
        }
    }

    pub fn reopen(&self) {
        self.closed.store(false, Ordering::Release);
    }

    pub fn counts(&self) -> Counts {
        let now = Instant::now();
        let mut counts = Counts::default();
        let mut oldest: Option<Instant> = None;
        // A message that moves into the queue meanwhile is counted once too much or too little.
        for sender in self.senders() {
            let sender = sender.lock();
            if !sender.ended {
                counts.senders += 1;
                counts.accepted += sender.accepted;
            }
            if let Some(page) = &sender.page {
                counts.open += page.amount();
                oldest = oldest.into_iter().chain([page.since]).min();
            }
        }
        let state = self.state();
        let in_hand = state.in_hand.as_ref();
        counts.accepted += state.accepted + state.refused;
        counts.delivered = state.delivered;
        counts.dropped = state.dropped;
        counts.lost = state.lost;
        counts.queued = state.queued;
        counts.in_hand = in_hand.map_or(Amount::default(), |job| job.amount);
        counts.pages = state.pages.len() as u64;
        counts.overloaded = state.overloaded;
        let waiting = in_hand.and_then(|job| job.since).into_iter().chain(state.pages.front().map(|page| page.since));
        let oldest = oldest.into_iter().chain(waiting).min();
        counts.lateness =
            oldest.map_or(0, |oldest| now.saturating_duration_since(oldest).as_micros().try_into().unwrap_or(u64::MAX));
        counts
    }

    /// Returns the living senders. Those without a process are forgotten.
    fn senders(&self) -> Vec<Arc<Open>> {
        let mut state = self.state();
        let senders: Vec<_> = state.senders.iter().filter_map(Weak::upgrade).collect();
        if senders.len() < state.senders.len() {
            state.senders = senders.iter().map(Arc::downgrade).collect();
        }
        senders
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What the limits count.
    fn used(&self) -> Amount {
        match self.limits.overflow {
            // The pages of a job cannot be evicted.
            Overflow::DropOld => self.queued,
            _ => self.queued + self.in_hand.as_ref().map_or(Amount::default(), |job| job.amount),
        }
    }

    fn has_room(&self, amount: Amount) -> bool {
        let used = self.used();
        let calm = !self.overloaded || used.fits(self.limits.soft());
        used.messages == 0 || calm && (used + amount).fits(self.limits.hard)
    }

    /// Returns whether an amount has room. The first refusal begins an overload, which ends at the soft limit.
    fn admit(&mut self, amount: Amount) -> bool {
        let room = self.has_room(amount);
        self.overloaded = !room && self.limits.overflow != Overflow::DropOld;
        room
    }

    fn evict_for(&mut self, amount: Amount) {
        while !self.has_room(amount) {
            let Some(page) = self.pages.pop_front() else { return };
            let evicted = page.amount();
            self.queued -= evicted;
            self.dropped += evicted.messages;
            self.left += evicted.messages;
        }
    }

    fn push(&mut self, page: &mut Option<Page>) {
        if let Some(page) = page.take() {
            let amount = page.amount();
            self.queued += amount;
            self.entered += amount.messages;
            self.pages.push_back(page);
        }
    }
}
