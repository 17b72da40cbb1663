//! Turns: firings and the passing of time, in pieces between which a caller may stop.

use crate::compile::code::{Bound, SLOTS};
use crate::engine::transaction::MIN_CHANGED_WORDS;
use crate::engine::{Call, Engine, EventTime};
use crate::error::{Error, Kind};
use crate::firing::actions;
use crate::layout::{AGENDA, CALL_FIRED, CLOCK, GATHERING, NOTICES, NUMBER};
use crate::matches::agenda::{self, Best};
use crate::matches::{deadlines, guards, search};
use crate::memory::order;
use crate::tables::{MATCH_HEAP, WAITING};
use crate::time::due::{self, Due};
use crate::time::waiting;

/// The most facts that a turn drops.
const MAX_DROPS: usize = 16;

/// The limit that paused a run before a rule fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The call reached the limit on firings.
    Firings,
    /// The pending notices reached their limit.
    Notices,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of firings of this call.
    pub firings: u32,
    /// The limit that paused the run, or `None` if no rule is due.
    pub pause: Option<Pause>,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more to do.
    More,
    /// There is no more to do.
    Done,
    /// A limit paused the call before a rule fired.
    Paused(Pause),
}

/// The outcome of a step on the agenda.
enum Stepped {
    /// No rule fired.
    Prepared,
    /// This rule fired.
    Fired(u32),
    /// A limit stopped this step before a rule fired. The step changed nothing.
    Paused(Pause),
}

impl Engine {
    /// Raises the event time of sources, and moves time to the watermark that follows. On the way, waiting facts are inserted, due
    /// rules fire, and facts that no rule can use any more are dropped.
    ///
    /// # Errors
    ///
    /// `out_of_bounds` if the limit on firings or on notices stops it. Time has then moved as far as rules fired: take the notices,
    /// and advance again. `out_of_bounds` also for a time beyond the bounds and as [`Clock::check_source`](crate::Clock); `out_of_memory`.
    pub fn advance(&mut self, event_time: EventTime) -> Result<(), Error> {
        self.recover();
        self.clock().check(event_time)?;
        self.all_turns(self.clock().after(event_time))?;
        self.reach(event_time)
    }

    /// Takes turns up to a time until nothing is left to do.
    ///
    /// Errors: as [`Engine::advance`].
    pub(super) fn all_turns(&mut self, time: i64) -> Result<(), Error> {
        loop {
            let message = match self.turn_to(time)? {
                Turn::More => continue,
                Turn::Done => return Ok(()),
                Turn::Paused(Pause::Firings) => {
                    "the call has fired as many rules as its limit allows; run on in another call"
                }
                Turn::Paused(Pause::Notices) => "as many notices wait as the limit allows; take them, then run on",
            };
            return Err(Error::new(Kind::OutOfBounds, message));
        }
    }

    /// Moves time towards the watermark `now` by one turn: one firing, one due match, one waiting fact, or the drop of a few facts.
    ///
    /// Errors: `out_of_memory`, and `out_of_bounds` if there are too many facts.
    pub fn turn_to(&mut self, now: i64) -> Result<Turn, Error> {
        let Some(first) = WAITING.first(&self.words) else { return self.turn_before(now) };
        let time = order::time(&self.words, first);
        if time > now {
            return self.turn_before(now);
        }
        match self.turn_before(time)? {
            Turn::Done => self.retried(|step| waiting::stop_waiting(step, first)).map(|()| Turn::More),
            other => Ok(other),
        }
    }

    /// Takes a turn up to `now`, before which no waiting fact is due.
    fn turn_before(&mut self, now: i64) -> Result<Turn, Error> {
        // All events of one time happen before rules fire.
        if self.words.get(GATHERING) == 1 {
            let at = self.clock().now();
            self.retried(|step| match due::first_due(step, at) {
                Some((time, due @ Due::Match(_))) => due::happen(step, time, due),
                _ => step.words.set(GATHERING, 0),
            })?;
            return Ok(Turn::More);
        }
        match self.turn()? {
            Turn::Done => {}
            other => return Ok(other),
        }
        if self.clock().now() > now {
            return Ok(Turn::Done);
        }
        let may_save = self.words.changed_in_transaction() >= MIN_CHANGED_WORDS;
        self.retried(|step| {
            // Drops can share a step: a drop makes no rule due, and no match still waits at its time.
            for position in 0..MAX_DROPS {
                let Some((time, due)) = due::first_due(step, now) else {
                    if step.clock() != now {
                        step.words.set64(CLOCK, now as u64)?;
                    }
                    return Ok(Turn::Done);
                };
                // Nothing is due up to here, so `save_time` may save.
                if may_save && position > 0 && time > step.clock() {
                    break;
                }
                due::happen(step, time, due)?;
                if let Due::Match(_) = due {
                    step.words.set(GATHERING, 1)?;
                    break;
                }
            }
            Ok(Turn::More)
        })
    }

