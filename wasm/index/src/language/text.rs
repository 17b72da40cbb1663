//! Checks string tests with patterns or lower case, and tests of addresses.

use crate::error::{quoted, Error, Kind};
use crate::language::check::{each, Checker, Named, Taker};
use crate::language::lexer::{quote, Token, TokenKind};
use crate::model::address::{disjoint, Network, Refusal};
use crate::model::lower;
use crate::model::predicate::{Borrowed, Lowered, Predicate, Relation, Test};
use crate::model::regex::Regex;
use crate::model::schema::Type;
use crate::model::wildcard::{self, ANY, MAX_PART_BYTES};
use crate::support::hash::out_of_memory;
use crate::support::heap_sort::sort;

impl<'a> Checker<'a, '_> {
    /// Returns the predicate of `lower(s) = 'a'`, or of the comparison of an address. `<>` has that of `=`.
    pub(super) fn compare_text(
        &self,
        named: &Named,
        name: Token,
        relation: Relation,
        operator: Token,
        constant: Token,
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let negated = match relation {
            Relation::Equal => false,
            Relation::NotEqual => true,
            _ => return Err(self.misuse(named, operator)),
        };
        if name.kind != TokenKind::Lowered {
            let network = self.network(named, constant)?;
            if network.bits() < network.first().width() {
                let message = format!(
                    "{} is a network, and an address is compared with one address; write {}",
                    quote(constant.of(self.text)),
                    quoted(&format!(
                        "{} {} ({})",
                        name.of(self.text),
                        if negated { "not in" } else { "in" },
                        constant.of(self.text)
                    ))
                );
                return Err(self.error(Kind::Type, constant, message).about(&named.attribute.name));
            }
        }
        self.among_texts(named, name, &[constant])
    }

    /// Returns the predicate of `lower(s) in ('a', 'b')`, or of `ip in ('10.0.0.0/8')`.
    pub(super) fn among_texts(
        &self,
        named: &Named,
        name: Token,
        constants: &[Token],
    ) -> Result<Predicate<Borrowed<'a>>, Error> {
        let test = if name.kind == TokenKind::Lowered {
            self.check_string(named, name)?;
            let taker = Taker::Attribute(named.attribute);
            let mut texts = each(constants, |token| self.lower(&self.string(&taker, token)?))?;
            sort(&mut texts, |a, b| a < b);
            texts.dedup();
            Test::Lowered(Lowered::OneOf(texts.into_boxed_slice()))
        } else {
            let mut networks = each(constants, |token| self.network(named, token))?;
            disjoint(&mut networks);
            Test::InNetworks(networks.into_boxed_slice())
        };
        Ok(named.test(test))
    }

    /// Returns the predicate of `s like 'a*'`.
    pub(super) fn like(&self, name: Token, token: Token) -> Result<Predicate<Borrowed<'a>>, Error> {
        let named = self.attribute(name)?;
        self.check_string(&named, name)?;
        let string = self.string(&Taker::Attribute(named.attribute), token)?;
        let is_lowered = name.kind == TokenKind::Lowered;
        // Lowered first, because that may lengthen the pattern. It changes no wildcard and no escape.
        let lowered = if is_lowered { self.lower(&string)? } else { Box::default() };
        let pattern = wildcard::parse(if is_lowered { &lowered } else { &string }).map_err(|refusal| {
            let (kind, at, message) = match refusal {
                wildcard::Refusal::Escape(at) => (
                    Kind::Syntax,
                    at,
                    r"a `\` in a pattern comes before `*`, `?` or `\`; write `\\\\` in the string for the `\` itself"
                        .to_owned(),
                ),
                wildcard::Refusal::TooLong => (
                    Kind::OutOfBounds,
                    0,
                    format!(
                        "a part of a pattern that has a `?` takes at most {MAX_PART_BYTES} bytes up to the next `*`; \
                         write `*` for some of it, or shorten it"
                    ),
                ),
            };
            self.error(kind, within(token, at, string.len(), self.text), message).about(&named.attribute.name)
        })?;
        let test = if is_lowered { Test::Lowered(lowered_like(pattern)) } else { plain_like(pattern) };
        Ok(named.test(test))
    }

    /// Returns the predicate of `s matches '[0-9]+'`.
    pub(super) fn regex(&self, name: Token, token: Token) -> Result<Predicate<Borrowed<'a>>, Error> {
        let named = self.attribute(name)?;
        self.check_string(&named, name)?;
        let string = self.string(&Taker::Attribute(named.attribute), token)?;
        let Ok(text) = std::str::from_utf8(&string) else { unreachable!("the text of an expression is UTF-8") };
        let regex = Regex::parse(text).map_err(|fault| {
            let kind = if fault.is_limit { Kind::OutOfBounds } else { Kind::Syntax };
            let at = within(token, fault.at, string.len(), self.text);
            self.error(kind, at, fault.message).about(&named.attribute.name)
        })?;
        Ok(named.test(Test::Matches(Box::new(regex))))
    }

    /// Checks that the attribute `named` by `name` has strings.
    fn check_string(&self, named: &Named, name: Token) -> Result<(), Error> {
        if named.attribute.ty == Type::String {
            return Ok(());
        }
        let message = format!(
            "attribute {} is of type {}, and `{}` takes strings",
            quote(&named.attribute.name),
            named.attribute.ty.name(),
            if name.kind == TokenKind::Lowered { "lower" } else { "like` or `matches" }
        );
        Err(self.error(Kind::Type, name, message).about(&named.attribute.name))
    }

    /// Returns the lower case of a constant.
    pub(super) fn lower(&self, text: &[u8]) -> Result<Box<[u8]>, Error> {
        let mut lowered = Vec::new();
        lowered.try_reserve_exact(lower::max_lowered_bytes(text.len())).map_err(out_of_memory)?;
        lower::lower(text, &mut lowered);
        Ok(lowered.into_boxed_slice())
    }

    /// Returns the network written in `token`, for the attribute `named`.
    fn network(&self, named: &Named, token: Token) -> Result<Network, Error> {
        let taker = Taker::Attribute(named.attribute);
        let TokenKind::String { .. } = token.kind else {
            return Err(self.mismatch(&taker, "an address or a network as a string", token));
        };
        Network::parse(&self.string(&taker, token)?).map_err(|refusal| {
            let given = quote(token.of(self.text));
            let message = match refusal {
                Refusal::Malformed => {
                    format!("{given} is no address and no network; write one like '10.0.0.1', '10.0.0.0/8' or '2001:db8::/32'")
                }
                Refusal::TooManyBits(width) => format!("{given} has more bits than its address, which has {width}"),
                Refusal::NotFirst(network) => format!("{given} has bits behind its prefix; did you mean '{network}'?"),
            };
            self.error(Kind::Type, token, message).about(&named.attribute.name)
        })
    }
}

