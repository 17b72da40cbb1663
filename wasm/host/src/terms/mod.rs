//! Terms: conversions between Erlang terms and the host's values.
//!
//! `lists` makes lists of integers, with the terms of `small_integers`. `input` keeps a binary alive, and `reply` sends
//! a message to a waiting process.

pub mod input;
pub mod lists;
pub mod reply;
pub mod small_integers;

use std::fmt;
use std::ops::Range;

use rustler::{Binary, Decoder, Encoder, Env, NifResult, OwnedBinary, Term, TermType};
use wasmtime::{Val, ValType};

use crate::failure::{Failure, Kind};

pub mod atoms {
    rustler::atoms! {
        ok, error, done, r#yield = "yield", busy, vacant, ready, more,
        infinity, none, binary, u64s, u64_lists, u64_binaries, packed,
        function, global, memory, table, tag, constant, mutable,
        i32, i64, f32, f64, v128, reference,
        bad_module, not_found, out_of_fuel, out_of_memory, overloaded, trap, r#type = "type",
        free, running, suspended, broken,
        nan, negative_infinity, nil,
        built, cache, compiled,
        block, drop_new, drop_old, disconnect,
        wake, full, dropped, disconnected, closed, stale, empty, invalid,
    }
}

/// `{:error, kind, message}`
pub fn error<'a>(env: Env<'a>, failure: &Failure) -> Term<'a> {
    let kind = match failure.kind {
        Kind::BadModule => atoms::bad_module(),
        Kind::NotFound => atoms::not_found(),
        Kind::OutOfFuel => atoms::out_of_fuel(),
        Kind::OutOfMemory => atoms::out_of_memory(),
        Kind::Overloaded => atoms::overloaded(),
        Kind::Trap => atoms::trap(),
        Kind::Type => atoms::r#type(),
    };
    (atoms::error(), kind, failure.message.as_str()).encode(env)
}

/// An amount of fuel, or `None` for no bound (`:infinity`).
#[derive(Clone, Copy)]
pub struct Fuel(pub Option<u64>);

impl<'a> Decoder<'a> for Fuel {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        match term.decode::<u64>() {
            Ok(0) => Err(rustler::Error::BadArg),
            Ok(fuel) => Ok(Self(Some(fuel))),
            Err(_) if atoms::infinity() == term => Ok(Self(None)),
            Err(other) => Err(other),
        }
    }
}

/// The form of the output that a caller asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    None,
    Binary,
    /// A list of packed unsigned 64-bit integers if the call's status is 0, and otherwise a binary.
    U64s,
    /// A list of many such lists, each of which follows its length in the output.
    U64Lists,
    /// The same lists as binaries, in which the integers stay packed.
    U64Binaries,
}

impl<'a> Decoder<'a> for Output {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        if atoms::u64s() == term {
            Ok(Self::U64s)
        } else if atoms::u64_lists() == term {
            Ok(Self::U64Lists)
        } else if atoms::u64_binaries() == term {
            Ok(Self::U64Binaries)
        } else if atoms::binary() == term {
            Ok(Self::Binary)
        } else if atoms::none() == term {
            Ok(Self::None)
        } else {
            Err(rustler::Error::BadArg)
        }
    }
}

pub fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    Binary::from_owned(OwnedBinary::from_slice(bytes), env).encode(env)
}

/// The bytes of an output: in linear memory, or copied from there.
pub enum Bytes<'a, 'b> {
    InMemory(&'b [u8]),
    Copied(Binary<'a>),
}

impl<'a> Bytes<'a, '_> {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::InMemory(bytes) => bytes,
            Self::Copied(binary) => binary,
        }
    }

    /// Returns all bytes as a binary.
    pub fn binary(&self, env: Env<'a>) -> Term<'a> {
        self.part(env, 0..self.as_slice().len())
    }

    /// Returns a range of the bytes as a binary, which refers to the copy if there is one.
    pub fn part(&self, env: Env<'a>, range: Range<usize>) -> Term<'a> {
        match self {
            Self::InMemory(bytes) => binary(env, &bytes[range]),
            Self::Copied(all) => all.make_subbinary(range.start, range.len()).expect("a part of it").encode(env),
        }
    }
}

/// The types of values that pass between Erlang and a module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number {
    I32,
    I64,
    F32,
    F64,
}

impl Number {
    pub fn of(ty: &ValType) -> Option<Self> {
        match ty {
            ValType::I32 => Some(Self::I32),
            ValType::I64 => Some(Self::I64),
            ValType::F32 => Some(Self::F32),
            ValType::F64 => Some(Self::F64),
            ValType::V128 | ValType::Ref(_) => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// Decodes an argument of a function. An integer may be signed or unsigned, and is accepted for a float.
pub fn argument(term: Term, number: Number) -> Option<Val> {
    match number {
        Number::I32 => {
            let value = term.decode::<i64>().ok()?;
            let bits = i32::try_from(value).or_else(|_| u32::try_from(value).map(|value| value as i32));
            bits.ok().map(Val::I32)
        }
        Number::I64 => {
            let bits = term.decode::<i64>().or_else(|_| term.decode::<u64>().map(|value| value as i64));
            bits.ok().map(Val::I64)
        }
        Number::F32 => float(term).map(|value| Val::F32((value as f32).to_bits())),
        Number::F64 => float(term).map(|value| Val::F64(value.to_bits())),
    }
}

/// Describes a term in an error text: prints an atom or a number of 64 bits, and names the type of any other term.
/// Printing a large term can take minutes, for an integer quadratic in its length.
pub fn describe(term: Term) -> String {
    let is_short = || term.decode::<i64>().is_ok() || term.decode::<u64>().is_ok();
    let name = match term.get_type() {
        TermType::Atom => return format!("{term:?}"),
        TermType::Float => {
            return term.decode::<f64>().map_or_else(|_| "a float".to_owned(), |float| format!("{float:?}"))
        }
        TermType::Integer if is_short() => return format!("{term:?}"),
        TermType::Integer => "an integer of more than 64 bits",
        TermType::Binary => "a binary",
        TermType::List => "a list",
        TermType::Map => "a map",
        TermType::Tuple => "a tuple",
        TermType::Fun => "a function",
        TermType::Pid | TermType::Port | TermType::Ref | TermType::Unknown => "a term of another type",
    };
    name.to_owned()
}

fn float(term: Term) -> Option<f64> {
    term.decode::<f64>().or_else(|_| term.decode::<i64>().map(|value| value as f64)).ok()
}

/// Returns the results of a function. Integers are signed.
pub fn results<'a>(env: Env<'a>, values: &[Val]) -> Term<'a> {
    values.iter().rev().fold(Term::list_new_empty(env), |list, value| list.list_prepend(result(env, value)))
}

/// `values` have the types of `Number`, because functions with other types are never called.
fn result<'a>(env: Env<'a>, value: &Val) -> Term<'a> {
    match value {
        Val::I32(value) => value.encode(env),
        Val::I64(value) => value.encode(env),
        Val::F32(bits) => finite(env, f32::from_bits(*bits).into()),
        Val::F64(bits) => finite(env, f64::from_bits(*bits)),
        _ => atoms::reference().encode(env),
    }
}

/// Returns a float, or an atom if it is not finite: Erlang's floats are finite.
fn finite(env: Env, value: f64) -> Term {
    if value.is_nan() {
        atoms::nan().encode(env)
    } else if value == f64::INFINITY {
        atoms::infinity().encode(env)
    } else if value == f64::NEG_INFINITY {
        atoms::negative_infinity().encode(env)
    } else {
        value.encode(env)
    }
}
