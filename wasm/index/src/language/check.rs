//! Binds a predicate of a text to the schema: attributes, types, bounds.

use std::fmt;

use crate::error::{Error, Kind};
use crate::language::ast::{Atom, Membership};
use crate::language::lexer::{lower_case_keyword, quote, unquote, Token, TokenKind};
use crate::language::push;
use crate::language::suggest::suggestion;
use crate::model::path;
use crate::model::predicate::{Borrowed, CapType, Constants, Entity, Float, Lowered, Predicate, Relation, Step, Test};
use crate::model::schema::{Attribute, AttributeId, Bounds, Schema, Type};
use crate::support::hash::out_of_memory;

/// The context in which predicates are checked.
pub(super) struct Checker<'a, 's> {
    pub(super) text: &'a str,
    pub(super) schema: &'s Schema,
    /// The list whose objects have the attributes of the schema, in a condition for objects.
    list: Option<&'s str>,
    /// The ids for frequency caps.
    ids: [(Entity, Option<i64>); 5],
}

/// An attribute named in the text.
pub(super) struct Named<'a> {
    pub(super) id: AttributeId,
    pub(super) attribute: &'a Attribute,
}

/// The part of a predicate that takes a constant, for messages.
pub(super) enum Taker<'a> {
    Attribute(&'a Attribute),
    /// A computation.
    Computation,
    Argument {
        function: &'a str,
        meaning: &'static str,
    },
}

impl Taker<'_> {
    /// Returns the error with the attribute's name, if an attribute takes the constant.
    pub(super) fn named(&self, error: Error) -> Error {
        match self {
            Taker::Attribute(attribute) => error.about(&attribute.name),
            Taker::Argument { .. } | Taker::Computation => error,
        }
    }
}

impl fmt::Display for Taker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taker::Attribute(attribute) => {
                write!(f, "attribute {} is of type {} and", quote(&attribute.name), attribute.ty.name())
            }
            Taker::Computation => write!(f, "the computation"),
            Taker::Argument { function, meaning } => write!(f, "{meaning} of `{function}`"),
        }
    }
}

impl<'a, 's> Checker<'a, 's> {
    pub fn new(text: &'a str, schema: &'s Schema, constants: &[(&[u8], i64)]) -> Self {
        let ids = Entity::NAMES.map(|(_, constant, entity)| {
            let given = constants.iter().find(|(name, _)| *name == constant.as_bytes());
            (entity, given.map(|(_, id)| *id))
        });
        Checker { text, schema, list: None, ids }
    }

    /// Begins the condition for the objects of the list called `name`. Returns the list.
    pub fn enter(&mut self, name: Token) -> Result<AttributeId, Error> {
        let named = self.attribute(name)?;
        if named.attribute.ty != Type::ObjectList {
            let message = format!(
                "attribute {} is of type {}, and a condition in parentheses is for the objects of a list of type {}",
                quote(&named.attribute.name),
                named.attribute.ty.name(),
                Type::ObjectList.name()
            );
            return Err(self.error(Kind::Type, name, message).about(&named.attribute.name));
        }
        self.list = Some(&named.attribute.name);
        self.schema = self.schema.objects(named.id);
        Ok(named.id)
    }

    /// Ends the condition for objects. Predicates then read the attributes of `schema` again.
    pub fn leave(&mut self, schema: &'s Schema) {
        self.list = None;
        self.schema = schema;
    }

    /// Returns whether predicates read the attributes of objects in a list.
    pub fn is_among_objects(&self) -> bool {
        self.list.is_some()
    }

    /// Adds the meaning of `atom` to `steps`. `items` are the constants of its list or its arguments.
    #[inline(always)]
    pub fn check(&self, atom: Atom, items: &[Token], steps: &mut Vec<Step<Borrowed<'a>>>) -> Result<(), Error> {
        self.add(atom, items, steps).map_err(|error| match (self.list, &error.attribute) {
            (Some(list), Some(attribute)) => {
                let path = format!("{list}.{attribute}");
                error.about(path)
            }
            _ => error,
        })
    }