/// Returns a token at byte `at` of the string constant `token`, whose text has `len` bytes. Falls back to the whole
/// constant if it has escapes.
fn within(token: Token, at: usize, len: usize, text: &str) -> Token {
    let start = if token.of(text).len() == len + 2 { token.start + 1 + at } else { token.start };
    Token { start, ..token }
}

/// Returns the simplest test equivalent to a pattern.
fn plain_like<'a>(pattern: Vec<u8>) -> Test<Borrowed<'a>> {
    match simple(&pattern) {
        Some(Simple::Any) => Test::NotNull,
        Some(Simple::Whole) => Test::StringEqual(Borrowed::Owned(pattern)),
        Some(Simple::Start(text)) => Test::StartsWith(text.into()),
        Some(Simple::End(text)) => Test::EndsWith(text.into()),
        Some(Simple::Part(text)) => Test::Contains(text.into()),
        None => Test::Like(pattern.into_boxed_slice()),
    }
}

/// Returns the simplest test of a lowercased string equivalent to a pattern.
fn lowered_like(pattern: Vec<u8>) -> Lowered {
    match simple(&pattern) {
        Some(Simple::Any) => Lowered::StartsWith(Box::default()),
        Some(Simple::Whole) => Lowered::OneOf([pattern.into()].into()),
        Some(Simple::Start(text)) => Lowered::StartsWith(text.into()),
        Some(Simple::End(text)) => Lowered::EndsWith(text.into()),
        Some(Simple::Part(text)) => Lowered::Contains(text.into()),
        None => Lowered::Like(pattern.into_boxed_slice()),
    }
}

/// A simple test that expresses a pattern.
enum Simple<'p> {
    Any,
    Whole,
    Start(&'p [u8]),
    End(&'p [u8]),
    Part(&'p [u8]),
}

fn simple(pattern: &[u8]) -> Option<Simple<'_>> {
    let is_plain = |text: &[u8]| !text.iter().any(|&byte| wildcard::is_wild(byte));
    match pattern {
        [ANY] => Some(Simple::Any),
        text if is_plain(text) => Some(Simple::Whole),
        [ANY, text @ .., ANY] if is_plain(text) => Some(Simple::Part(text)),
        [text @ .., ANY] if is_plain(text) => Some(Simple::Start(text)),
        [ANY, text @ ..] if is_plain(text) => Some(Simple::End(text)),
        _ => None,
    }
}
