//! A predicate: one test of one attribute.

pub mod objects;

use std::borrow::Cow;
use std::slice;

use crate::model::address::Network;
use crate::model::arithmetic::Comparison;
use crate::model::attribute::AttributeId;
use crate::model::predicate::objects::Quantified;
use crate::model::regex::Regex;
pub use crate::model::relation::{Float, Relation};
use crate::support::footprint::{of_block, of_slice};

/// The constants of a membership test, sorted and without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constants<S> {
    /// For integers, enums and integer lists.
    Integers(Box<[i64]>),
    /// For strings and string lists.
    Strings(Box<[S]>),
}

/// The type of a frequency cap's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapType {
    /// The kind of entity that it counts for.
    pub entity: Entity,
    /// Whether it counts each IP address separately (`"flight:ip"`).
    pub by_ip: bool,
}

/// The entities that frequency caps count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entity {
    /// `"flight"`, whose id is the constant `flight_id`.
    Flight,
    /// `"advertiser"`, whose id is the constant `advertiser_id`.
    Advertiser,
    /// `"campaign"`, whose id is the constant `campaign_id`.
    Campaign,
    /// `"campaign_group"`, whose id is the constant `campaign_group_id`.
    CampaignGroup,
    /// `"product"`, whose id is the constant `product_id`.
    Product,
}

impl Entity {
    /// Every entity with its name and the constant that holds its id.
    pub const NAMES: [(&'static str, &'static str, Entity); 5] = [
        ("flight", "flight_id", Entity::Flight),
        ("advertiser", "advertiser_id", Entity::Advertiser),
        ("campaign", "campaign_id", Entity::Campaign),
        ("campaign_group", "campaign_group_id", Entity::CampaignGroup),
        ("product", "product_id", Entity::Product),
    ];

    /// Returns the name of the constant that holds this entity's id.
    pub fn constant(self) -> &'static str {
        let (_, constant, _) = Entity::NAMES.iter().find(|(_, _, e)| *e == self).expect("every entity is listed");
        constant
    }
}

impl CapType {
    /// Returns the type with this name, such as `flight` or `flight:ip`.
    ///
    /// ```
    /// use be_tree_index::model::predicate::{CapType, Entity};
    ///
    /// let cap = CapType::parse(b"flight:ip").unwrap();
    /// assert_eq!((cap.entity, cap.by_ip), (Entity::Flight, true));
    /// assert_eq!(cap.name(), "flight:ip");
    /// ```
    pub fn parse(name: &[u8]) -> Option<CapType> {
        let (entity, by_ip) = match name.strip_suffix(b":ip") {
            Some(entity) => (entity, true),
            None => (name, false),
        };
        let (_, _, entity) = Entity::NAMES.iter().find(|(n, _, _)| n.as_bytes() == entity)?;
        Some(CapType { entity: *entity, by_ip })
    }

    /// Returns the name that [`CapType::parse`] accepts.
    pub fn name(self) -> String {
        let (name, _, _) = Entity::NAMES.iter().find(|(_, _, e)| *e == self.entity).expect("every entity is listed");
        format!("{name}{}", if self.by_ip { ":ip" } else { "" })
    }
}

/// A test of the [lower case](crate::model::lower) of a string. Its texts are in lower case too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lowered {
    /// It is one of these, which are sorted and without duplicates.
    OneOf(Box<[Box<[u8]>]>),
    /// It contains these bytes.
    Contains(Box<[u8]>),
    /// It starts with these bytes.
    StartsWith(Box<[u8]>),
    /// It ends with these bytes.
    EndsWith(Box<[u8]>),
    /// It fits this [pattern](crate::model::wildcard).
    Like(Box<[u8]>),
}

impl Lowered {
    /// Returns an upper bound of the number of the test's constants, as [`Test::constants`] does.
    fn constants(&self) -> usize {
        match self {
            Lowered::OneOf(texts) => texts.iter().map(|text| of_bytes(text)).sum(),
            Lowered::Contains(text) | Lowered::StartsWith(text) | Lowered::EndsWith(text) | Lowered::Like(text) => {
                of_bytes(text)
            }
        }
    }

    /// Returns the heap bytes of the test.
    fn heap_bytes(&self) -> usize {
        match self {
            Lowered::OneOf(texts) => of_slice(texts) + texts.iter().map(|text| of_slice(text)).sum::<usize>(),
            Lowered::Contains(text) | Lowered::StartsWith(text) | Lowered::EndsWith(text) | Lowered::Like(text) => {
                of_slice(text)
            }
        }
    }
}

/// Returns the number of constants that a text of this length counts as.
fn of_bytes(text: &[u8]) -> usize {
    1 + text.len() / 32
}

