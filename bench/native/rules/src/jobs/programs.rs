//! Manners and Waltzdb: asserts all facts, then runs the rules to their end. Two other implementations agree on the totals.

use be_tree_rules::{Engine, Limits};

use super::{totals, Job, Totals};
use crate::input::{line, Fact};
use crate::support::{manners, waltzdb, Row};

pub struct Program {
    rules: String,
    rows: Vec<Row>,
    facts: Vec<Fact>,
    /// The engine before any fact.
    empty: Engine,
    engine: Engine,
    /// The firings, and the number of facts of a type at the end.
    expected: (u64, &'static str, u32),
}

impl Program {
    pub fn manners(guests: u32) -> Program {
        let n = guests;
        let firings = 1 + (n - 1) + n * (n - 1) / 2 + (n - 1) + (n - 2) + 1 + n + 1;
        let expected = (firings.into(), "path", n * (n + 1) / 2 - n);
        Program::new(manners::RULES.to_owned(), manners::facts(guests as usize), expected)
    }

    pub fn waltzdb(regions: u32) -> Program {
        let expected = (803 * u64::from(regions) + 790, "edge_label", 422 * regions + 443);
        Program::new(waltzdb::RULES.to_owned(), waltzdb::facts(regions.into()), expected)
    }

    fn new(rules: String, rows: Vec<Row>, expected: (u64, &'static str, u32)) -> Program {
        let limits = Limits { firings: u32::MAX, notices: u32::MAX, ..Limits::default() };
        let empty = Engine::new(&rules, limits).expect("the rules are right");
        let facts = rows.iter().map(|row| Fact::of(row, &empty)).collect();
        Program { rules, rows, facts, engine: empty.clone(), empty, expected }
    }
}

impl Job for Program {
    fn fill(&mut self) {
        self.engine = self.empty.clone();
    }

    fn run(&mut self) {
        for fact in &self.facts {
            fact.assert(&mut self.engine).expect("the facts fit");
        }
        let run = self.engine.run().expect("the facts fit");
        assert_eq!(run.pause, None);
    }

    fn events(&self) -> u64 {
        1
    }

    fn totals(&self) -> Totals {
        let (_, ty, _) = self.expected;
        let count = self.engine.stored().count(ty).expect("the type is declared");
        let mut totals = totals(&self.engine);
        totals.extend([(ty, count.into()), ("asserted", self.engine.counts().asserted)]);
        totals
    }

    fn text(&self) -> (String, Vec<String>) {
        (self.rules.clone(), self.rows.iter().map(line).collect())
    }

    fn check(&self) -> Result<(), String> {
        let (firings, ty, count) = self.expected;
        let found =
            (self.engine.counts().firings, ty, self.engine.stored().count(ty).map_err(|error| error.to_string())?);
        if found == (firings, ty, count) {
            Ok(())
        } else {
            Err(format!("expected {:?}, but found {found:?}", self.expected))
        }
    }
}
