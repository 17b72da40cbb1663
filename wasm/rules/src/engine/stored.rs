//! The stored facts: inserted ones by type, and those waiting for the watermark.

use crate::compile::code::Kind;
use crate::compile::program::{FactType, Field, Program};
use crate::engine::types::Types;
use crate::error::Error;
use crate::facts::tickets::id_of;
use crate::layout::{NUMBER, TIME};
use crate::memory::order::{time, ID};
use crate::memory::{Address, StringTable, Words};
use crate::tables::{NUMBERS, WAITING};
use crate::time::waiting::{self, TYPE, WAITS};
use crate::value::Owned;

/// A stored fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The number that identifies the fact, for example to retract it.
    pub id: u64,
    /// The name of its type.
    pub ty: String,
    /// The time in milliseconds.
    pub at: i64,
    /// The fields by name. `None` is undefined.
    pub fields: Vec<(String, Option<Owned>)>,
}

/// The facts of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'e> {
    pub(super) types: Types<'e>,
    pub(super) program: &'e Program,
    pub(super) words: &'e Words,
}

impl<'e> Stored<'e> {
    /// Returns the number of inserted facts of a type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn count(self, ty: &str) -> Result<u32, Error> {
        Ok(self.program.types[self.types.find(ty)?].count(self.words))
    }

    /// Returns all inserted facts of a type, newest first.
    ///
    /// Errors: `unknown_attribute`.
    pub fn facts(self, ty: &str) -> Result<Vec<Fact>, Error> {
        let ty = self.types.find(ty)?;
        Ok(self.addresses_before(ty, u64::MAX).map(|fact| self.at(fact)).collect())
    }

    /// Returns a page of the inserted facts of a type given by number, newest first: the number of its facts, whether more follow,
    /// and the facts. Their numbers are below `before`. A page has at most `most` facts of about `bytes` bytes in all, and at least
    /// one if there are any.
    pub fn page(
        self,
        ty: usize,
        before: u64,
        most: usize,
        bytes: usize,
    ) -> (usize, bool, impl Iterator<Item = Fact> + 'e) {
        let mut left = bytes;
        let fits = |fact: &Address| {
            let is_first = left == bytes;
            let size = self.size_of(&self.program.types[ty], *fact);
            let fits = size <= left || is_first;
            left = left.saturating_sub(size.max(1));
            fits
        };
        let count = self.addresses_before(ty, before).take(most).take_while(fits).count();
        let is_more = self.addresses_before(ty, before).nth(count).is_some();
        (count, is_more, self.addresses_before(ty, before).take(count).map(move |fact| self.at(fact)))
    }

    /// Returns at most `most` waiting facts from the place `from` on, in no order.
    pub fn waiting(self, from: u32, most: u32) -> Vec<Fact> {
        let places = from..from.saturating_add(most).min(WAITING.len(self.words));
        places.filter_map(|place| WAITING.at(self.words, place)).map(|block| self.waiting_at(block)).collect()
    }

    fn addresses_before(self, number: usize, before: u64) -> impl Iterator<Item = Address> + 'e {
        let Stored { program, words, .. } = self;
        let ty = &program.types[number];
        let links = ty.links(0);
        let found = NUMBERS.find(words, before).map(|fact| (words.get(fact), fact)).filter(|(ty, _)| *ty != WAITS);
        let first = match found {
            Some((of, fact)) if of as usize == number => words.get(fact + links),
            _ => ty.newest(words),
        };
        // A fact that waited is ordered by its later number.
        let before = found.map_or(before, |(_, fact)| words.get64(fact + NUMBER));
        std::iter::successors(Some(first), move |fact| Some(words.get(fact + links)))
            .take_while(|fact| *fact != 0)
            .filter(move |fact| words.get64(fact + NUMBER) < before)
    }

    /// Estimates the bytes of a fact as a term, including those used while the term is made.
    fn size_of(self, ty: &FactType, fact: Address) -> usize {
        let of_field = |(number, field): (usize, &Field)| {
            let string = ty.cell(self.words, fact, number).filter(|_| field.kind == Kind::String);
            32 + field.name.len() + string.map_or(0, |string| StringTable::length(self.words, string as Address))
        };
        64 + ty.name.len() + ty.fields.iter().enumerate().map(of_field).sum::<usize>()
    }

    /// Returns the inserted fact at an address.
    pub(crate) fn at(self, fact: Address) -> Fact {
        let ty = &self.program.types[self.words.get(fact) as usize];
        let at = self.words.get64(fact + TIME) as i64;
        self.fact(ty, id_of(self.words, fact), at, |field| ty.cell(self.words, fact, field))
    }

    fn waiting_at(self, block: Address) -> Fact {
        let ty = &self.program.types[self.words.get(block + TYPE) as usize];
        let (id, at) = (self.words.get64(block + ID), time(self.words, block));
        self.fact(ty, id, at, |field| waiting::field(self.words, block, field))
    }

    fn fact(self, ty: &FactType, id: u64, at: i64, cell: impl Fn(usize) -> Option<u64>) -> Fact {
        let value = |kind: Kind, cell: u64| match kind {
            Kind::Integer => Owned::Integer(cell as i64),
            Kind::Float => Owned::Float(f64::from_bits(cell)),
            Kind::Boolean => Owned::Boolean(cell == 1),
            Kind::String => Owned::String(StringTable::bytes(self.words, cell as Address)),
        };
        let field =
            |(number, field): (usize, &Field)| (field.name.clone(), cell(number).map(|cell| value(field.kind, cell)));
        Fact { id, ty: ty.name.clone(), at, fields: ty.fields.iter().enumerate().map(field).collect() }
    }
}