/// A test of an attribute's value. `S` is the type of strings: text while an expression is read, and then ids of the index's
/// interner.
///
/// Every test except [`Test::Null`] is false if its attribute is undefined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test<S> {
    /// A boolean is true.
    True,
    /// An integer (or, for `=` and `<>`, an enum) stands in this relation to the constant.
    Integer(Relation, i64),
    /// A float stands in this relation to the constant; `=` and `<>` within [`f64::EPSILON`].
    Float(Relation, Float),
    /// A string equals the constant.
    StringEqual(S),
    /// A string differs from the constant.
    StringNotEqual(S),
    /// A scalar is among the constants, or a list has one of them.
    OneOf(Constants<S>),
    /// A scalar is not among the constants, or a list has none of them.
    NoneOf(Constants<S>),
    /// A list has all the constants.
    AllOf(Constants<S>),
    /// The attribute is undefined.
    Null,
    /// The attribute is defined.
    NotNull,
    /// A list has no elements.
    Empty,
    /// A string contains these bytes.
    Contains(Box<[u8]>),
    /// A string starts with these bytes.
    StartsWith(Box<[u8]>),
    /// A string ends with these bytes.
    EndsWith(Box<[u8]>),
    /// A string fits this [pattern](crate::model::wildcard).
    Like(Box<[u8]>),
    /// The whole string matches.
    Matches(Box<Regex>),
    /// The lower case of a string passes this test.
    Lowered(Lowered),
    /// An address is in one of these networks, none of which contains another. They are sorted.
    InNetworks(Box<[Network]>),
    /// Any, all or none of the objects in a list meet a condition.
    Objects(Box<Quantified<S>>),
    /// A relation between two computed numbers. The attribute is the first one that they read.
    Compared(Box<Comparison>),
    /// Two string attributes are equal, or differ.
    SameString {
        /// The other attribute.
        other: AttributeId,
        /// Whether the strings must be equal, or must differ.
        is_equal: bool,
    },
    /// The point of a latitude and a longitude lies within a radius around the constants. The attribute is the latitude.
    GeoWithinRadius {
        /// The attribute of the longitude.
        longitude_attribute: AttributeId,
        /// Degrees.
        latitude: Float,
        /// Degrees.
        longitude: Float,
        /// Kilometres.
        radius: Float,
    },
    /// The segment `id` was last seen at most `seconds` seconds before now.
    SegmentWithin {
        /// The attribute of the present time, in seconds.
        now: AttributeId,
        /// The segment's id.
        id: i64,
        /// The greatest number of seconds.
        seconds: i64,
    },
    /// The segment `id` was last seen more than `seconds` seconds before now.
    SegmentBefore {
        /// The attribute of the present time, in seconds.
        now: AttributeId,
        /// The segment's id.
        id: i64,
        /// The least number of seconds.
        seconds: i64,
    },
    /// The frequency cap of this type, id and namespace allows one more.
    WithinFrequencyCap {
        /// The attribute of the present time, in seconds.
        now: AttributeId,
        /// The type of the counter.
        cap: CapType,
        /// The constant given with the expression.
        id: i64,
        /// The counter's namespace.
        namespace: S,
        /// The limit.
        value: i64,
        /// The window in seconds; 0 or less for none.
        seconds: i64,
    },
}

/// A test of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predicate<S> {
    /// The attribute that the test reads (the latitude of a geo test, the list of a segment or cap test).
    pub attribute: AttributeId,
    /// The test of the attribute's value.
    pub test: Test<S>,
}

/// A step of an expression in postfix order: operands before their operator. So every pass over an expression is a loop,
/// however deeply its text nests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<S> {
    /// `true` or `false`.
    Constant(bool),
    /// A predicate.
    Predicate(Predicate<S>),
    /// Negates the operand before it.
    Not,
    /// Joins the two operands before it.
    And,
    /// Joins the two operands before it.
    Or,
}

/// A string constant of an expression's text, with its escapes resolved.
pub type Text = Box<[u8]>;

/// Like [`Text`], but borrowed if it has no escapes. Lists of these are in the order of the text.
pub(crate) type Borrowed<'a> = Cow<'a, [u8]>;

/// An expression as the language's reader returns it.
pub type Postfix = Vec<Step<Text>>;

impl<S> Step<S> {
    /// Replaces the strings of the step. Lists of strings are sorted again, without duplicates.
    pub fn map<T: Ord>(self, text: impl FnMut(S) -> T) -> Step<T> {
        match self {
            Step::Constant(value) => Step::Constant(value),
            Step::Predicate(predicate) => Step::Predicate(predicate.map(text)),
            Step::Not => Step::Not,
            Step::And => Step::And,
            Step::Or => Step::Or,
        }
    }
}

