//! Logins, password changes, orders and payments of many users.
//!
//! A takeover is two failed logins of a user and then a change of the password within five minutes. An order without a
//! payment within ten minutes is reported. [`EVENTS_A_SECOND`] of stream time keeps half a million facts alive.

use std::collections::{HashMap, HashSet, VecDeque};

use be_tree_rules::{Call, Engine, Limits, Owned, GROUP};

use super::{totals, Job, Totals};
use crate::input::{line, Fact};
use crate::random::Random;
use crate::support::Row;

pub const RULES: &str = include_str!("../../../../../wasm/rules/workloads/correlation.rules");

const EVENTS: usize = 10_000;
const EVENTS_A_SECOND: u64 = 900;
const LOGINS: i64 = 5 * 60_000;
const ORDERS: i64 = 10 * 60_000;

#[derive(Clone, Copy, PartialEq)]
pub enum Event {
    Login { user: u64, ok: bool },
    Change { user: u64 },
    Order { id: u64 },
    Payment { order: u64 },
}

/// The stream of events.
pub struct Stream {
    random: Random,
    users: u64,
    number: u64,
    /// The latest orders. A payment pays one of them.
    open: VecDeque<u64>,
}

impl Stream {
    pub fn new(users: u64) -> Stream {
        Stream { random: Random(0x1234_5678_9abc_def1), users, number: 0, open: VecDeque::new() }
    }

    /// Returns the next event and its time.
    pub fn event(&mut self) -> (i64, Event) {
        self.number += 1;
        let time = (1_000 * self.number / EVENTS_A_SECOND) as i64;
        let kind = self.random.below(8);
        let event = match kind {
            0..=4 => Event::Login { user: self.random.below(self.users), ok: kind > 1 },
            5 => Event::Change { user: self.random.below(self.users) },
            7 if !self.open.is_empty() => {
                let order = self.open[self.random.below(self.open.len() as u64) as usize];
                Event::Payment { order }
            }
            _ => {
                self.open.push_back(self.number);
                if self.open.len() > 1_000 {
                    self.open.pop_front();
                }
                Event::Order { id: self.number }
            }
        };
        (time, event)
    }
}

/// Replays the first events of a stream without rules. Returns the takeovers and the unpaid orders.
pub fn replay(users: u64, events: u64) -> (u64, u64) {
    let mut stream = Stream::new(users);
    let mut failed: HashMap<u64, VecDeque<i64>> = HashMap::new();
    let mut due: VecDeque<(i64, u64)> = VecDeque::new();
    let mut paid: HashSet<u64> = HashSet::new();
    let (mut takeovers, mut unpaid) = (0, 0);
    for _ in 0..events {
        let (time, event) = stream.event();
        while due.front().is_some_and(|(at, _)| at + ORDERS <= time) {
            let (_, order) = due.pop_front().expect("there is one");
            unpaid += u64::from(!paid.remove(&order));
        }
        match event {
            Event::Login { user, ok: false } => failed.entry(user).or_default().push_back(time),
            Event::Change { user } => {
                if let Some(times) = failed.get_mut(&user) {
                    times.retain(|at| time - at < LOGINS);
                    // Each but the last has a successor.
                    let all = times.len().max(1) - 1;
                    takeovers += all as u64;
                    times.drain(..all);
                }
            }
            Event::Order { id } => due.push_back((time, id)),
            Event::Payment { order } => {
                paid.insert(order);
            }
            Event::Login { .. } => {}
        }
    }
    (takeovers, unpaid)
}

pub struct Correlation {
    stream: Stream,
    rows: Vec<Row>,
    facts: Vec<Fact>,
    engine: Engine,
    notices: u64,
}

impl Correlation {
    pub fn new(users: u32) -> Correlation {
        let limits = Limits { firings: u32::MAX, notices: u32::MAX, ..Limits::default() };
        let engine = Engine::new(RULES, limits).expect("the rules are right");
        Correlation { stream: Stream::new(users.into()), rows: vec![], facts: vec![], engine, notices: 0 }
    }
}

impl Job for Correlation {
    fn fill(&mut self) {
        self.rows.clear();
        self.facts.clear();
        for _ in 0..EVENTS {
            let (time, event) = self.stream.event();
            let integer = |number: u64| Owned::Integer(number as i64);
            let (number, row): (usize, Row) = match event {
                Event::Login { user, ok } => (0, ("login", vec![("user", integer(user)), ("ok", Owned::Boolean(ok))])),
                Event::Change { user } => (1, ("password_change", vec![("user", integer(user))])),
                Event::Order { id } => (2, ("order", vec![("id", integer(id))])),
                Event::Payment { order } => (3, ("payment", vec![("order", integer(order))])),
            };
            let values: Vec<Owned> = row.1.iter().map(|(_, value)| value.clone()).collect();
            self.facts.push(Fact { ty: number, time: Some(time), fields: values.len(), values });
            self.rows.push(row);
        }
    }

    fn run(&mut self) {
        for group in self.facts.chunks(GROUP) {
            Fact::announce(group, &mut self.engine);
            for fact in group {
                fact.assert(&mut self.engine).expect("the facts fit");
                self.engine.run().expect("the facts fit");
            }
        }
        self.notices += self.engine.take_notices().len() as u64;
        self.engine.begin(Call::Fire, 0).expect("there is memory");
    }

    fn events(&self) -> u64 {
        EVENTS as u64
    }

    fn warm_up(&self) -> u64 {
        // A little more than ten minutes of the stream.
        EVENTS_A_SECOND * 620 / EVENTS as u64
    }

    fn totals(&self) -> Totals {
        let mut totals = totals(&self.engine);
        totals.push(("notices", self.notices));
        totals
    }

    fn text(&self) -> (String, Vec<String>) {
        (RULES.to_owned(), self.rows.iter().map(line).collect())
    }
}
