//! The message tests of the article on durable_rules, in a neutral form: rule k of 30 tests subject = 's<k>' and amount <
//! 10.
//!
//! Messages come as JSON in an external term, as the guest gets them: all in one list, or each in a list of its own.

use be_tree_rules::input::Facts;
use be_tree_rules::{Arrival, Engine, EventTime, Limits, Owned};

use super::{totals, Job, Totals};
use crate::input::{json, line};
use crate::support::Row;

/// Messages of an input. Each input goes to a new engine.
const MESSAGES: usize = 10_000;

#[derive(Clone, Copy, PartialEq)]
pub enum Test {
    /// No message matches a rule.
    Reject,
    /// Each message matches one rule, which reports it. The message stays.
    Accept,
    /// The rule removes the message and asserts new state.
    Cycle,
}

pub struct Messages {
    test: Test,
    rules: String,
    rows: Vec<Row>,
    /// The lists of messages.
    inputs: Vec<Vec<u8>>,
    empty: Engine,
    engine: Engine,
}

impl Messages {
    /// Returns the test with messages of about `bytes` bytes, in lists of `together`.
    pub fn new(test: Test, bytes: usize, together: usize) -> Messages {
        let mut rules = String::from("fact message(subject: string, amount: integer, padding: string optional)\n");
        rules += "fact done(subject: string, amount: integer)\n";
        let actions = match test {
            Test::Cycle => "retract m, assert done(subject: m.subject, amount: m.amount)",
            Test::Reject | Test::Accept => "notify hit(amount: m.amount)",
        };
        for number in 0..30 {
            rules +=
                &format!("rule r{number}\n  when m: message(subject = 's{number}', amount < 10)\n  then {actions}\n");
        }
        let limits = Limits { firings: u32::MAX, notices: u32::MAX, ..Limits::default() };
        let empty = Engine::new(&rules, limits).expect("the rules are right");
        let subject = if test == Test::Reject { "x" } else { "s" };
        let rows: Vec<Row> = (0..MESSAGES)
            .map(|number| {
                let subject = format!("{subject}{}", number % 30);
                let mut fields =
                    vec![("subject", Owned::String(subject.into())), ("amount", Owned::Integer(number as i64 % 10))];
                // The other fields take 30 bytes, the padding's name 13.
                if bytes > 43 {
                    fields.push(("padding", Owned::String(vec![b'p'; bytes - 43])));
                }
                ("message", fields)
            })
            .collect();
        let inputs = rows.chunks(together).map(list).collect();
        Messages { test, rules, rows, inputs, engine: empty.clone(), empty }
    }
}

/// Returns messages as the external term of a list of `{"message", Json}`.
fn list(rows: &[Row]) -> Vec<u8> {
    let binary = |bytes: &[u8]| [&[109][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let mut term = [&[131, 108][..], &(rows.len() as u32).to_be_bytes()].concat();
    for row in rows {
        term.extend([104, 2]);
        term.extend(binary(b"message"));
        term.extend(binary(json(row).as_bytes()));
    }
    term.push(106);
    term
}

impl Job for Messages {
    fn fill(&mut self) {
        self.engine = self.empty.clone();
    }

    fn run(&mut self) {
        let engine = &mut self.engine;
        for input in &self.inputs {
            let facts = Facts::read(engine, input, 0, false, i64::MAX).expect("the facts are right");
            for position in 0..facts.len() {
                let fact = facts.get(engine, position, input);
                engine.advance(EventTime::OfAll(engine.clock().after_arrival(fact.time, None))).expect("the facts fit");
                let arrival = Arrival::new(fact.ty, fact.time, &fact.values[..fact.count]);
                engine.insert(arrival).expect("the facts fit");
            }
            engine.run().expect("the facts fit");
        }
    }

    fn events(&self) -> u64 {
        MESSAGES as u64
    }

    fn totals(&self) -> Totals {
        totals(&self.engine)
    }

    fn text(&self) -> (String, Vec<String>) {
        (self.rules.clone(), self.rows.iter().map(line).collect())
    }

    fn check(&self) -> Result<(), String> {
        let expected = match self.test {
            Test::Reject => 0,
            Test::Accept | Test::Cycle => MESSAGES as u64,
        };
        let firings = self.engine.counts().firings;
        if firings == expected {
            Ok(())
        } else {
            Err(format!("expected {expected} firings, but found {firings}"))
        }
    }
}
