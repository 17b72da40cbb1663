//! The declared fact types, and the check of a fact against its type.

use crate::clock::check_time;
use crate::compile::code::Kind as FieldKind;
use crate::compile::kind_name;
use crate::compile::program::{Domain, FactType, Field, Program};
use crate::engine::NewFact;
use crate::error::{quoted, Error, Kind};
use crate::language::hint;
use crate::memory::Words;
use crate::tables::STRINGS;
use crate::value::Value;

/// The fact types of an engine. A type and its fields have numbers from 0, in the order of the text.
#[derive(Clone, Copy, Debug)]
pub struct Types<'e> {
    pub(super) program: &'e Program,
    pub(super) words: &'e Words,
}

impl<'e> Types<'e> {
    /// Returns the names of the types.
    pub fn names(self) -> impl ExactSizeIterator<Item = &'e str> {
        self.program.types.iter().map(|ty| ty.name.as_str())
    }

    /// Returns the number of a type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn find(self, name: &str) -> Result<usize, Error> {
        let Program { types, names, .. } = self.program;
        names.find(types, name).ok_or_else(|| {
            let hint = hint(name, self.names(), "declare it by `fact`");
            Error::new(Kind::UnknownAttribute, format!("there is no fact type {}; {hint}", quoted(name))).about(name)
        })
    }

    /// Returns the milliseconds after which facts of a type are dropped, or `None` if they are kept.
    pub fn life(self, ty: usize) -> Option<i64> {
        self.program.types[ty].life
    }

    /// Returns whether facts of a type with an unknown field are refused.
    pub fn is_strict(self, ty: usize) -> bool {
        self.program.types[ty].strict
    }

    /// Returns the number of fields of a type.
    pub fn field_count(self, ty: usize) -> usize {
        self.program.types[ty].fields.len()
    }

    /// Returns the number of a field.
    ///
    /// Errors: `unknown_attribute`.
    pub fn field(self, ty: usize, name: &str) -> Result<usize, Error> {
        self.find_field(ty, name).ok_or_else(|| {
            let ty = &self.program.types[ty];
            let known = ty.fields.iter().map(|field| field.name.as_str());
            let hint = hint(name, known, "declare it, or leave it out");
            let message = format!("`{}` has no field {}; {hint}", ty.name, quoted(name));
            Error::new(Kind::UnknownAttribute, message).about(name)
        })
    }

    /// Returns the number of a field, if the type has it.
    pub fn find_field(self, ty: usize, name: &str) -> Option<usize> {
        self.program.types[ty].fields.iter().position(|field| field.name == name)
    }

    /// Returns whether a misfit value of a field counts as undefined.
    pub fn forgives(self, ty: usize, field: usize) -> bool {
        self.program.types[ty].fields[field].forgiving
    }

    /// Returns whether a field accepts a value.
    pub fn accepts(self, ty: usize, field: usize, value: Value) -> bool {
        let declared = &self.program.types[ty];
        self.check_value(declared, &declared.fields[field], value).is_ok()
    }

    /// Returns a checked fact with a time in milliseconds. Without one, the fact gets the time of its arrival.
    ///
    /// # Errors
    ///
    /// `unknown_attribute` for an unknown type or field; those of [`Types::check`].
    pub fn fact<'v>(self, ty: &str, time: Option<i64>, fields: &[(&str, Value<'v>)]) -> Result<NewFact<'v>, Error> {
        let ty = self.find(ty)?;
        let mut values = vec![None; self.field_count(ty)];
        for (name, value) in fields {
            values[self.field(ty, name)?] = Some(*value);
        }
        self.check(ty, time, &values)?;
        Ok(NewFact { ty, time, values })
    }

    /// Checks the time and the values of a fact, one value for each field of its type.
    ///
    /// # Errors
    ///
    /// `type` and `out_of_bounds` for a value that its field refuses, `missing_attribute` for a required field without a value,
    /// `out_of_bounds` for a time beyond the bounds.
    pub fn check(self, ty: usize, time: Option<i64>, values: &[Option<Value>]) -> Result<(), Error> {
        let declared = &self.program.types[ty];
        if values.len() != declared.fields.len() {
            let message =
                format!("`{}` has {} fields, but {} are given", declared.name, declared.fields.len(), values.len());
            return Err(Error::new(Kind::Type, message));
        }
        for (field, value) in declared.fields.iter().zip(values) {
            match value {
                Some(value) => self.check_value(declared, field, *value)?,
                None if field.optional => {}
                None => {
                    let message =
                        format!("`{}` lacks `{}`; give it a value or declare it optional", declared.name, field.name);
                    return Err(Error::new(Kind::MissingAttribute, message).about(&field.name));
                }
            }
        }
        time.map_or(Ok(()), check_time)
    }

    fn check_value(self, declared: &FactType, field: &Field, value: Value) -> Result<(), Error> {
        let is_any = field.domain == Domain::Any;
        let word = match (field.kind, value) {
            (FieldKind::Integer, Value::Integer(integer)) => integer as u64,
            (FieldKind::Float, Value::Integer(integer)) => (integer as f64).to_bits(),
            (FieldKind::Float, Value::Float(float)) if float.is_finite() => float.to_bits(),
            (FieldKind::Boolean, Value::Boolean(boolean)) => boolean.into(),
            (FieldKind::String, Value::String(_)) if is_any => return Ok(()),
            // Every string of a domain is a constant, and constants are interned.
            (FieldKind::String, Value::String(bytes)) => STRINGS.find(self.words, bytes).map_or(0, u64::from),
            _ => {
                let wanted = kind_name(field.kind);
                let message = format!("`{}` of `{}` is {wanted}; give {wanted}", field.name, declared.name);
                return Err(Error::new(Kind::Type, message).about(&field.name));
            }
        };
        if !is_any && !field.domain.contains(word) {
            let message = format!("`{}` of `{}` is outside its domain", field.name, declared.name);
            return Err(Error::new(Kind::OutOfBounds, message).about(&field.name));
        }
        Ok(())
    }
}
