//! Reads facts from external terms and JSON. All are checked before the first is inserted.
//!
//! The input is a list term. A fact is `{Type, Fields}`: `Type` an atom or a binary, `Fields` a map, a list of pairs, or a binary
//! with a JSON object. Or a fact is a binary with a JSON object of one name, the type, whose value is the object of fields. The
//! field `at` is the fact's time, an integer of milliseconds. Unknown fields are skipped, unless the type is strict.
//!
//! The input of a source is `{Source, Now, Facts}`. `Source` is its name, a binary, or `[]` for facts without a source. `Now` is
//! the event time that it has reached before its facts: an integer, `[]` if unknown, or the atom `end` if it has ended.

use be_tree_index::event::{Scalar, Scalars};
use be_tree_index::term::{Kind as TermKind, Reader};

use crate::engine::{Engine, EventTime, Types};
use crate::error::{Error, Kind};
use crate::layout::MAX_FIELDS;
use crate::time::sources::Source;
use crate::value::Value;

/// The values of the fields of a fact, in the order of its type.
pub type Values<'v> = [Option<Value<'v>>; MAX_FIELDS];

/// Facts that are read and checked. A string stays in the input if it occurs there unescaped.
#[derive(Debug, Default)]
pub struct Facts {
    facts: Vec<Checked>,
    cells: Vec<Cell>,
    text: Vec<u8>,
    /// The offset and the length of the source's name in the input.
    source: Option<(usize, usize)>,
    reached: Option<Reached>,
}

/// The event time of the source before its facts.
#[derive(Clone, Copy, Debug)]
enum Reached {
    Time(i64),
    End,
}

#[derive(Clone, Copy, Debug)]
struct Checked {
    ty: u32,
    time: Option<i64>,
    /// The position of its first value in `cells`.
    first: u32,
    /// The number of misfit values that count as undefined.
    mismatches: u32,
}

/// A field name of a fact, resolved.
#[derive(Clone, Copy)]
enum Named {
    /// A field of the type.
    Field(usize),
    /// The time of the fact.
    Time,
    /// No field of the type.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Undefined,
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// Bytes of the input: their offset and their length.
    Input(u32, u32),
    /// Bytes of `text`.
    Text(u32, u32),
}

/// A fact that was read.
pub struct Next<'v> {
    /// The number of its type.
    pub ty: usize,
    /// Its own time, if it has one.
    pub time: Option<i64>,
    /// The number of its fields.
    pub count: usize,
    /// Their values.
    pub values: Values<'v>,
}

