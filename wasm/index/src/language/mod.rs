//! The language of expressions: a parser to [`Postfix`], and a printer.
//!
//! Loosest first, with `name` an attribute and `constant` a number or a string:
//!
//! ```text
//! either     = both { ("or" | "||") both }
//! both       = negated { ("and" | "&&") negated }
//! negated    = { "not" } operand
//! operand    = "(" either ")" | "true" | "false" | predicate
//! predicate  = name                                        a boolean attribute
//!            | subject relation constant | constant relation name
//!            | subject ["not"] "in" list                   a scalar among constants
//!            | subject ["not"] "like" string               a string that fits a pattern
//!            | name ["not"] "matches" string               a string that matches a regular expression
//!            | constant ["not"] "in" name                  a constant among the elements of a list
//!            | name ("one" | "none" | "all") "of" list
//!            | name ["not"] "between" constant "and" constant
//!            | sum relation sum                             computed numbers
//!            | name ("=" | "<>") name                      two strings
//!            | ("any" | "all" | "none") name "(" either ")"   the objects of a list
//!            | name "is" ("null" | "not" "null" | "empty")
//!            | name "(" argument { "," argument } ")"      a function
//! relation   = "<" | "<=" | ">" | ">=" | "=" | "<>"
//! subject    = name | "lower" "(" name ")"
//! sum        = product { ("+" | "-") product }
//! product    = number { ("*" | "/") number }
//! number     = integer | float | name | ("size" | "length") "(" name ")" | "(" sum ")"
//! list       = "(" [ constant { "," constant } ] ")"
//! argument   = constant | subject
//! name       = [a-zA-Z_][a-zA-Z0-9_-]*
//! integer    = -?[0-9]+
//! float      = integer with a fraction, an exponent or both
//! string     = text in single or double quotes; \\ \' \" \n \r \t stand for one character each
//! ```
//!
//! Functions: `contains(name, string)`, `starts_with`, `ends_with`; `geo_within_radius(latitude, longitude, km)`;
//! `segment_within([name,] id, seconds)`, `segment_before`; `within_frequency_cap(type, namespace, value, seconds)`.
//!
//! In a pattern of `like`, `*` stands for any characters and `?` for one; `\\` in front of them, or of itself, makes a
//! character of it (so a string constant has two: `'100\\*'`). A pattern without wildcards, or with one `*` at an end, is read
//! as `=`, `starts_with` and the like. `lower(name)` is the [lower case](crate::model::lower) of a string; constants beside
//! it are lowered as well. The constants of an address are addresses and networks ([`crate::model::address`]).
//!
//! In a condition for the objects of a list, names are those of an object's attributes, and the whole condition is
//! about one object. `lower` and nested conditions for objects are not allowed there.
//!
//! `matches` takes a [regular expression](crate::model::regex) by RFC 9485 for the whole string.
//!
//! `<>`, `not in`, `not like` and `not matches` of these are parsed as `name is not null and not ...`.
//!
//! Keywords are lower case, and only `and or not in true false` are reserved. Other words have a meaning only where a
//! name is impossible, so attributes may be called `of`, `empty` or `contains`. A list may be empty: it contains no
//! scalar, and every list has all of its constants. A `-` inside a name is part of it: `a-3` is a name, `a>-3` a
//! comparison, and `a - 3` or `a -3` a difference.
//!
//! Parsing and printing do not recurse, so only memory bounds the nesting of an expression.

mod ast;
mod check;
mod lexer;
mod numbers;
mod parser;
mod print;
pub mod suggest;
#[cfg(test)]
mod tests;
mod text;

pub use print::{expression_text, predicate_text};
pub(crate) use suggest::{quote_path, suggestion};

use crate::error::{Error, Kind};
use crate::model::predicate::{Borrowed, Postfix, Step};
use crate::model::schema::Schema;
use crate::support::hash::out_of_memory;

/// Parses `text` over the attributes of `schema`. `constants` are integers by name, given with the expression; a
/// frequency cap finds its id among them (`flight_id` and the like). The first of two constants with one name counts.
///
/// The result is canonical: `3 < i` becomes `i > 3`, `3 in l` becomes `l one of (3)`, and the constants of a list are
/// sorted and deduplicated. Takes time and memory linear in the text, besides the sorting.
///
/// ```
/// use be_tree_index::language::{expression_text, read};
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let steps = read(b"(3 < age) && not (city in ('b', 'a', 'b'))", &schema, &[])?;
/// let text = expression_text(&steps, &schema, |bytes| bytes);
/// assert_eq!(text, "age > 3 and not city in ('a', 'b')");
/// assert_eq!(read(b"age > 3 and", &schema, &[]).unwrap_err().column, Some(12));
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
///
/// # Errors
///
/// All errors except `OutOfMemory` have the column.
///
/// - `Syntax`: the text is not UTF-8, or breaks the grammar.
/// - `UnknownAttribute`: the schema lacks an attribute that the text names or that a function reads.
/// - `Type`: an attribute or a constant is of the wrong type.
/// - `OutOfBounds`: a constant lies outside the attribute's bounds, an integer outside 64 bits, or a float is not finite.
/// - `MissingAttribute`: the id of a frequency cap is not among `constants`.
/// - `OutOfMemory`: the memory limit does not allow it.
pub fn read(text: &[u8], schema: &Schema, constants: &[(&[u8], i64)]) -> Result<Postfix, Error> {
    let steps = read_borrowed(text, schema, constants)?;
    Ok(steps.into_iter().map(|step| step.map(|text| text.into_owned().into_boxed_slice())).collect())
}

/// Like [`read`], but borrows strings without escapes from the text.
pub(crate) fn read_borrowed<'a>(
    text: &'a [u8],
    schema: &Schema,
    constants: &[(&[u8], i64)],
) -> Result<Vec<Step<Borrowed<'a>>>, Error> {
    let characters = std::str::from_utf8(text).map_err(|error| {
        Error::new(Kind::Syntax, "here is a byte that is not UTF-8; encode the text as UTF-8")
            .at(text, error.valid_up_to())
    })?;
    parser::parse(characters, schema, constants)
}

/// Pushes `item` if memory allows. All lists that grow with the text use this.
#[inline(always)]
fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), Error> {
    if list.len() == list.capacity() {
        reserve(list)?;
    }
    list.push(item);
    Ok(())
}

/// Reserves one more element.
#[cold]
#[inline(never)]
fn reserve<T>(list: &mut Vec<T>) -> Result<(), Error> {
    list.try_reserve(1).map_err(out_of_memory)
}
