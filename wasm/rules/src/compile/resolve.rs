//! Resolves the names and the types of expressions.

use crate::compile::code::{Arithmetic, Code, Kind, Relation, OWN};
use crate::compile::program::{Domain, FactType, Field, TypeNames};
use crate::error::{self, quoted, Error};
use crate::language::{hint, nearest, Binary, Constant, Expr, Function, Name, Node, Offset};
use crate::layout::{field_offset, DEFINED, FIELDS};
use crate::memory::{Address, StringTable, Words};

/// Interns the constants of rules. Their strings stay in the engine's memory for good.
pub(crate) struct Constants<'a> {
    pub words: &'a mut Words,
    pub strings: StringTable,
}

impl Constants<'_> {
    /// Returns the 64-bit value of a constant.
    pub fn word(&mut self, constant: &Constant) -> Result<u64, Error> {
        Ok(match constant {
            Constant::Integer(integer) => *integer as u64,
            Constant::Float(float) => float.to_bits(),
            Constant::Boolean(boolean) => u64::from(*boolean),
            Constant::String(string) => self.string(string.as_bytes())?.into(),
        })
    }

    fn string(&mut self, bytes: &[u8]) -> Result<Address, Error> {
        loop {
            let strings = self.strings;
            let made = strings.intern(self.words, bytes).and_then(|string| {
                strings.retain(self.words, string)?;
                self.words.commit()?;
                Ok(string)
            });
            match made {
                Ok(string) => return Ok(string),
                Err(full) => {
                    self.words.undo();
                    self.words.grow(full)?;
                }
            }
        }
    }
}

/// A name that expressions can read.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// The fact of a slot.
    Fact { slot: u8, ty: usize },
    /// The value of an aggregate or of a `let`.
    Local { local: u8, kind: Kind },
}

/// The names of a rule that are bound so far.
pub(super) struct Names<'a, 'c> {
    pub text: &'a str,
    pub types: &'a [FactType],
    pub type_names: &'a TypeNames,
    pub bindings: Vec<(String, Binding)>,
    /// The fact whose fields are read without a prefix.
    pub own: Option<(u8, usize)>,
    pub constants: &'a mut Constants<'c>,
}

/// An expression and its type.
struct Typed<'a> {
    code: Code,
    kind: Kind,
    /// The field, if the expression is one: constants compared with it must lie in its domain.
    field: Option<&'a Field>,
    constant: Option<Constant>,
}

impl Typed<'_> {
    fn new(code: Code, kind: Kind) -> Self {
        Typed { code, kind, field: None, constant: None }
    }
}

/// The most values of a domain that an error lists.
const MAX_LISTED_NAMES: usize = 8;

/// Returns the error for an unknown name.
pub(super) fn unknown<'n>(name: &str, of: &str, known: impl Iterator<Item = &'n str> + Clone) -> Error {
    let listed = match known.clone().take(MAX_LISTED_NAMES).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "there is none".to_owned(),
        some => format!("known: {some}"),
    };
    let message = format!("{} is no {of}; {}", quoted(name), hint(name, known, &listed));
    Error::new(error::Kind::UnknownAttribute, message).about(name)
}

