//! The predicates of all expressions, each held once.
//!
//! Most predicates compare one attribute with one constant. They are kept as 16-byte records. A list of constants is kept
//! where it is first needed, in the program of an expression, for as long as that is there; what else does not fit a
//! record is kept whole beside them.

use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::expression::program;
use crate::expression::store::{ProgramId, Programs};
use crate::hash::hash_of;
use crate::interner::{Interner, StringId};
use crate::predicate::{Constants, Float, Predicate, Relation, Test};
use crate::schema::AttributeId;

/// The number of a predicate that a [`Predicates`] table holds.
pub type PredicateId = u32;

/// A predicate as it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub kind: RecordKind,
    pub attribute: AttributeId,
    /// The constant: an integer, the bits of a float, a string's id, the index of a predicate that is kept whole, or the
    /// location of one that stands in a program.
    pub constant: i64,
}

/// What a [`Record`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    True,
    Integer(Relation),
    Float(Relation),
    StringEqual,
    StringNotEqual,
    Null,
    NotNull,
    Empty,
    /// Kept whole in the table's `extended` list.
    Extended,
    /// A list that stands in a program: its [`Location`].
    InProgram,
    /// No predicate has this number at present.
    Free,
}

/// Where in the programs a list stands: its program, and the position of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub program: ProgramId,
    pub position: u32,
}

impl Location {
    fn of(constant: i64) -> Self {
        Location { program: (constant >> 32) as ProgramId, position: constant as u32 }
    }

    fn constant(self) -> i64 {
        i64::from(self.program) << 32 | i64::from(self.position)
    }
}

impl Record {
    /// The words of the operation that a record in a program stands for.
    pub fn operation(self, programs: &Programs) -> &[u32] {
        let Location { program, position } = Location::of(self.constant);
        &programs.get(program)[position as usize..]
    }
}

/// A table of predicates with a count of the expressions' references to each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predicates {
    records: Chunks<Record>,
    references: Chunks<u32>,
    free: Vec<PredicateId>,
    extended: Vec<Option<Predicate<StringId>>>,
    extended_free: Vec<u32>,
    by_value: HashTable<PredicateId>,
}

impl Predicates {
    /// How many distinct predicates are held.
    pub fn len(&self) -> usize {
        self.by_value.len()
    }

    /// One more than the greatest number given so far: the size of a table with a place for each predicate.
    pub fn capacity(&self) -> usize {
        self.records.len()
    }

    /// The predicate `id`, which is held.
    pub fn get(&self, id: PredicateId, programs: &Programs) -> Predicate<StringId> {
        restore(self.records[id as usize], &self.extended, programs)
    }

    pub(crate) fn record(&self, id: PredicateId) -> Record {
        self.records[id as usize]
    }

    pub(crate) fn extended(&self, record: Record) -> &Test<StringId> {
        match &self.extended[record.constant as usize] {
            Some(predicate) => &predicate.test,
            None => unreachable!("an extended record points at its predicate"),
        }
    }

    /// Counts one more reference to `predicate`, which is taken in if it is new. If it was held already, the references
    /// that it makes to strings are given back to `strings`.
    pub fn retain(
        &mut self,
        predicate: Predicate<StringId>,
        strings: &mut Interner,
        programs: &Programs,
    ) -> PredicateId {
        let hash = hash_of(&predicate);
        if let Some(&id) = self.by_value.find(hash, |&id| self.is(id, &predicate, programs)) {
            self.references[id as usize] += 1;
            each_string(&predicate.test, |string| strings.release(string));
            return id;
        }
        let record = self.store(predicate);
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id as usize] = record;
                self.references[id as usize] = 1;
                id
            }
            None => {
                self.records.push(record);
                self.references.push(1);
                self.records.len() as PredicateId - 1
            }
        };
        let Predicates { by_value, records, extended, .. } = self;
        by_value.insert_unique(hash, id, |&id| hash_of(&restore(records[id as usize], extended, programs)));
        id
    }

    /// Notes that the list of `id` stands at `location` from now on; it need not be kept anywhere else.
    pub fn settle(&mut self, id: PredicateId, location: Location) {
        let record = &mut self.records[id as usize];
        if record.kind == RecordKind::Extended {
            self.extended[record.constant as usize] = None;
            self.extended_free.push(record.constant as u32);
            record.kind = RecordKind::InProgram;
            record.constant = location.constant();
        }
    }

    /// Counts one reference to `id` less, and forgets the predicate with its last one. What others refer to must not stand
    /// in `leaving`, a program that is about to go.
    pub fn release(
        &mut self,
        id: PredicateId,
        leaving: Option<ProgramId>,
        strings: &mut Interner,
        programs: &Programs,
    ) {
        let record = self.records[id as usize];
        self.references[id as usize] -= 1;
        if self.references[id as usize] > 0 {
            if record.kind == RecordKind::InProgram && Some(Location::of(record.constant).program) == leaving {
                self.records[id as usize] = self.keep(self.get(id, programs));
            }
            return;
        }
        let predicate = self.get(id, programs);
        if let Ok(entry) = self.by_value.find_entry(hash_of(&predicate), |&held| held == id) {
            entry.remove();
        }
        each_string(&predicate.test, |string| strings.release(string));
        if record.kind == RecordKind::Extended {
            self.extended[record.constant as usize] = None;
            self.extended_free.push(record.constant as u32);
        }
        self.records[id as usize].kind = RecordKind::Free;
        self.free.push(id);
    }

    /// Bytes that the next insertion may take to enlarge the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        self.records.growth(more)
            + self.references.growth(more)
            + growth(&self.extended, more)
            + table_growth(&self.by_value, more)
    }

    /// Checks that counts, table and free lists agree with `expected` references to each predicate.
    pub fn validate(&self, expected: &[u32], programs: &Programs) -> Result<(), String> {
        let held = self.references.iter().filter(|&&references| references > 0).count();
        if held != self.by_value.len() || held + self.free.len() != self.records.len() {
            return Err(format!("predicates: {held} held, {} hashed, {} free", self.by_value.len(), self.free.len()));
        }
        for (id, &references) in self.references.iter().enumerate() {
            if references != expected.get(id).copied().unwrap_or(0) {
                return Err(format!("predicate {id}: {references} references counted, {} expected", expected[id]));
            }
            if references > 0 {
                let predicate = self.get(id as PredicateId, programs);
                let found = self.by_value.find(hash_of(&predicate), |&held| self.is(held, &predicate, programs));
                if found != Some(&(id as PredicateId)) {
                    return Err(format!("predicate {id} is not found by its value"));
                }
            }
        }
        Ok(())
    }

    fn is(&self, id: PredicateId, predicate: &Predicate<StringId>, programs: &Programs) -> bool {
        let record = self.records[id as usize];
        match record.kind {
            RecordKind::Extended => self.extended[record.constant as usize].as_ref() == Some(predicate),
            RecordKind::InProgram => {
                record.attribute == predicate.attribute
                    && program::list_test(record.operation(programs)) == predicate.test
            }
            _ => simple(predicate) == Some(record),
        }
    }

    fn store(&mut self, predicate: Predicate<StringId>) -> Record {
        match simple(&predicate) {
            Some(record) => record,
            None => self.keep(predicate),
        }
    }

    fn keep(&mut self, predicate: Predicate<StringId>) -> Record {
        let attribute = predicate.attribute;
        let index = match self.extended_free.pop() {
            Some(index) => {
                self.extended[index as usize] = Some(predicate);
                index
            }
            None => {
                self.extended.push(Some(predicate));
                self.extended.len() as u32 - 1
            }
        };
        Record { kind: RecordKind::Extended, attribute, constant: i64::from(index) }
    }
}