    fn add(&self, atom: Atom, items: &[Token], steps: &mut Vec<Step<Borrowed<'a>>>) -> Result<(), Error> {
        match atom {
            Atom::Compare { name, relation, operator, constant } => {
                let named = self.attribute(name)?;
                match is_text(name, &named) {
                    true => {
                        let negated = relation == Relation::NotEqual;
                        add_negatable(steps, self.compare_text(&named, name, relation, operator, constant)?, negated)
                    }
                    false => add_predicate(steps, self.compare_named(&named, relation, operator, constant)?),
                }
            }
            Atom::Among { name, negated } => {
                let named = self.attribute(name)?;
                match is_text(name, &named) {
                    true => add_negatable(steps, self.among_texts(&named, name, items)?, negated),
                    false => add_predicate(steps, self.among(&named, name, negated, items)?),
                }
            }
            Atom::Like { name, negated, pattern } => add_negatable(steps, self.like(name, pattern)?, negated),
            Atom::Matches { name, negated, pattern } => add_negatable(steps, self.regex(name, pattern)?, negated),
            Atom::Between { name, negated, operator, low, high } => {
                let (relations, joined) = match negated {
                    false => ([Relation::GreaterOrEqual, Relation::LessOrEqual], Step::And),
                    true => ([Relation::Less, Relation::Greater], Step::Or),
                };
                let low = self.compare(name, relations[0], operator, low)?;
                let high = self.compare(name, relations[1], operator, high)?;
                add_predicate(steps, low)?;
                add_predicate(steps, high)?;
                push(steps, joined)
            }
            plain => add_predicate(steps, self.predicate(plain, items)?),
        }
    }