impl<S> Predicate<S> {
    /// Replaces the strings of the predicate.
    pub(crate) fn map<T: Ord>(self, mut text: impl FnMut(S) -> T) -> Predicate<T> {
        let test = match self.test {
            Test::True => Test::True,
            Test::Integer(relation, constant) => Test::Integer(relation, constant),
            Test::Float(relation, constant) => Test::Float(relation, constant),
            Test::StringEqual(string) => Test::StringEqual(text(string)),
            Test::StringNotEqual(string) => Test::StringNotEqual(text(string)),
            Test::OneOf(constants) => Test::OneOf(constants.map(text)),
            Test::NoneOf(constants) => Test::NoneOf(constants.map(text)),
            Test::AllOf(constants) => Test::AllOf(constants.map(text)),
            Test::Null => Test::Null,
            Test::NotNull => Test::NotNull,
            Test::Empty => Test::Empty,
            Test::Contains(part) => Test::Contains(part),
            Test::StartsWith(part) => Test::StartsWith(part),
            Test::EndsWith(part) => Test::EndsWith(part),
            Test::Like(pattern) => Test::Like(pattern),
            Test::Matches(regex) => Test::Matches(regex),
            Test::Lowered(test) => Test::Lowered(test),
            Test::InNetworks(networks) => Test::InNetworks(networks),
            Test::Objects(quantified) => Test::Objects(Box::new(quantified.map(&mut text))),
            Test::Compared(comparison) => Test::Compared(comparison),
            Test::SameString { other, is_equal } => Test::SameString { other, is_equal },
            Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius } => {
                Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius }
            }
            Test::SegmentWithin { now, id, seconds } => Test::SegmentWithin { now, id, seconds },
            Test::SegmentBefore { now, id, seconds } => Test::SegmentBefore { now, id, seconds },
            Test::WithinFrequencyCap { now, cap, id, namespace, value, seconds } => {
                Test::WithinFrequencyCap { now, cap, id, namespace: text(namespace), value, seconds }
            }
        };
        Predicate { attribute: self.attribute, test }
    }
}

impl<S> Constants<S> {
    /// Returns the number of constants.
    pub(crate) fn len(&self) -> usize {
        match self {
            Constants::Integers(integers) => integers.len(),
            Constants::Strings(strings) => strings.len(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Constants::Integers(integers) => of_slice(integers),
            Constants::Strings(strings) => of_slice(strings),
        }
    }

    fn map<T: Ord>(self, text: impl FnMut(S) -> T) -> Constants<T> {
        match self {
            Constants::Integers(integers) => Constants::Integers(integers),
            Constants::Strings(strings) => {
                let mut strings: Vec<T> = strings.into_vec().into_iter().map(text).collect();
                strings.sort_unstable();
                strings.dedup();
                Constants::Strings(strings.into_boxed_slice())
            }
        }
    }
}

impl<S> Test<S> {
    /// Returns an upper bound of the number of its constants. Every 32 bytes of a substring count as one more, because the
    /// memory for a copy of the test is estimated from this number.
    pub(crate) fn constants(&self) -> usize {
        match self {
            Test::OneOf(constants) | Test::NoneOf(constants) | Test::AllOf(constants) => constants.len(),
            Test::True | Test::Null | Test::NotNull | Test::Empty => 0,
            Test::Contains(text) | Test::StartsWith(text) | Test::EndsWith(text) | Test::Like(text) => of_bytes(text),
            Test::Lowered(test) => test.constants(),
            Test::Matches(regex) => 4 + regex.bytes() / 32,
            Test::InNetworks(networks) => networks.len(),
            Test::Compared(comparison) => comparison.terms().count(),
            Test::Objects(quantified) => quantified.constants(),
            _ => 1,
        }
    }

    /// Returns the heap bytes of the test. Strings that are numbers of an interner count there.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Test::OneOf(constants) | Test::NoneOf(constants) | Test::AllOf(constants) => constants.heap_bytes(),
            Test::Contains(text) | Test::StartsWith(text) | Test::EndsWith(text) | Test::Like(text) => of_slice(text),
            Test::Lowered(test) => test.heap_bytes(),
            Test::Matches(regex) => of_block(size_of::<Regex>()) + regex.heap_bytes(),
            Test::InNetworks(networks) => of_slice(networks),
            Test::Objects(quantified) => of_block(size_of::<Quantified<S>>()) + quantified.heap_bytes(),
            Test::Compared(comparison) => of_block(size_of::<Comparison>()) + comparison.heap_bytes(),
            _ => 0,
        }
    }

    /// Calls `each` with every string of the test, in the order of [`Predicate::map`].
    pub(crate) fn each_string(&self, mut each: impl FnMut(&S)) {
        // One loop over a slice, so that the compiler inlines `each`.
        let strings: &[S] = match self {
            Test::StringEqual(string) | Test::StringNotEqual(string) => slice::from_ref(string),
            Test::WithinFrequencyCap { namespace, .. } => slice::from_ref(namespace),
            Test::Objects(quantified) => return quantified.each_string(&mut each),
            Test::OneOf(Constants::Strings(strings))
            | Test::NoneOf(Constants::Strings(strings))
            | Test::AllOf(Constants::Strings(strings)) => strings,
            _ => &[],
        };
        strings.iter().for_each(each);
    }
}
