//! The compiled rules: their names, warnings and join orders.

use crate::compile::program::{Plan, Program};
use crate::error::{quoted, Error, Kind};
use crate::language::hint;

/// The rules of an engine. Each combination of alternatives is a rule of its own.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'e> {
    pub(super) program: &'e Program,
    pub(super) text: &'e str,
}

impl<'e> Rules<'e> {
    /// Returns the names of the rules, in the order of the text.
    pub fn names(self) -> impl ExactSizeIterator<Item = &'e str> {
        self.program.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Returns warnings about rules that can enable themselves or each other without end: one for each group of such rules, naming
    /// a shortest cycle in it.
    pub fn warnings(self) -> &'e [String] {
        &self.program.warnings
    }

    /// Returns the join orders of each rule: for each condition that may bind the newest fact, the positions of the other
    /// conditions in the order of their look-ups.
    pub fn join_order(self) -> Vec<(String, Vec<Vec<usize>>)> {
        let order = |plan: &Plan| plan.joins.iter().map(|join| join.probe.slot.into()).collect();
        self.program.rules.iter().map(|rule| (rule.name.clone(), rule.plans.iter().map(order).collect())).collect()
    }

    /// Returns the numbers of the rules with a name.
    ///
    /// Errors: `not_found`.
    pub(crate) fn find(self, name: &str) -> Result<Vec<usize>, Error> {
        let numbers: Vec<usize> =
            (0..).zip(self.names()).filter(|(_, known)| *known == name).map(|(at, _)| at).collect();
        if numbers.is_empty() {
            let hint = hint(name, self.names(), "give the name of a rule in the text");
            return Err(Error::new(Kind::NotFound, format!("there is no rule {}; {hint}", quoted(name))).about(name));
        }
        Ok(numbers)
    }

    /// Returns the line that contains a byte of the rules' text, and its number from 1.
    pub(crate) fn line_at(self, offset: usize) -> (usize, String) {
        let place = Error::new(Kind::NotFound, "").at(self.text, offset).place;
        place.map_or((1, String::new()), |place| (place.line, place.text.trim().to_owned()))
    }
}
