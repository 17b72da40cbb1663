//! A bit-sliced scan: evaluates each expression for 64 events at once, one bit of a word for each. It supports only
//! booleans that every event defines.

use be_tree_index::event::{decode, Event, Value};
use be_tree_index::model::predicate::{Step, Test};
use be_tree_index::model::schema::AttributeId;
use be_tree_index::model::strings::Interner;

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

const WIDTH: usize = 64;

enum Operation {
    Push(AttributeId),
    Not,
    And,
    Or,
}

pub struct Bits<'a> {
    workload: &'a Workload,
    events: &'a Events,
    strings: Interner,
    programs: Vec<Vec<Operation>>,
    event: Event,
    /// For each attribute, its values in the events.
    columns: Vec<u64>,
    stack: Vec<u64>,
    found: [Vec<u64>; WIDTH],
}

impl<'a> Bits<'a> {
    pub fn new(workload: &'a Workload, events: &'a Events) -> Result<Self, Unavailable> {
        let mut programs = Vec::new();
        for parsed in workload.parsed() {
            let (_, postfix) = parsed?;
            programs.push(postfix.into_iter().map(operation).collect::<Result<_, _>>()?);
        }
        let found = std::array::from_fn(|_| Vec::with_capacity(workload.expressions.len()));
        let columns = vec![0; workload.schema.len()];
        let (strings, event, stack) = Default::default();
        Ok(Bits { workload, events, strings, programs, event, columns, stack, found })
    }
}

fn operation<S>(step: Step<S>) -> Result<Operation, Unavailable> {
    match step {
        Step::Predicate(predicate) if matches!(predicate.test, Test::True) => Ok(Operation::Push(predicate.attribute)),
        Step::Not => Ok(Operation::Not),
        Step::And => Ok(Operation::And),
        Step::Or => Ok(Operation::Or),
        _ => Err(Unavailable::Skipped("it has tests of other types than booleans".into())),
    }
}

impl Engine for Bits<'_> {
    fn width(&self) -> usize {
        WIDTH
    }

    fn decode(&mut self, first: usize) {
        self.columns.fill(0);
        for (nth, bytes) in self.events.bytes[first..first + WIDTH].iter().enumerate() {
            let decoded = decode(self.events.format, bytes, &self.workload.schema, &self.strings, &mut self.event);
            decoded.expect("the events of a workload are right");
            for (column, value) in self.columns.iter_mut().zip(&self.event.values) {
                *column |= u64::from(*value == Value::Boolean(true)) << nth;
            }
        }
    }

    fn search(&mut self) {
        self.found.iter_mut().for_each(Vec::clear);
        for (id, program) in (1..).zip(&self.programs) {
            let mut events = run(program, &self.columns, &mut self.stack);
            while events != 0 {
                self.found[events.trailing_zeros() as usize].push(id);
                events &= events - 1;
            }
        }
    }

    fn ids(&mut self, nth: usize) -> Vec<u64> {
        self.found[nth].clone()
    }
}

fn run(program: &[Operation], columns: &[u64], stack: &mut Vec<u64>) -> u64 {
    let mut top = 0;
    stack.clear();
    for operation in program {
        match operation {
            Operation::Push(attribute) => {
                stack.push(top);
                top = columns[attribute.index()];
            }
            Operation::Not => top = !top,
            Operation::And => top &= stack.pop().unwrap_or(0),
            Operation::Or => top |= stack.pop().unwrap_or(0),
        }
    }
    top
}
