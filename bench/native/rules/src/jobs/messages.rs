//! The message tests of the article on durable_rules, in a neutral form: rule k of 30 tests subject = 's<k>' and amount < 10.

use be_tree_rules::{Engine, Limits, Owned};

use super::{totals, Job, Totals};
use crate::input::{line, Fact};
use crate::support::Row;

/// The messages of an input. Each input goes to a new engine.
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
    facts: Vec<Fact>,
    empty: Engine,
    engine: Engine,
}

impl Messages {
    /// Returns the test with messages of `bytes` bytes, counted as JSON without the padding's name.
    pub fn new(test: Test, bytes: usize) -> Messages {
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
                if bytes > 100 {
                    fields.push(("padding", Owned::String(vec![b'p'; bytes - 30])));
                }
                ("message", fields)
            })
            .collect();
        let facts = rows.iter().map(|row| Fact::of(row, &empty)).collect();
        Messages { test, rules, rows, facts, engine: empty.clone(), empty }
    }
}

impl Job for Messages {
    fn fill(&mut self) {
        self.engine = self.empty.clone();
    }

    fn run(&mut self) {
        for fact in &self.facts {
            fact.assert(&mut self.engine).expect("the facts fit");
            self.engine.run().expect("the facts fit");
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
        let firings = self.engine.firings();
        if firings == expected {
            Ok(())
        } else {
            Err(format!("expected {expected} firings, but found {firings}"))
        }
    }
}