impl<'a> Names<'a, '_> {
    fn error(&self, kind: error::Kind, at: Offset, message: String) -> Error {
        Error::new(kind, message).at(self.text, at)
    }

    /// Returns the error for an unknown name.
    pub fn unknown<'n>(&self, name: &Name, of: &str, known: impl Iterator<Item = &'n str> + Clone) -> Error {
        unknown(&name.text, of, known).at(self.text, name.at)
    }

    /// Returns the number of a fact type.
    pub fn fact_type(&self, name: &Name) -> Result<usize, Error> {
        let found = self.type_names.find(self.types, &name.text);
        found.ok_or_else(|| self.unknown(name, "fact type", self.types.iter().map(|ty| ty.name.as_str())))
    }

    /// Returns the slot and the type of the fact with this name.
    pub fn fact(&self, name: &Name) -> Result<(u8, usize), Error> {
        let found = self.bindings.iter().find(|(bound, _)| *bound == name.text);
        match found {
            Some((_, Binding::Fact { slot, ty })) => Ok((*slot, *ty)),
            _ => {
                let facts = self.bindings.iter().filter(|(_, binding)| matches!(binding, Binding::Fact { .. }));
                Err(self.unknown(name, "name of a condition before this", facts.map(|(name, _)| name.as_str())))
            }
        }
    }

    /// Returns the number of a field.
    pub fn field(&self, ty: usize, name: &Name) -> Result<usize, Error> {
        let fields = &self.types[ty].fields;
        let found = fields.iter().position(|field| field.name == name.text);
        found.ok_or_else(|| {
            let of = format!("field of `{}`", self.types[ty].name);
            self.unknown(name, &of, fields.iter().map(|field| field.name.as_str()))
        })
    }

    fn read_field(&self, slot: u8, ty: usize, field: usize) -> Typed<'a> {
        let types = self.types;
        let declared = &types[ty].fields[field];
        Typed {
            code: Code::Field {
                slot,
                offset: field_offset(field),
                bit: if declared.optional { 1 << field } else { 0 },
            },
            kind: declared.kind,
            field: Some(declared),
            constant: None,
        }
    }

    /// Compiles a test.
    pub fn test(&mut self, expr: &Expr) -> Result<Code, Error> {
        let typed = self.typed(expr)?;
        if typed.kind != Kind::Boolean {
            let message = "this is no condition; compare it with something".to_owned();
            return Err(self.error(error::Kind::Type, expr.at, message));
        }
        Ok(typed.code)
    }

    /// Compiles an expression, and returns its type.
    pub fn value(&mut self, expr: &Expr) -> Result<(Code, Kind), Error> {
        let typed = self.typed(expr)?;
        Ok((typed.code, typed.kind))
    }

    /// Compiles a value for a field.
    pub fn value_for(&mut self, ty: usize, field: usize, expr: &Expr) -> Result<Code, Error> {
        let typed = self.typed(expr)?;
        let declared = &self.types[ty].fields[field];
        let code = match (declared.kind, typed.kind) {
            (wanted, given) if wanted == given => typed.code,
            (Kind::Float, Kind::Integer) => to_float(typed.code),
            (wanted, given) => {
                let message = format!("`{}` is {}, but this is {}", declared.name, kind_name(wanted), kind_name(given));
                return Err(self.error(error::Kind::Type, expr.at, message));
            }
        };
        if let Code::Constant(constant) = code {
            if !declared.domain.contains(constant) {
                let message = format!("this constant is outside the domain of `{}`", declared.name);
                return Err(self.error(error::Kind::OutOfBounds, expr.at, message));
            }
        }
        Ok(code)
    }

    fn typed(&mut self, expr: &Expr) -> Result<Typed<'a>, Error> {
        let typed = |code, kind| Ok(Typed::new(code, kind));
        match &expr.node {
            Node::Constant(constant) => Ok(Typed {
                code: Code::Constant(self.constants.word(constant)?),
                kind: constant_kind(constant),
                field: None,
                constant: Some(constant.clone()),
            }),
            Node::Name(name) => self.bare(&Name { text: name.clone(), at: expr.at }),
            Node::Field(fact, field) => {
                let (slot, ty) = match self.own {
                    // A condition may prefix its own fields with its own name.
                    Some((slot, ty)) if self.is_own(fact, slot) => (slot, ty),
                    _ => self.fact(fact)?,
                };
                if field.text == "at" {
                    return typed(Code::Time(slot), Kind::Integer);
                }
                Ok(self.read_field(slot, ty, self.field(ty, field)?))
            }
            Node::Not(operand) => typed(Code::Not(Box::new(self.test(operand)?)), Kind::Boolean),
            Node::IsNull(operand) => typed(Code::IsNull(Box::new(self.typed(operand)?.code)), Kind::Boolean),
            Node::Negative(operand) => {
                let operand = self.number(operand)?;
                typed(Code::Negative(operand.kind, Box::new(operand.code)), operand.kind)
            }
            Node::Binary(Binary::And, left, right) => {
                typed(Code::And(Box::new(self.test(left)?), Box::new(self.test(right)?)), Kind::Boolean)
            }
            Node::Binary(Binary::Or, left, right) => {
                typed(Code::Or(Box::new(self.test(left)?), Box::new(self.test(right)?)), Kind::Boolean)
            }
            Node::Binary(Binary::Compare(relation), left, right) => self.comparison(expr.at, *relation, left, right),
            Node::Binary(Binary::Compute(operator), left, right) => self.arithmetic(*operator, left, right),
            Node::In(operand, constants) => {
                let at = operand.at;
                let operand = self.typed(operand)?;
                let mut words = Vec::with_capacity(constants.len());
                for constant in constants {
                    let mut word = self.constants.word(constant)?;
                    match (operand.kind, constant_kind(constant)) {
                        (wanted, given) if wanted == given => {}
                        (Kind::Float, Kind::Integer) => word = (word as i64 as f64).to_bits(),
                        (wanted, given) => {
                            let message =
                                format!("this is {}, but the list has {}", kind_name(wanted), kind_name(given));
                            return Err(self.error(error::Kind::Type, at, message));
                        }
                    }
                    self.check_domain(at, &operand, word, constant)?;
                    words.push(word);
                }
                typed(Code::In(operand.kind, Box::new(operand.code), words), Kind::Boolean)
            }
            Node::If(parts) => {
                let [condition, yes, no] = &**parts;
                let condition = self.test(condition)?;
                let (mut yes, mut no) = (self.typed(yes)?, self.typed(no)?);
                if yes.kind != no.kind {
                    self.same_numbers(expr.at, &mut yes, &mut no)?;
                }
                typed(Code::If(Box::new([condition, yes.code, no.code])), yes.kind)
            }
            Node::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    fn is_own(&self, name: &Name, slot: u8) -> bool {
        slot != OWN
            && self.bindings.iter().any(|(bound, binding)| {
                matches!(binding, Binding::Fact { slot: other, .. } if *other == slot) && *bound == name.text
            })
    }

    fn bare(&mut self, name: &Name) -> Result<Typed<'a>, Error> {
        if let Some((slot, ty)) = self.own {
            if name.text == "at" {
                return Ok(Typed::new(Code::Time(slot), Kind::Integer));
            }
            if let Some(field) = self.types[ty].fields.iter().position(|field| field.name == name.text) {
                return Ok(self.read_field(slot, ty, field));
            }
        }
        match self.bindings.iter().find(|(bound, _)| *bound == name.text) {
            Some((_, Binding::Local { local, kind })) => Ok(Typed::new(Code::Local(*local), *kind)),
            Some((_, Binding::Fact { ty, .. })) => {
                let fields = &self.types[*ty].fields;
                let field = fields.first().map_or("at", |field| &field.name);
                let message = format!("`{0}` is a fact; name a field of it, for example `{0}.{field}`", name.text);
                Err(self.error(error::Kind::Type, name.at, message))
            }
            None => {
                let own = self.own.map_or(&[][..], |(_, ty)| &self.types[ty].fields);
                let locals = self.bindings.iter().filter(|(_, binding)| matches!(binding, Binding::Local { .. }));
                let known = own.iter().map(|field| field.name.as_str()).chain(locals.map(|(name, _)| name.as_str()));
                Err(self.unknown(name, "field here and no other name", known))
            }
        }
    }

    fn number(&mut self, expr: &Expr) -> Result<Typed<'a>, Error> {
        let typed = self.typed(expr)?;
        if matches!(typed.kind, Kind::Integer | Kind::Float) {
            return Ok(typed);
        }
        Err(self.error(error::Kind::Type, expr.at, format!("this is {}, not a number", kind_name(typed.kind))))
    }

    /// Converts to float if one of two numbers is a float.
    fn same_numbers(&self, at: Offset, left: &mut Typed, right: &mut Typed) -> Result<(), Error> {
        match (left.kind, right.kind) {
            (left, right) if left == right => {}
            (Kind::Integer, Kind::Float) => make_float(left),
            (Kind::Float, Kind::Integer) => make_float(right),
            (left, right) => {
                let message = format!("here are {} and {}; they need the same type", kind_name(left), kind_name(right));
                return Err(self.error(error::Kind::Type, at, message));
            }
        }
        Ok(())
    }

    fn comparison(&mut self, at: Offset, relation: Relation, left: &Expr, right: &Expr) -> Result<Typed<'a>, Error> {
        let (mut left, mut right) = (self.typed(left)?, self.typed(right)?);
        self.same_numbers(at, &mut left, &mut right)?;
        let is_ordered = matches!(left.kind, Kind::Integer | Kind::Float);
        if !is_ordered && !matches!(relation, Relation::Equal | Relation::Unequal) {
            let message = format!("{} has no order; compare it by `=`, `<>` or `in`", kind_name(left.kind));
            return Err(self.error(error::Kind::Type, at, message));
        }
        for (field, constant) in [(&left, &right), (&right, &left)] {
            if let (Code::Constant(word), Some(text)) = (&constant.code, &constant.constant) {
                if relation == Relation::Equal || relation == Relation::Unequal {
                    self.check_domain(at, field, *word, text)?;
                }
            }
        }
        let kind = left.kind;
        let code = Code::Compare(kind, relation, Box::new(left.code), Box::new(right.code));
        Ok(Typed::new(code, Kind::Boolean))
    }

    fn check_domain(&self, at: Offset, field: &Typed, word: u64, constant: &Constant) -> Result<(), Error> {
        let Some(field) = field.field.filter(|field| !field.domain.contains(word)) else { return Ok(()) };
        let mut message = format!("this constant is outside the domain of `{}`", field.name);
        if let (Domain::Among(values), Constant::String(string)) = (&field.domain, constant) {
            let values: Vec<String> = values
                .iter()
                .map(|value| String::from_utf8_lossy(&StringTable::bytes(self.constants.words, *value as u32)).into())
                .collect();
            message += &match nearest(string, values.iter().map(String::as_str)) {
                Some(near) => format!("; did you mean '{near}'?"),
                None => format!(": {}", values[..values.len().min(MAX_LISTED_NAMES)].join(", ")),
            };
        }
        Err(self.error(error::Kind::OutOfBounds, at, message))
    }

    fn arithmetic(&mut self, operator: Arithmetic, left: &Expr, right: &Expr) -> Result<Typed<'a>, Error> {
        let at = left.at;
        let (mut left, mut right) = (self.number(left)?, self.number(right)?);
        if operator == Arithmetic::Divide {
            make_float(&mut left);
            make_float(&mut right);
        }
        self.same_numbers(at, &mut left, &mut right)?;
        let kind = left.kind;
        let code = Code::Arithmetic(kind, operator, Box::new(left.code), Box::new(right.code));
        Ok(Typed::new(code, kind))
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) -> Result<Typed<'a>, Error> {
        let at = arguments[0].at;
        let mut typed = Vec::new();
        for argument in arguments {
            typed.push(self.number(argument)?);
        }
        if matches!(function, Function::Floor | Function::Sqrt | Function::Atan2) {
            typed.iter_mut().for_each(make_float);
        }
        if let [first, second] = &mut typed[..] {
            self.same_numbers(at, first, second)?;
        }
        let kind = typed[0].kind;
        let code = Code::Call(function, kind, typed.into_iter().map(|typed| typed.code).collect());
        Ok(Typed::new(code, kind))
    }
}

fn make_float(typed: &mut Typed) {
    if typed.kind == Kind::Integer {
        let code = std::mem::replace(&mut typed.code, Code::Constant(0));
        typed.code = to_float(code);
        typed.kind = Kind::Float;
    }
}

fn to_float(code: Code) -> Code {
    match code {
        Code::Constant(integer) => Code::Constant((integer as i64 as f64).to_bits()),
        code => Code::ToFloat(Box::new(code)),
    }
}

fn constant_kind(constant: &Constant) -> Kind {
    match constant {
        Constant::Integer(_) => Kind::Integer,
        Constant::Float(_) => Kind::Float,
        Constant::String(_) => Kind::String,
        Constant::Boolean(_) => Kind::Boolean,
    }
}

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "an integer",
        Kind::Float => "a float",
        Kind::String => "a string",
        Kind::Boolean => "a boolean",
    }
}

/// The word of a fact with the bits of its defined fields comes before the fields.
const _: () = assert!(DEFINED < FIELDS);