    fn predicate(&self, atom: Atom, items: &[Token]) -> Result<Predicate<Borrowed<'a>>, Error> {
        match atom {
            Atom::Bare(name) => self.bare(name),
            Atom::Sums(sums) => self.sums(&sums),
            Atom::Compare { .. }
            | Atom::Among { .. }
            | Atom::Like { .. }
            | Atom::Matches { .. }
            | Atom::Between { .. } => {
                unreachable!("`add` reads this form")
            }
            Atom::Has { name, negated, constant } => self.has(name, negated, constant),
            Atom::Members { name, membership } => self.members(name, membership, items),
            Atom::Null(name) => Ok(self.attribute(name)?.test(Test::Null)),
            Atom::NotNull(name) => Ok(self.attribute(name)?.test(Test::NotNull)),
            Atom::Empty(name) => self.empty(name),
            Atom::Call { function } => self.call(function, items),
        }
    }

    /// Returns the error for `b = true` and the like, at `token`.
    pub fn boolean_comparison(&self, token: Token) -> Error {
        self.error(
            Kind::Type,
            token,
            "`true` and `false` are compared with nothing; for a boolean `b` write `b` or `not b`",
        )
    }

    fn bare(&self, name: Token) -> Result<Predicate<Borrowed<'a>>, Error> {
        let named = self.attribute(name)?;
        match named.attribute.ty {
            Type::Boolean => Ok(named.test(Test::True)),
            _ => Err(self.misuse(&named, name)),
        }
    }

    pub(super) fn compare(
        &self,
        name: Token,
        relation: Relation,
        at: Token,
        constant: Token,
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        self.compare_named(&self.attribute(name)?, relation, at, constant)
    }

    /// Like [`Checker::compare`], for an attribute that is known.
    fn compare_named(
        &self,
        named: &Named,
        relation: Relation,
        at: Token,
        constant: Token,
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let taker = Taker::Attribute(named.attribute);
        let test = match (named.attribute.ty, relation) {
            (Type::Integer, _) | (Type::IntegerEnum, Relation::Equal | Relation::NotEqual) => {
                Test::Integer(relation, self.integer_within(named, constant)?)
            }
            (Type::DateTime, _) => Test::Integer(relation, self.time(&taker, self.schema.unit(named.id), constant)?),
            (Type::Float, _) => {
                let float = self.float(&taker, constant)?;
                self.within_float_bounds(named, constant, float)?;
                Test::Float(relation, float)
            }
            (Type::String, Relation::Equal) => Test::StringEqual(self.string(&taker, constant)?),
            (Type::String, Relation::NotEqual) => Test::StringNotEqual(self.string(&taker, constant)?),
            _ => return Err(self.misuse(named, at)),
        };
        Ok(named.test(test))
    }

    fn among(
        &self,
        named: &Named,
        name: Token,
        negated: bool,
        constants: &[Token],
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let constants = match named.attribute.ty {
            Type::Integer | Type::IntegerEnum | Type::String => self.constants_of(named, constants)?,
            _ => return Err(self.misuse(named, name)),
        };
        Ok(named.test(if negated { Test::NoneOf(constants) } else { Test::OneOf(constants) }))
    }

    fn has(&self, name: Token, negated: bool, constant: Token) -> Result<Predicate<Borrowed<'a>>, Error> {
        self.members(name, if negated { Membership::None } else { Membership::One }, &[constant])
    }

    fn members(
        &self,
        name: Token,
        membership: Membership,
        constants: &[Token],
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let named = self.attribute(name)?;
        let constants = match named.attribute.ty {
            Type::IntegerList | Type::StringList => self.constants_of(&named, constants)?,
            _ => return Err(self.misuse(&named, name)),
        };
        Ok(named.test(match membership {
            Membership::One => Test::OneOf(constants),
            Membership::None => Test::NoneOf(constants),
            Membership::All => Test::AllOf(constants),
        }))
    }

    fn empty(&self, name: Token) -> Result<Predicate<Borrowed<'a>>, Error> {
        let named = self.attribute(name)?;
        match named.attribute.ty {
            Type::IntegerList | Type::StringList | Type::Segments | Type::FrequencyCaps | Type::ObjectList => {
                Ok(named.test(Test::Empty))
            }
            _ => Err(self.misuse(&named, name)),
        }
    }

    fn call(&self, function: Token, arguments: &[Token]) -> Result<Predicate<Borrowed<'a>>, Error> {
        match function.of(self.text) {
            "contains" => self.substring(function, arguments, Test::Contains, Lowered::Contains),
            "starts_with" => self.substring(function, arguments, Test::StartsWith, Lowered::StartsWith),
            "ends_with" => self.substring(function, arguments, Test::EndsWith, Lowered::EndsWith),
            "geo_within_radius" => self.geo_within_radius(function, arguments),
            "segment_within" => {
                self.segment(function, arguments, |now, id, seconds| Test::SegmentWithin { now, id, seconds })
            }
            "segment_before" => {
                self.segment(function, arguments, |now, id, seconds| Test::SegmentBefore { now, id, seconds })
            }
            "within_frequency_cap" => self.within_frequency_cap(function, arguments),
            _ => Err(self.unknown_function(function)),
        }
    }

    fn substring(
        &self,
        function: Token,
        arguments: &[Token],
        test: impl Fn(Box<[u8]>) -> Test<Borrowed<'a>>,
        lowered: impl Fn(Box<[u8]>) -> Lowered,
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let [name, part] = self.exactly(function, arguments, "(attribute, string)")?;
        let named = self.argument_attribute(function, name, Type::String)?;
        let part = self.string(&self.argument(function, "the second argument"), part)?;
        Ok(named.test(match name.kind {
            TokenKind::Lowered => Test::Lowered(lowered(self.lower(&part)?)),
            _ => test(part.into_owned().into_boxed_slice()),
        }))
    }

    fn geo_within_radius(&self, function: Token, arguments: &[Token]) -> Result<Predicate<Borrowed<'a>>, Error> {
        let [latitude, longitude, radius] = self.exactly(function, arguments, "(latitude, longitude, kilometres)")?;
        let latitude = self.float(&self.argument(function, "the latitude"), latitude)?;
        let longitude = self.float(&self.argument(function, "the longitude"), longitude)?;
        let radius = self.float(&self.argument(function, "the radius"), radius)?;
        let attribute = self.implied(function, "latitude", Type::Float)?;
        let longitude_attribute = self.implied(function, "longitude", Type::Float)?;
        Ok(Predicate { attribute, test: Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius } })
    }

    fn segment(
        &self,
        function: Token,
        arguments: &[Token],
        test: impl Fn(AttributeId, i64, i64) -> Test<Borrowed<'a>>,
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let (name, rest) = match arguments {
            [name, rest @ ..] if arguments.len() == 3 => (Some(*name), rest),
            _ => (None, arguments),
        };
        let [id, seconds] = self.exactly(function, rest, "(attribute, segment, seconds) or (segment, seconds)")?;
        let attribute = match name {
            Some(name) => self.argument_attribute(function, name, Type::Segments)?.id,
            None => self.implied(function, "segments_with_timestamp", Type::Segments)?,
        };
        let id = self.integer(&self.argument(function, "the segment's id"), id)?;
        let seconds = self.integer(&self.argument(function, "the seconds"), seconds)?;
        let now = self.implied(function, "now", Type::Integer)?;
        Ok(Predicate { attribute, test: test(now, id, seconds) })
    }

    fn within_frequency_cap(&self, function: Token, arguments: &[Token]) -> Result<Predicate<Borrowed<'a>>, Error> {
        let [cap, namespace, value, seconds] =
            self.exactly(function, arguments, "(type, namespace, value, seconds)")?;
        let cap = self.cap_type(cap, self.string(&self.argument(function, "the type"), cap)?)?;
        let namespace = self.string(&self.argument(function, "the namespace"), namespace)?;
        let value = self.integer(&self.argument(function, "the value"), value)?;
        let seconds = self.integer(&self.argument(function, "the seconds"), seconds)?;
        let attribute = self.implied(function, "frequency_caps", Type::FrequencyCaps)?;
        let now = self.implied(function, "now", Type::Integer)?;
        let id = self.cap_id(function, cap)?;
        Ok(Predicate { attribute, test: Test::WithinFrequencyCap { now, cap, id, namespace, value, seconds } })
    }

    fn cap_type(&self, token: Token, name: Borrowed) -> Result<CapType, Error> {
        CapType::parse(&name).ok_or_else(|| {
            let types = Entity::NAMES.map(|(name, _, _)| format!("`{name}`")).join(", ");
            let found = token.describe(self.text);
            self.error(
                Kind::Type,
                token,
                format!("a frequency cap's type is {types}, or one of these with `:ip`; found {found}"),
            )
        })
    }

    /// Returns the id of a cap's counter from the constants given with the expression.
    fn cap_id(&self, function: Token, cap: CapType) -> Result<i64, Error> {
        let given = self.ids.iter().find(|(entity, _)| *entity == cap.entity).and_then(|(_, id)| *id);
        given.ok_or_else(|| {
            let constant = cap.entity.constant();
            let message = format!(
                "the frequency cap of type `{}` needs the constant `{constant}`; give it with the expression: \
                 constants: [{constant}: 1]",
                cap.name()
            );
            self.error(Kind::MissingAttribute, function, message).about(constant)
        })
    }

    /// Returns the attribute named by `token`.
    pub(super) fn attribute(&self, token: Token) -> Result<Named<'s>, Error> {
        match (token.kind, find(token.bytes(self.text), self.schema)) {
            (TokenKind::Name | TokenKind::Lowered, Some(id)) => Ok(Named { id, attribute: self.schema.attribute(id) }),
            _ => Err(self.no_attribute(token)),
        }
    }

    /// Returns the error that `token` names no attribute.
    #[cold]
    fn no_attribute(&self, token: Token) -> Error {
        let name = token.of(self.text);
        match token.kind {
            TokenKind::Name | TokenKind::Lowered => {
                let mend = match (lower_case_keyword(name), suggestion(name, self.schema)) {
                    (Some(keyword), _) => format!("keywords are lower case: write `{keyword}`"),
                    (None, Some(mend)) => mend,
                    (None, None) => "declare it there, or put quotes around a string".into(),
                };
                let lacking = match self.list {
                    None => "the schema has".into(),
                    Some(list) => format!("objects in {} have", quote(list)),
                };
                let message = format!("{lacking} no attribute {}; {mend}", quote(name));
                self.error(Kind::UnknownAttribute, token, message).about(name)
            }
            _ => {
                let message = format!("expected the name of an attribute, found {}", token.describe(self.text));
                self.error(Kind::Syntax, token, message)
            }
        }
    }

    /// Returns the attribute of type `ty` named by an argument of `function`.
    fn argument_attribute(&self, function: Token, name: Token, ty: Type) -> Result<Named<'s>, Error> {
        let named = self.attribute(name)?;
        self.of_type(function, named.attribute, ty, name)?;
        Ok(named)
    }

    /// Returns the attribute of type `ty` that `function` reads implicitly.
    fn implied(&self, function: Token, name: &str, ty: Type) -> Result<AttributeId, Error> {
        let Some(id) = self.schema.find(name.as_bytes()) else {
            let message = format!(
                "{} reads the attribute `{name}`, which the schema does not have; declare `{name}` as {}",
                quote(function.of(self.text)),
                ty.name()
            );
            return Err(self.error(Kind::UnknownAttribute, function, message).about(name));
        };
        self.of_type(function, self.schema.attribute(id), ty, function)?;
        Ok(id)
    }

    fn of_type(&self, function: Token, attribute: &Attribute, ty: Type, at: Token) -> Result<(), Error> {
        if attribute.ty == ty {
            return Ok(());
        }
        let message = format!(
            "{} reads an attribute of type {}, but {} is of type {}; declare it as {}",
            quote(function.of(self.text)),
            ty.name(),
            quote(&attribute.name),
            attribute.ty.name(),
            ty.name()
        );
        Err(self.error(Kind::Type, at, message).about(&attribute.name))
    }

    /// Returns the constants of a list for `named`, an integer or string, or a list of them. Integers are sorted and
    /// deduplicated here, strings once they have ids (`Predicate::map`).
    fn constants_of(&self, named: &Named, tokens: &[Token]) -> Result<Constants<Borrowed<'a>>, Error> {
        match named.attribute.ty {
            Type::String | Type::StringList => {
                let taker = Taker::Attribute(named.attribute);
                let strings = each(tokens, |token| self.string(&taker, token))?;
                Ok(Constants::Strings(strings.into_boxed_slice()))
            }
            _ => {
                let mut integers = each(tokens, |token| self.integer_within(named, token))?;
                integers.sort_unstable();
                integers.dedup();
                Ok(Constants::Integers(integers.into_boxed_slice()))
            }
        }
    }

    fn integer_within(&self, named: &Named, token: Token) -> Result<i64, Error> {
        let integer = self.integer(&Taker::Attribute(named.attribute), token)?;
        match named.attribute.bounds {
            Bounds::Integer { min, max } if !(min..=max).contains(&integer) => {
                Err(self.outside(named, token, format!("{min} to {max}")))
            }
            _ => Ok(integer),
        }
    }

    fn within_float_bounds(&self, named: &Named, token: Token, float: Float) -> Result<(), Error> {
        match named.attribute.bounds {
            Bounds::Float { min, max } if !(min..=max).contains(&float.get()) => {
                Err(self.outside(named, token, format!("{min:?} to {max:?}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn integer(&self, taker: &Taker, token: Token) -> Result<i64, Error> {
        if token.kind != TokenKind::Integer {
            return Err(self.mismatch(taker, "an integer", token));
        }
        if let Some(integer) = short_integer(token.bytes(self.text)) {
            return Ok(integer);
        }
        token.of(self.text).parse().map_err(|_| {
            let message = format!(
                "the integer {} does not fit 64 bits; write one from {} to {}",
                quote(token.of(self.text)),
                i64::MIN,
                i64::MAX
            );
            taker.named(self.error(Kind::OutOfBounds, token, message))
        })
    }

    pub(super) fn float(&self, taker: &Taker, token: Token) -> Result<Float, Error> {
        if !matches!(token.kind, TokenKind::Integer | TokenKind::Float) {
            return Err(self.mismatch(taker, "a number", token));
        }
        match token.of(self.text).parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Float::new(float)),
            _ => {
                let number = quote(token.of(self.text));
                let message =
                    format!("the number {number} does not fit a 64-bit float; write one below 1.8e308 in size");
                Err(taker.named(self.error(Kind::OutOfBounds, token, message)))
            }
        }
    }

    #[inline(always)]
    pub(super) fn string(&self, taker: &Taker, token: Token) -> Result<Borrowed<'a>, Error> {
        match token.kind {
            TokenKind::String { .. } => unquote(token, self.text),
            _ => Err(self.mismatch(taker, "a string", token)),
        }
    }

    /// Returns the error for a constant of the wrong type.
    pub(super) fn mismatch(&self, taker: &Taker, wanted: &str, token: Token) -> Error {
        let mend = match (wanted, token.kind) {
            ("a string", _) => "; put it in quotes",
            (_, TokenKind::Name) => "; an attribute cannot stand here",
            ("an integer", TokenKind::Float) => "; write it without fraction and exponent",
            (_, TokenKind::String { .. }) => "; write a number without quotes",
            _ => "",
        };
        let message = format!("{taker} takes {wanted}, found {}{mend}", token.describe(self.text));
        let kind = if token.kind == TokenKind::Name { Kind::Syntax } else { Kind::Type };
        taker.named(self.error(kind, token, message))
    }

    /// Returns the error that the attribute's type does not support this form of predicate.
    pub(super) fn misuse(&self, named: &Named, at: Token) -> Error {
        let name = quote(&named.attribute.name);
        let mend = match named.attribute.ty {
            Type::Boolean => "write its bare name, or `not` and its name",
            Type::Integer => "compare it with an integer, as in `i > 1` or `i in (1, 2)`",
            Type::Float => "compare it with a number, as in `f > 1.5`",
            Type::String => {
                "compare it with `=`, `<>` or `in`, or use `like`, `matches`, `contains(s, 'x')`, `starts_with(s, 'x')` or \
                 `ends_with(s, 'x')`"
            }
            Type::IntegerEnum => "it has no order: compare it with `=`, `<>` or `in`",
            Type::IntegerList => "use `one of`, `none of`, `all of` or `is empty`, or write `1 in l`",
            Type::StringList => "use `one of`, `none of`, `all of` or `is empty`, or write `'a' in l`",
            Type::DateTime => "compare it with a time, as in `at >= '2026-01-31T12:30:00Z'`",
            Type::Ip => "compare it with `=`, `<>` or `in`, as in `ip in ('10.0.0.0/8', '2001:db8::/32')`",
            Type::Segments => "use `segment_within`, `segment_before` or `is empty`",
            Type::FrequencyCaps => "use `within_frequency_cap` or `is empty`",
            Type::ObjectList => {
                "use `any`, `all` or `none` with a condition for its objects, as in `any list (name = 'x')`, or `is empty`"
            }
        };
        let message =
            format!("attribute {name} is of type {} and cannot be used so; {mend}", named.attribute.ty.name());
        self.error(Kind::Type, at, message).about(&named.attribute.name)
    }

    fn outside(&self, named: &Named, token: Token, bounds: String) -> Error {
        let message = format!(
            "{} is outside the bounds of {}; write a constant from {bounds}",
            quote(token.of(self.text)),
            quote(&named.attribute.name)
        );
        self.error(Kind::OutOfBounds, token, message).about(&named.attribute.name)
    }

    fn unknown_function(&self, function: Token) -> Error {
        let found = function.describe(self.text);
        let mend = match self.schema.find(function.of(self.text).as_bytes()) {
            Some(_) => "an attribute has no `(` behind it",
            None => {
                "the functions are `contains`, `starts_with`, `ends_with`, `lower`, `size`, `length`, `geo_within_radius`, `segment_within`, \
                 `segment_before` and `within_frequency_cap`"
            }
        };
        self.error(Kind::Syntax, function, format!("expected a function before `(`, found {found}; {mend}"))
    }

    /// Returns the arguments, or an error unless there are exactly `N`.
    fn exactly<const N: usize>(
        &self,
        function: Token,
        arguments: &[Token],
        expected: &str,
    ) -> Result<[Token; N], Error> {
        arguments.try_into().map_err(|_| {
            let name = quote(function.of(self.text));
            let found = match arguments.len() {
                1 => "1 argument".into(),
                count => format!("{count} arguments"),
            };
            let message = format!("{name} takes {expected}, found {found}");
            self.error(Kind::Syntax, function, message)
        })
    }

    fn argument(&self, function: Token, meaning: &'static str) -> Taker<'a> {
        Taker::Argument { function: function.of(self.text), meaning }
    }

    pub(super) fn error(&self, kind: Kind, at: Token, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(self.text.as_bytes(), at.start)
    }
}

/// Returns the attribute spelled by `name`, which may have unnecessary backticks.
#[inline(always)]
pub(super) fn find(name: &[u8], schema: &Schema) -> Option<AttributeId> {
    schema.find(name).or_else(|| find_quoted(name, schema))
}

/// Returns the attribute spelled by `name` with unnecessary backticks.
#[cold]
fn find_quoted(name: &[u8], schema: &Schema) -> Option<AttributeId> {
    if !name.contains(&b'`') {
        return None;
    }
    let fields = path::fields(std::str::from_utf8(name).ok()?).ok()?;
    schema.find(path::canonical(&fields).as_bytes())
}

/// Returns the number that a token of kind [`TokenKind::Integer`] spells, if it is so short that it fits 64 bits.
#[inline(always)]
fn short_integer(text: &[u8]) -> Option<i64> {
    const MAX_DIGITS: usize = 18;
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    if digits.len() > MAX_DIGITS {
        return None;
    }
    let size = digits.iter().fold(0, |size, digit| 10 * size + i64::from(digit - b'0'));
    Some(if is_negative { -size } else { size })
}

/// Returns whether a predicate of `named` tests a lowercased string or an address.
#[inline(always)]
fn is_text(name: Token, named: &Named) -> bool {
    name.kind == TokenKind::Lowered || named.attribute.ty == Type::Ip
}

/// Adds `predicate` to `steps`.
#[inline(always)]
fn add_predicate<'a>(steps: &mut Vec<Step<Borrowed<'a>>>, predicate: Predicate<Borrowed<'a>>) -> Result<(), Error> {
    push(steps, Step::Predicate(predicate))
}

/// Adds `predicate` to `steps`, or the condition that its attribute is defined and `predicate` is false.
fn add_negatable<'a>(
    steps: &mut Vec<Step<Borrowed<'a>>>,
    predicate: Predicate<Borrowed<'a>>,
    negated: bool,
) -> Result<(), Error> {
    if !negated {
        return add_predicate(steps, predicate);
    }
    add_predicate(steps, Predicate { attribute: predicate.attribute, test: Test::NotNull })?;
    add_predicate(steps, predicate)?;
    push(steps, Step::Not)?;
    push(steps, Step::And)
}

impl Named<'_> {
    pub(super) fn test<'a>(&self, test: Test<Borrowed<'a>>) -> Predicate<Borrowed<'a>> {
        Predicate { attribute: self.id, test }
    }
}

/// Maps the tokens by `read`.
pub(super) fn each<T>(tokens: &[Token], read: impl Fn(Token) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut constants = Vec::new();
    constants.try_reserve_exact(tokens.len()).map_err(out_of_memory)?;
    for token in tokens {
        constants.push(read(*token)?);
    }
    Ok(constants)
}
