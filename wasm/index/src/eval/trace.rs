//! A trace runs a program test by test, to tell how many tests it takes and which one decides.

use std::ops::ControlFlow;

use crate::compile::booleans;
use crate::compile::layout::{code, named, CODE, START};
use crate::compile::program;
use crate::compile::store::Code;
use crate::compile::words::Words;
use crate::eval::memo::Memo;
use crate::eval::run::{take, Asked};
use crate::handles::ProgramId;
use crate::model::schema::AttributeId;

/// The course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub holds: bool,
    pub tests: u32,
    /// The attribute of the last test. A constant expression has none.
    pub decided_by: Option<AttributeId>,
}

/// Runs a program to its end.
pub(crate) fn trace(program: ProgramId, asked: Asked, memo: &mut Memo) -> Trace {
    memo.allow(u32::MAX);
    match asked.catalog.programs.code(program) {
        Code::InChunk(chunk, start) => follow(chunk, start, asked, memo),
        Code::Alone(words) => follow(words, 0, asked, memo),
    }
}

fn follow(words: impl Words, start: usize, asked: Asked, memo: &mut Memo) -> Trace {
    let mut at = start + START as usize;
    let mut traced = Trace { holds: false, tests: 0, decided_by: None };
    loop {
        traced.count(words, at, asked);
        match take(words, start, at, asked, memo) {
            ControlFlow::Continue(next) => at = next,
            ControlFlow::Break((holds, _)) => return Trace { holds, ..traced },
        }
    }
}

impl Trace {
    /// Counts the tests of the operation at `at`.
    fn count(&mut self, words: impl Words, at: usize, asked: Asked) {
        let word = words.word(at);
        let attribute = match word & CODE {
            code::REJECT | code::ACCEPT | code::GO => return,
            code::PACKED => {
                return booleans::each_test(words, at, asked.digests, |attribute| self.add(attribute));
            }
            code::SHARED => asked.catalog.predicates.get(program::shared_as(words.word(at + 1))).attribute,
            _ => named(word),
        };
        self.add(attribute);
    }

    fn add(&mut self, attribute: AttributeId) {
        self.tests += 1;
        self.decided_by = Some(attribute);
    }
}