    /// Returns whether rules are on the agenda.
    pub fn is_busy(&self) -> bool {
        self.words.get(AGENDA) > 0 || MATCH_HEAP.len(&self.words) > 0
    }

    /// Fires rules until none is due, or until a limit pauses the call.
    ///
    /// # Errors
    ///
    /// `out_of_memory`, and `out_of_bounds` if there are too many facts. The firings so far stand, and the failed one stays due.
    pub fn run(&mut self) -> Result<Run, Error> {
        self.recover();
        loop {
            let pause = match self.turn()? {
                Turn::More => continue,
                Turn::Done => None,
                Turn::Paused(pause) => Some(pause),
            };
            return Ok(Run { firings: self.words.get(CALL_FIRED), pause });
        }
    }

    /// Runs one turn of [`Engine::run`]. A turn that pauses changes nothing.
    ///
    /// Errors: as [`Engine::run`].
    pub fn turn(&mut self) -> Result<Turn, Error> {
        if !self.is_busy() {
            return Ok(Turn::Done);
        }
        match self.step()? {
            Stepped::Prepared => {}
            Stepped::Paused(pause) => return Ok(Turn::Paused(pause)),
            Stepped::Fired(rule) => self.history.add(rule, &self.scratch.fired),
        }
        Ok(Turn::More)
    }

    /// Advances the best entry of the agenda by one step.
    fn step(&mut self) -> Result<Stepped, Error> {
        let is_quiet = self.call.is_quiet();
        let is_recorded = self.history.is_recorded();
        let pause = self.pause();
        self.retried(|step| {
            let mut bound: Bound = [0; SLOTS + 1];
            let number = match agenda::best(step) {
                None => return Ok(Stepped::Prepared),
                Some(Best::Seed(number)) => {
                    let Some(found) = search::next_match(step, number, &mut bound)? else {
                        return Ok(Stepped::Prepared);
                    };
                    let deadline = guards::deadline(step, &step.program.rules[number as usize], &bound);
                    if deadline > step.clock() {
                        search::keep(step, found)?;
                        deadlines::wait(step, number, &bound, deadline)?;
                        return Ok(Stepped::Prepared);
                    }
                    if let Some(pause) = pause {
                        return Ok(Stepped::Paused(pause));
                    }
                    search::keep(step, found)?;
                    number
                }
                Some(Best::Match) => {
                    let (number, are_there) = agenda::first_match(step, &mut bound);
                    let rule = &step.program.rules[number as usize];
                    let is_valid =
                        are_there && rule.guards.iter().all(|guard| guards::guard_holds(step, guard, &mut bound));
                    if let (true, Some(pause)) = (is_valid, pause) {
                        return Ok(Stepped::Paused(pause));
                    }
                    agenda::pop_match(step)?;
                    if !is_valid {
                        return Ok(Stepped::Prepared);
                    }
                    number
                }
            };
            if is_quiet {
                return Ok(Stepped::Prepared);
            }
            if is_recorded {
                let facts = bound.iter().take(step.program.rules[number as usize].slots.len());
                for (place, fact) in step.scratch.fired.iter_mut().zip(facts) {
                    *place = step.words.get64(fact + NUMBER);
                }
            }
            actions::fire(step, number, &mut bound)?;
            Ok(Stepped::Fired(number))
        })
    }

    /// Returns the limit that forbids the next firing, if any.
    fn pause(&self) -> Option<Pause> {
        let max_firings = match self.call {
            Call::Fire => self.limits.firings,
            Call::FireAtMost(most) => most,
            Call::Reload | Call::ReloadWaiting => return None,
        };
        if self.words.get(NOTICES) >= self.limits.notices {
            Some(Pause::Notices)
        } else if self.words.get(CALL_FIRED) >= max_firings {
            Some(Pause::Firings)
        } else {
            None
        }
    }
}