impl Facts {
    /// Reads the facts of `input` from position `from` on. With `strict`, unknown fields are refused for every type. A fact with a
    /// time later than `latest` is refused.
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::fact`]; `syntax` and `type` for malformed input; `out_of_bounds` for a time after `latest`. They
    /// have the position of the faulty fact, if there is one.
    pub fn read(
        engine: &Engine,
        input: &[u8],
        from: usize,
        strict: bool,
        latest: i64,
    ) -> Result<Facts, (Option<usize>, Error)> {
        let of_input = |error: be_tree_index::error::Error| (None, Error::from(error));
        let mut reading = Reading { types: engine.types(), input, is_strict: strict, latest, facts: Facts::default() };
        let mut reader = Reader::new(input).map_err(of_input)?;
        if reader.peek().map_err(of_input)? == TermKind::Tuple {
            reading.source(engine, &mut reader).map_err(|error| (None, error))?;
        }
        let mut list = reader.list().map_err(of_input)?;
        let count = list.left().saturating_sub(from);
        reading.facts.facts.try_reserve_exact(count).map_err(|_| (None, no_memory()))?;
        let mut position = 0;
        while reader.next(&mut list).map_err(of_input)? {
            if position < from {
                reader.skip().map_err(of_input)?;
            } else {
                reading.fact(&mut reader).map_err(|error| (Some(position), error))?;
            }
            position += 1;
        }
        reader.finish().map_err(of_input)?;
        Ok(reading.facts)
    }

    /// Returns the source of the facts.
    pub fn source<'v>(&self, input: &'v [u8]) -> Source<'v> {
        self.source.map(|(start, length)| &input[start..][..length])
    }

    /// Returns the event time of the source before its facts, if the input states it.
    pub fn event_time<'v>(&self, input: &'v [u8]) -> Option<EventTime<'v>> {
        self.reached.map(|reached| match reached {
            Reached::Time(time) => EventTime::Of(self.source(input), time),
            Reached::End => EventTime::End(self.source(input)),
        })
    }

    /// Returns the byte range of each fact in `input`, which [`Facts::read`] accepted.
    pub fn spans(input: &[u8]) -> Result<Vec<(usize, usize)>, Error> {
        let mut reader = Reader::new(input)?;
        let mut list = reader.list()?;
        let mut spans = Vec::new();
        spans.try_reserve_exact(list.left()).map_err(|_| no_memory())?;
        while reader.next(&mut list)? {
            let start = reader.position();
            reader.skip()?;
            spans.push((start, reader.position() - start));
        }
        Ok(spans)
    }

    /// Returns the number of facts.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Returns the number of misfit values, among the first `count` facts, that count as undefined.
    pub fn mismatches(&self, count: usize) -> u64 {
        self.facts[..count].iter().map(|fact| u64::from(fact.mismatches)).sum()
    }

    /// Returns whether there are no facts.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns the fact at a position, counted from the first that was read. `input` is the input that was read.
    pub fn get<'v>(&'v self, engine: &Engine, position: usize, input: &'v [u8]) -> Next<'v> {
        let Checked { ty, time, first, .. } = self.facts[position];
        let count = engine.types().field_count(ty as usize);
        Next { ty: ty as usize, time, count, values: self.values(first as usize, count, input) }
    }

    /// Prefetches for the facts from a position on, see [`Engine::announce`].
    pub fn announce(&self, engine: &mut Engine, position: usize) {
        engine.announce(self.facts[position..].iter().map(|Checked { ty, time, first, .. }| {
            let value = move |field| match self.cells[*first as usize + field] {
                Cell::Integer(integer) => Some(Value::Integer(integer)),
                Cell::Float(float) => Some(Value::Float(float)),
                Cell::Boolean(boolean) => Some(Value::Boolean(boolean)),
                Cell::Undefined | Cell::Input(..) | Cell::Text(..) => None,
            };
            (*ty as usize, *time, value)
        }));
    }

    fn values<'v>(&'v self, first: usize, count: usize, input: &'v [u8]) -> Values<'v> {
        let mut values = [None; MAX_FIELDS];
        for (value, cell) in values.iter_mut().zip(&self.cells[first..first + count]) {
            *value = match *cell {
                Cell::Undefined => None,
                Cell::Integer(integer) => Some(Value::Integer(integer)),
                Cell::Float(float) => Some(Value::Float(float)),
                Cell::Boolean(boolean) => Some(Value::Boolean(boolean)),
                Cell::Input(start, length) => Some(Value::String(&input[start as usize..][..length as usize])),
                Cell::Text(start, length) => Some(Value::String(&self.text[start as usize..][..length as usize])),
            };
        }
        values
    }
}

/// The reading of an input: the facts so far, and the parameters of [`Facts::read`].
struct Reading<'r> {
    types: Types<'r>,
    input: &'r [u8],
    is_strict: bool,
    latest: i64,
    facts: Facts,
}

impl Reading<'_> {
    fn source(&mut self, engine: &Engine, reader: &mut Reader) -> Result<(), Error> {
        if reader.tuple()? != 3 {
            return Err(Error::new(Kind::Type, "facts of a source are {Source, Now, Facts}"));
        }
        let wrong = || {
            Error::new(
                Kind::Type,
                "facts of a source are {Source, Now, Facts}: `Source` is a binary or [], `Now` an integer, [] or end",
            )
        };
        if reader.peek()? == TermKind::Binary {
            let name = reader.binary()?;
            self.facts.source = Some((start_of(name, self.input), name.len()));
        } else if reader.list()?.left() > 0 {
            return Err(wrong());
        }
        self.facts.reached = match reader.peek()? {
            TermKind::Integer => Some(Reached::Time(reader.integer()?)),
            TermKind::Atom if *reader.atom()? == *b"end" => Some(Reached::End),
            TermKind::List if reader.list()?.left() == 0 => None,
            _ => return Err(wrong()),
        };
        match self.facts.event_time(self.input) {
            Some(event_time) => engine.clock().check(event_time),
            None => engine.clock().check_source(self.facts.source(self.input)),
        }
    }

    fn fact(&mut self, reader: &mut Reader) -> Result<(), Error> {
        match reader.peek()? {
            TermKind::Binary => {
                let text = reader.binary()?;
                let start = start_of(text, self.input);
                let mut json = Scalars::new(text);
                let mut types = json.object()?;
                let Some(ty) =
                    json.name(&mut types, |name, place| self.find(name).map_err(|error| at(error, text, place)))?
                else {
                    return Err(not_one_type());
                };
                self.json(ty?, &mut json, (text, start))?;
                if json.name(&mut types, |_, _| ())?.is_some() {
                    return Err(not_one_type());
                }
                Ok(json.finish()?)
            }
            TermKind::Tuple if reader.clone().tuple()? == 2 => {
                reader.tuple()?;
                let ty = match reader.peek()? {
                    TermKind::Atom => self.find(&reader.atom()?)?,
                    _ => self.find(reader.binary()?)?,
                };
                match reader.peek()? {
                    TermKind::Binary => {
                        let text = reader.binary()?;
                        let mut json = Scalars::new(text);
                        self.json(ty, &mut json, (text, start_of(text, self.input)))?;
                        Ok(json.finish()?)
                    }
                    _ => self.term(ty, reader),
                }
            }
            _ => {
                let message = format!(
                    "a fact is {{type, fields}} or a JSON object of one type, but here is {}",
                    reader.describe()?
                );
                Err(Error::new(Kind::Type, message))
            }
        }
    }

    /// Reads the fields of a JSON object. `start` is the offset of its text in the input.
    fn json(&mut self, ty: usize, json: &mut Scalars, (text, start): (&[u8], usize)) -> Result<(), Error> {
        let first = self.open(ty)?;
        let (mut time, mut mismatches) = (None, 0);
        let mut names = json.object()?;
        while let Some(field) =
            json.name(&mut names, |name, place| self.named(ty, name).map_err(|error| at(error, text, place)))?
        {
            let field = field?;
            if let Named::Unknown = field {
                json.skip()?;
                continue;
            }
            let unescaped = &mut self.facts.text;
            let read = json.value(|value| match value {
                Scalar::Undefined => Ok(Cell::Undefined),
                Scalar::Boolean(boolean) => Ok(Cell::Boolean(boolean)),
                Scalar::Integer(integer) => Ok(Cell::Integer(integer)),
                Scalar::Float(float) => Ok(Cell::Float(float)),
                Scalar::String(bytes, Some(place)) => Ok(Cell::Input((start + place) as u32, bytes.len() as u32)),
                Scalar::String(bytes, None) => unescaped_cell(unescaped, bytes),
            });
            let cell = match read {
                Ok(cell) => cell?,
                Err(error) if self.is_forgiven(ty, field, &error) => {
                    json.skip()?;
                    mismatches += 1;
                    Cell::Undefined
                }
                Err(error) => return Err(error.into()),
            };
            match field {
                Named::Field(field) => self.facts.cells[first + field] = cell,
                _ => time = time_of(cell)?,
            }
        }
        self.close(ty, (time, mismatches), first)
    }

    fn term(&mut self, ty: usize, reader: &mut Reader) -> Result<(), Error> {
        let first = self.open(ty)?;
        let mut read = (None, 0);
        if reader.peek()? == TermKind::Map {
            for _ in 0..reader.map()? {
                self.field(ty, first, &mut read, reader)?;
            }
        } else {
            let mut list = reader.list()?;
            while reader.next(&mut list)? {
                let arity = reader.tuple()?;
                if arity != 2 {
                    let message = format!("a field is {{name, value}}, but this tuple has {arity} elements");
                    return Err(Error::new(Kind::Type, message));
                }
                self.field(ty, first, &mut read, reader)?;
            }
        }
        self.close(ty, read, first)
    }

    /// Reads a field. `read` holds the fact's time and its number of misfit values so far.
    fn field(
        &mut self,
        ty: usize,
        first: usize,
        read: &mut (Option<i64>, u32),
        reader: &mut Reader,
    ) -> Result<(), Error> {
        let field = match reader.peek()? {
            TermKind::Atom => self.named(ty, &reader.atom()?)?,
            _ => self.named(ty, reader.binary()?)?,
        };
        if let Named::Unknown = field {
            return Ok(reader.skip()?);
        }
        let start = reader.clone();
        let cell = match self.cell(reader) {
            Err(error) if self.is_forgiven(ty, field, &error) => {
                *reader = start;
                reader.skip()?;
                read.1 += 1;
                Cell::Undefined
            }
            cell => cell?,
        };
        match field {
            Named::Field(field) => self.facts.cells[first + field] = cell,
            _ => read.0 = time_of(cell)?,
        }
        Ok(())
    }

    fn cell(&mut self, reader: &mut Reader) -> Result<Cell, be_tree_index::error::Error> {
        Ok(match reader.peek()? {
            TermKind::Integer => Cell::Integer(reader.integer()?),
            TermKind::Float => Cell::Float(reader.float()?),
            TermKind::Binary => {
                let bytes = reader.binary()?;
                Cell::Input(start_of(bytes, self.input) as u32, bytes.len() as u32)
            }
            TermKind::Atom => match &*reader.atom()? {
                b"true" => Cell::Boolean(true),
                b"false" => Cell::Boolean(false),
                b"nil" | b"undefined" => Cell::Undefined,
                name => unescaped_cell(&mut self.facts.text, name)?,
            },
            _ => {
                let term = reader.describe()?;
                let message = format!("a field is a number, a string or a boolean, but here is {term}");
                return Err(be_tree_index::error::Error::new(Kind::Type, message));
            }
        })
    }

    /// Reserves the values of a fact, and returns the position of the first.
    fn open(&mut self, ty: usize) -> Result<usize, Error> {
        let cells = &mut self.facts.cells;
        let (first, count) = (cells.len(), self.types.field_count(ty));
        cells.try_reserve(count).map_err(|_| no_memory())?;
        cells.resize(first + count, Cell::Undefined);
        Ok(first)
    }

    /// Checks the values of a fact, and adds it. The time and the number of misfit values are as in [`Reading::field`].
    fn close(&mut self, ty: usize, (time, mut mismatches): (Option<i64>, u32), first: usize) -> Result<(), Error> {
        let count = self.facts.cells.len() - first;
        let mut values = self.facts.values(first, count, self.input);
        let mut refused = 0_u32;
        for (field, value) in values[..count].iter_mut().enumerate() {
            if self.types.forgives(ty, field) && value.is_some_and(|value| !self.types.accepts(ty, field, value)) {
                *value = None;
                refused |= 1 << field;
            }
        }
        self.types.check(ty, time, &values[..count])?;
        if let Some(ahead) = time.map(|time| time.saturating_sub(self.latest)).filter(|ahead| *ahead > 0) {
            return Err(too_far_ahead(ahead));
        }
        for field in (0..count).filter(|field| refused & 1 << field != 0) {
            self.facts.cells[first + field] = Cell::Undefined;
            mismatches += 1;
        }
        self.facts.facts.push(Checked { ty: ty as u32, time, first: first as u32, mismatches });
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Result<usize, Error> {
        self.types.find(&String::from_utf8_lossy(name))
    }

    /// Resolves a field name.
    ///
    /// Errors: `unknown_attribute` if the type or the reading is strict.
    fn named(&self, ty: usize, name: &[u8]) -> Result<Named, Error> {
        if name == b"at" {
            return Ok(Named::Time);
        }
        let name = String::from_utf8_lossy(name);
        match self.types.find_field(ty, &name) {
            Some(field) => Ok(Named::Field(field)),
            None if self.is_strict || self.types.is_strict(ty) => self.types.field(ty, &name).map(Named::Field),
            None => Ok(Named::Unknown),
        }
    }

    /// Returns whether `error` is a misfit value of `field` that counts as undefined.
    fn is_forgiven(&self, ty: usize, field: Named, error: &be_tree_index::error::Error) -> bool {
        let is_of_value = matches!(error.kind, Kind::Type | Kind::OutOfBounds);
        is_of_value && matches!(field, Named::Field(field) if self.types.forgives(ty, field))
    }
}

/// Copies a string that is escaped in the input to `text`.
fn unescaped_cell(text: &mut Vec<u8>, bytes: &[u8]) -> Result<Cell, be_tree_index::error::Error> {
    let start = text.len();
    text.try_reserve(bytes.len()).map_err(|_| be_tree_index::error::Error::new(Kind::OutOfMemory, NO_MEMORY))?;
    text.extend_from_slice(bytes);
    Ok(Cell::Text(start as u32, bytes.len() as u32))
}

/// Returns the offset of a part of the input.
fn start_of(part: &[u8], input: &[u8]) -> usize {
    part.as_ptr() as usize - input.as_ptr() as usize
}

fn time_of(cell: Cell) -> Result<Option<i64>, Error> {
    match cell {
        Cell::Undefined => Ok(None),
        Cell::Integer(time) => Ok(Some(time)),
        _ => Err(Error::new(Kind::Type, "`at` is a time; give an integer of milliseconds").about("at")),
    }
}

/// Returns the error for a fact whose time is `ahead` milliseconds after the latest accepted one.
fn too_far_ahead(ahead: i64) -> Error {
    let message = format!(
        "`at` is {ahead} milliseconds after the latest time that the server takes, its clock's and `max_skew:`; mend the clock of the \
         sender, or give a time in milliseconds since 1970"
    );
    Error::new(Kind::OutOfBounds, message).about("at")
}

/// Returns the error with the column of a place in the JSON.
fn at(error: Error, text: &[u8], place: Option<usize>) -> Error {
    let column = place.and_then(|place| be_tree_index::error::Error::new(error.kind, "").at(text, place).column);
    Error { column, ..error }
}

fn not_one_type() -> Error {
    Error::new(Kind::Type, "a fact as JSON is an object of one name, the type: {\"login\": {\"user\": \"ann\"}}")
}

const NO_MEMORY: &str = "the facts do not fit in memory; give fewer at a time, or allow more memory";

fn no_memory() -> Error {
    Error::new(Kind::OutOfMemory, NO_MEMORY)
}
