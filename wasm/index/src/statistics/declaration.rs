//! Declarations: the statistics of an expression, each with its name, its kind and its attribute.

use std::sync::Arc;

use crate::error::{quoted, Error, Kind};
use crate::model::attribute::{AttributeId, Type};
use crate::model::schema::Schema;
use crate::sketch::{members, push, top};
use crate::term::{self, Reader};

/// The maximum number of statistics of an expression.
pub const MAX_STATS: usize = 16;
/// The maximum number of bytes of a name.
pub const MAX_NAME_BYTES: usize = 255;

/// The statistics of an expression. An empty declaration counts only matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// The statistics, with distinct names.
    pub stats: Vec<Stat>,
}

/// A statistic that an expression declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The description, which blobs contain.
    pub header: Arc<Header>,
    /// The attribute whose values are counted.
    pub attribute: AttributeId,
}

/// The description of a statistic. Two statistics with equal descriptions, except for the parameter of the kind, merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name in reports.
    pub name: Box<[u8]>,
    /// The name of the attribute.
    pub attribute: Box<[u8]>,
    /// The kind of the statistic.
    pub kind: StatKind,
    /// The form of the attribute's values.
    pub form: Form,
}

/// The kind of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatKind {
    /// The number of distinct values.
    Uniques,
    /// Count, sum, minimum and maximum.
    Sum,
    /// The most frequent values.
    Top {
        /// The number of values.
        k: u16,
    },
    /// Quantiles with a relative error of 1 %.
    Quantiles,
    /// The distinct values.
    Members {
        /// The maximum number of values.
        bound: u16,
    },
}

/// The form of values, which follows from the attribute's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Integers: also enums, times in microseconds, the elements of lists, and ids of segments.
    Integers,
    /// Floats.
    Floats,
    /// Strings, also the elements of lists.
    Strings,
    /// Booleans.
    Booleans,
    /// Internet addresses.
    Addresses,
}

impl Form {
    const ALL: [Form; 5] = [Form::Integers, Form::Floats, Form::Strings, Form::Booleans, Form::Addresses];

    /// Returns the form of the values of an attribute, or `None` if they cannot be counted.
    pub fn of(ty: Type) -> Option<Form> {
        match ty {
            Type::Integer | Type::IntegerEnum | Type::IntegerList | Type::DateTime | Type::Segments => {
                Some(Form::Integers)
            }
            Type::Float => Some(Form::Floats),
            Type::String | Type::StringList => Some(Form::Strings),
            Type::Boolean => Some(Form::Booleans),
            Type::Ip => Some(Form::Addresses),
            Type::FrequencyCaps | Type::ObjectList => None,
        }
    }

    /// Returns the number of this form in blobs.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    /// Returns the form with this number.
    pub(super) fn from_code(code: u8) -> Option<Form> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl StatKind {
    /// The name of every kind in declarations and reports, in the order of their numbers in blobs.
    pub const NAMES: [&'static str; 5] = ["uniques", "sum", "top", "quantiles", "members"];

    /// Returns the number of this kind in blobs.
    pub(super) fn code(self) -> u8 {
        match self {
            StatKind::Uniques => 0,
            StatKind::Sum => 1,
            StatKind::Top { .. } => 2,
            StatKind::Quantiles => 3,
            StatKind::Members { .. } => 4,
        }
    }

    /// Returns the name of this kind.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.code())]
    }

    /// Returns the parameter, or 0 if the kind has none.
    pub(super) fn parameter(self) -> u16 {
        match self {
            StatKind::Top { k } => k,
            StatKind::Members { bound } => bound,
            StatKind::Uniques | StatKind::Sum | StatKind::Quantiles => 0,
        }
    }

    /// Returns the kind with this number and parameter, or `None` if there is none.
    pub(super) fn from_code(code: u8, parameter: u64) -> Option<StatKind> {
        let small = u16::try_from(parameter).ok();
        match code {
            0 if parameter == 0 => Some(StatKind::Uniques),
            1 if parameter == 0 => Some(StatKind::Sum),
            2 => small.filter(|k| (1..=top::MAX_K).contains(k)).map(|k| StatKind::Top { k }),
            3 if parameter == 0 => Some(StatKind::Quantiles),
            4 => {
                small.filter(|bound| (1..=members::MAX_BOUND).contains(bound)).map(|bound| StatKind::Members { bound })
            }
            _ => None,
        }
    }

    /// Returns whether this kind counts values of `form`.
    pub(super) fn counts(self, form: Form) -> bool {
        match self {
            StatKind::Uniques => true,
            StatKind::Sum | StatKind::Quantiles => matches!(form, Form::Integers | Form::Floats),
            StatKind::Top { .. } | StatKind::Members { .. } => form != Form::Floats,
        }
    }
}

impl Stat {
    /// Returns the bytes that the statistic takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Stat>() + size_of::<Header>() + self.header.name.len() + self.header.attribute.len()
    }
}