fn simple(predicate: &Predicate<StringId>) -> Option<Record> {
    let (kind, constant) = match predicate.test {
        Test::True => (RecordKind::True, 0),
        Test::Integer(relation, constant) => (RecordKind::Integer(relation), constant),
        Test::Float(relation, constant) => (RecordKind::Float(relation), constant.get().to_bits() as i64),
        Test::StringEqual(id) => (RecordKind::StringEqual, i64::from(id.0)),
        Test::StringNotEqual(id) => (RecordKind::StringNotEqual, i64::from(id.0)),
        Test::Null => (RecordKind::Null, 0),
        Test::NotNull => (RecordKind::NotNull, 0),
        Test::Empty => (RecordKind::Empty, 0),
        _ => return None,
    };
    Some(Record { kind, attribute: predicate.attribute, constant })
}

fn restore(record: Record, extended: &[Option<Predicate<StringId>>], programs: &Programs) -> Predicate<StringId> {
    let constant = record.constant;
    let test = match record.kind {
        RecordKind::True => Test::True,
        RecordKind::Integer(relation) => Test::Integer(relation, constant),
        RecordKind::Float(relation) => Test::Float(relation, Float::new(f64::from_bits(constant as u64))),
        RecordKind::StringEqual => Test::StringEqual(StringId(constant as u32)),
        RecordKind::StringNotEqual => Test::StringNotEqual(StringId(constant as u32)),
        RecordKind::Null => Test::Null,
        RecordKind::NotNull => Test::NotNull,
        RecordKind::Empty => Test::Empty,
        RecordKind::Extended => match &extended[constant as usize] {
            Some(predicate) => return predicate.clone(),
            None => unreachable!("an extended record points at its predicate"),
        },
        RecordKind::InProgram => program::list_test(record.operation(programs)),
        RecordKind::Free => unreachable!("a free record is not restored"),
    };
    Predicate { attribute: record.attribute, test }
}

/// Calls `each` with every string that `test` refers to.
pub(crate) fn each_string(test: &Test<StringId>, mut each: impl FnMut(StringId)) {
    match test {
        Test::StringEqual(id) | Test::StringNotEqual(id) => each(*id),
        Test::WithinFrequencyCap { namespace, .. } => each(*namespace),
        Test::OneOf(Constants::Strings(ids))
        | Test::NoneOf(Constants::Strings(ids))
        | Test::AllOf(Constants::Strings(ids)) => ids.iter().copied().for_each(each),
        _ => {}
    }
}

/// Bytes that pushing `more` elements onto `table` may allocate.
pub(crate) fn growth<T>(table: &Vec<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    (table.len() + more).max(2 * table.capacity()) * size_of::<T>()
}

/// Bytes that inserting `more` elements into `table` may allocate.
pub(crate) fn table_growth<T>(table: &HashTable<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    // A table doubles its buckets, of which it fills seven eighths, each with a byte of control.
    (table.len() + more).max(2 * table.capacity()).next_power_of_two() * 2 * (size_of::<T>() + 1)
}
