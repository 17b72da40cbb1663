//! Compiles fact types and their domains.

use std::collections::HashSet;

use crate::compile::code::Kind;
use crate::compile::program::{Domain, FactType, Field};
use crate::compile::resolve::Constants;
use crate::compile::switch::Switch;
use crate::error::{self, Error};
use crate::language::{self, hint, Constant};
use crate::layout::MAX_FIELDS;

pub(super) fn compile(
    declared: &[language::FactType],
    text: &str,
    constants: &mut Constants,
) -> Result<Vec<FactType>, Error> {
    let mut types: Vec<FactType> = Vec::new();
    let mut names: HashSet<&str> = HashSet::new();
    for declaration in declared {
        let name = &declaration.name;
        if !names.insert(&name.text) {
            let message = format!("the fact type `{}` is declared twice; keep one declaration", name.text);
            return Err(Error::new(error::Kind::Type, message).about(&name.text).at(text, name.at));
        }
        if declaration.fields.len() > MAX_FIELDS {
            let message = format!("`{}` has more than {MAX_FIELDS} fields; split it into two fact types", name.text);
            return Err(Error::new(error::Kind::OutOfBounds, message).about(&name.text).at(text, name.at));
        }
        let mut fields: Vec<Field> = Vec::new();
        for field in &declaration.fields {
            if fields.iter().any(|other| other.name == field.name.text) || field.name.text == "at" {
                let message = match field.name.text.as_str() {
                    "at" => "`at` is the time of every fact; give the field another name".to_owned(),
                    name => format!("the field `{name}` is declared twice; keep one declaration"),
                };
                return Err(Error::new(error::Kind::Type, message).about(&field.name.text).at(text, field.name.at));
            }
            fields.push(compile_field(field, text, constants)?);
        }
        types.push(FactType {
            strict: declaration.strict,
            name: name.text.clone(),
            fields,
            indices: vec![Vec::new()],
            conditions: Vec::new(),
            keyed_by: Vec::new(),
            tested_by: Vec::new(),
            switch: Switch::default(),
            has_series: false,
            life: None,
            at: 0,
        });
    }
    Ok(types)
}

fn compile_field(field: &language::Field, text: &str, constants: &mut Constants) -> Result<Field, Error> {
    const KINDS: [(&str, Kind); 4] =
        [("integer", Kind::Integer), ("float", Kind::Float), ("string", Kind::String), ("boolean", Kind::Boolean)];
    let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| *name == field.ty.text) else {
        let known = KINDS.iter().map(|(name, _)| *name);
        let hint = hint(&field.ty.text, known, "write `integer`, `float`, `string` or `boolean`");
        let message = format!("`{}` is no type; {hint}", field.ty.text);
        return Err(Error::new(error::Kind::Type, message).about(&field.ty.text).at(text, field.ty.at));
    };
    let name = &field.name.text;
    let wrong = |at, message: String| Error::new(error::Kind::Type, message).about(name).at(text, at);
    let domain = match &field.domain {
        language::Domain::Any => Domain::Any,
        language::Domain::Range(least, most, at) => {
            let float = |constant: &Constant| match constant {
                Constant::Integer(integer) => Some(*integer as f64),
                Constant::Float(float) => Some(*float),
                _ => None,
            };
            match (kind, least, most) {
                (Kind::Integer, Constant::Integer(least), Constant::Integer(most)) if least <= most => {
                    Domain::Integers(*least, *most)
                }
                (Kind::Float, least, most) => match (float(least), float(most)) {
                    (Some(least), Some(most)) if least <= most => Domain::Floats(least, most),
                    _ => {
                        return Err(wrong(
                            *at,
                            format!("the domain of `{name}` is no range of numbers; write `0.0 .. 1.0`"),
                        ))
                    }
                },
                _ => {
                    let message =
                        format!("the domain of `{name}` is no range of its type; write integers, the least first");
                    return Err(wrong(*at, message));
                }
            }
        }
        language::Domain::Among(values, at) => {
            let mut among = Vec::new();
            for value in values {
                match (kind, value) {
                    (Kind::String, Constant::String(_)) | (Kind::Integer, Constant::Integer(_)) => {
                        among.push(constants.word(value)?)
                    }
                    _ => {
                        let message =
                            format!("the domain of `{name}` has a constant of another type; write its own type");
                        return Err(wrong(*at, message));
                    }
                }
            }
            if among.is_empty() {
                return Err(wrong(*at, format!("the domain of `{name}` is empty; list its values")));
            }
            among.sort_unstable();
            among.dedup();
            Domain::Among(among)
        }
    };
    Ok(Field { name: name.clone(), kind, optional: field.optional, forgiving: field.forgiving, domain })
}