impl Header {
    /// Returns whether figures with this and the other description merge.
    pub(super) fn merges_with(&self, other: &Header) -> bool {
        self.kind.code() == other.kind.code()
            && self.form == other.form
            && self.name == other.name
            && self.attribute == other.attribute
    }
}

impl Declaration {
    /// Reads a list of `{Name, Kind, Attribute, Parameter}`, or `nil`, which returns `None`. `Name` and `Attribute` are binaries.
    /// `Kind` is one of the atoms `uniques`, `sum`, `top`, `quantiles` and `members`. `Parameter` is the number of values of `top` (1
    /// to 100) or `members` (1 to 1000), and `nil` for other kinds.
    ///
    /// Errors: another term; more than [`MAX_STATS`] statistics; a name that is empty, longer than [`MAX_NAME_BYTES`] or there twice;
    /// an unknown attribute, or one whose values the kind cannot count; a parameter out of bounds.
    pub fn read(reader: &mut Reader, schema: &Schema) -> Result<Option<Declaration>, Error> {
        if reader.peek()? == term::Kind::Atom {
            let name = reader.atom()?;
            if &*name != b"nil" {
                let message = "statistics are a list of {Name, Kind, Attribute, Parameter}, or nil";
                return Err(Error::new(Kind::Type, message));
            }
            return Ok(None);
        }
        let mut declaration = Declaration::default();
        let mut list = reader.list()?;
        if list.left() > MAX_STATS {
            let message = format!("{} statistics are declared; declare at most {MAX_STATS}", list.left());
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        while reader.next(&mut list)? {
            let stat = stat(reader, schema)?;
            if declaration.stats.iter().any(|other| other.header.name == stat.header.name) {
                let name = String::from_utf8_lossy(&stat.header.name);
                let message = format!("the statistic {} is declared twice; keep one of them", quoted(&name));
                return Err(Error::new(Kind::Type, message));
            }
            push(&mut declaration.stats, stat)?;
        }
        Ok(Some(declaration))
    }
}

fn stat(reader: &mut Reader, schema: &Schema) -> Result<Stat, Error> {
    let arity = reader.tuple()?;
    if arity != 4 {
        let message =
            format!("a statistic is {{Name, Kind, Attribute, Parameter}}, but this tuple has {arity} elements");
        return Err(Error::new(Kind::Type, message));
    }
    let name = reader.binary()?;
    let kind_name = reader.atom()?;
    let attribute_name = reader.binary()?;
    let parameter = parameter(reader)?;
    let shown = String::from_utf8_lossy(name).into_owned();
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let message =
            format!("the name of a statistic has 1 to {MAX_NAME_BYTES} bytes, but this one has {}", name.len());
        return Err(Error::new(Kind::OutOfBounds, message));
    }
    let code = StatKind::NAMES.iter().position(|known| known.as_bytes() == &*kind_name);
    let Some(code) = code else {
        let known = StatKind::NAMES.join(", ");
        let given = String::from_utf8_lossy(&kind_name);
        let message = format!("the statistic {} is of kind {}; the kinds are {known}", quoted(&shown), quoted(&given));
        return Err(Error::new(Kind::Type, message));
    };
    let Some(kind) = StatKind::from_code(code as u8, parameter) else {
        let message = format!(
            "the statistic {} has the parameter {parameter}; give `top` 1 to {}, `members` 1 to {}, and other kinds none",
            quoted(&shown),
            top::MAX_K,
            members::MAX_BOUND
        );
        return Err(Error::new(Kind::OutOfBounds, message));
    };
    let attribute_shown = String::from_utf8_lossy(attribute_name).into_owned();
    let Some(attribute) = schema.find(attribute_name) else {
        let message =
            format!("the statistic {} counts {}, which is no attribute", quoted(&shown), quoted(&attribute_shown));
        return Err(Error::new(Kind::UnknownAttribute, message).about(attribute_shown));
    };
    let ty = schema.attribute(attribute).ty;
    let Some(form) = Form::of(ty).filter(|&form| kind.counts(form)) else {
        let message = format!(
            "the statistic {} of kind {} cannot count values of {}, which is of type {}",
            quoted(&shown),
            kind.name(),
            quoted(&attribute_shown),
            ty.name()
        );
        return Err(Error::new(Kind::Type, message).about(attribute_shown));
    };
    let header = Header { name: name.into(), attribute: attribute_name.into(), kind, form };
    Ok(Stat { header: Arc::new(header), attribute })
}

/// Reads a parameter: an integer, or `nil` for none, which is 0.
fn parameter(reader: &mut Reader) -> Result<u64, Error> {
    if reader.peek()? == term::Kind::Atom && &*reader.atom()? == b"nil" {
        return Ok(0);
    }
    reader.unsigned()
}
