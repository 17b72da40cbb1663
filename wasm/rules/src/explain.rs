//! Explains why a rule has fired or has not: the facts that meet its conditions, or the condition that blocks it.

use crate::compile::code::{Bound, OWN, SLOTS};
use crate::compile::program::{Aggregate, Plan, Rule};
use crate::engine::{Engine, Fact};
use crate::error::Error;
use crate::matches::guards;
use crate::memory::Address;
use crate::step::Step;

/// The most facts that an explanation examines.
const MAX_LOOKS: u32 = 200_000;

/// The result of explaining a rule, or one combination of its alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The facts that meet the first conditions, in the order of the conditions, up to the blocking one.
    pub facts: Vec<Fact>,
    /// The reason that the rule stops there.
    pub verdict: Verdict,
}

/// The state of a combination of facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All conditions hold, and the rule fired.
    Fired,
    /// All conditions hold, and the rule fires when the engine runs.
    Due,
    /// All conditions hold so far, and the rule waits for the window that closes at this event time.
    Waits(i64),
    /// A condition does not hold.
    Blocked {
        /// The line of the condition.
        line: usize,
        /// The text of that line.
        text: String,
        /// The fact that violates the condition, if it is a `none`.
        by: Option<Fact>,
    },
    /// There are too many combinations to examine.
    Unknown,
}

/// The best combination so far.
struct Farthest {
    /// A rank that grows with each bound fact, and again once the guards on it hold.
    reached: usize,
    bound: Bound,
    /// The byte offset, in the text, of the condition that fails.
    place: u32,
    by: Address,
    looks: u32,
    is_match: bool,
}

impl Engine {
    /// Explains a rule: one explanation for each combination of its alternatives.
    ///
    /// Errors: `not_found`.
    pub fn explain(&mut self, name: &str) -> Result<Vec<Explanation>, Error> {
        let numbers = self.rules().find(name)?;
        numbers.into_iter().map(|number| self.explain_one(number)).collect()
    }

    fn explain_one(&mut self, number: usize) -> Result<Explanation, Error> {
        let (farthest, deadline, now) = self.examine(|step| {
            let farthest = farthest(step, number);
            let rule = &step.program.rules[number];
            let deadline = if farthest.is_match { guards::deadline(step, rule, &farthest.bound) } else { i64::MIN };
            (farthest, deadline, step.clock())
        })?;
        let bound = farthest.bound.iter().take(SLOTS).filter(|fact| **fact != 0);
        let facts = bound.map(|fact| self.stored().at(*fact)).collect();
        let verdict = if farthest.is_match && deadline > now {
            Verdict::Waits(deadline.saturating_add(self.clock().lateness()))
        } else if farthest.is_match && self.is_busy() {
            Verdict::Due
        } else if farthest.is_match {
            Verdict::Fired
        } else if farthest.looks >= MAX_LOOKS {
            Verdict::Unknown
        } else {
            let (line, text) = self.rules().line_at(farthest.place as usize);
            let by = (farthest.by != 0).then(|| self.stored().at(farthest.by));
            Verdict::Blocked { line, text, by }
        };
        Ok(Explanation { facts, verdict })
    }
}

/// Returns the combination of facts that meets the most conditions of a rule, newest facts first.
fn farthest(step: &Step, number: usize) -> Farthest {
    let rule = &step.program.rules[number];
    let place = rule.slots[0].place;
    let mut farthest = Farthest { reached: 0, bound: [0; SLOTS + 1], place, by: 0, looks: 0, is_match: false };
    let is_own = |seeds: &[Vec<(u32, u8)>]| seeds.iter().any(|seeds| seeds.contains(&(number as u32, 0)));
    let Some(condition) = step.program.conditions.iter().find(|condition| is_own(&condition.seeds)) else {
        return farthest;
    };
    let fact_type = &step.program.types[rule.slots[0].ty];
    let mut fact = fact_type.newest(step.words);
    while fact != 0 && !farthest.is_match && farthest.looks < MAX_LOOKS {
        farthest.looks += 1;
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        if condition.tests.iter().all(|test| test.holds(step.words, &bound)) {
            bound[OWN as usize] = 0;
            bound[0] = fact;
            let plan = &rule.plans[0];
            follow(step, rule, plan, &plan.guards, 0, &mut bound, &mut farthest);
        }
        fact = step.words.get(fact + fact_type.links(0));
    }
    farthest
}

/// Follows a plan from the look-up `depth` on, given the bound facts.
fn follow(
    step: &Step,
    rule: &Rule,
    plan: &Plan,
    guards: &[u8],
    depth: usize,
    bound: &mut Bound,
    farthest: &mut Farthest,
) {
    for guard in guards {
        let guard = &rule.guards[*guard as usize];
        let (holds, by) = match guard.aggregate {
            Aggregate::None => match guards::blocker(step, guard, bound) {
                0 => (true, 0),
                blocker => (false, blocker),
            },
            _ => (guards::is_reached(step, guard, bound), 0),
        };
        if !holds {
            farthest.reach(2 * depth + 1, bound, guard.place, by);
            return;
        }
    }
    let Some(join) = plan.joins.get(depth) else {
        farthest.bound = *bound;
        farthest.is_match = true;
        return;
    };
    let slot = join.probe.slot as usize;
    farthest.reach(2 * depth + 2, bound, rule.slots[slot].place, 0);
    let link = join.probe.link;
    let mut fact = join.probe.head(step.words, bound);
    while fact != 0 && !farthest.is_match && farthest.looks < MAX_LOOKS {
        farthest.looks += 1;
        bound[slot] = fact;
        if join.probe.tests.iter().all(|test| test.holds(step.words, bound)) {
            follow(step, rule, plan, &join.guards, depth + 1, bound, farthest);
        }
        bound[slot] = 0;
        fact = step.words.get(fact + link);
    }
}

impl Farthest {
    fn reach(&mut self, reached: usize, bound: &Bound, place: u32, by: Address) {
        if reached > self.reached {
            (self.reached, self.bound, self.place, self.by) = (reached, *bound, place, by);
        }
    }
}
