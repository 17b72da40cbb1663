//! A figure: the sketch of one statistic of one expression on one day.

use std::sync::Arc;

use crate::error::Error;
use crate::sketch::codec::Input;
use crate::sketch::members::Members;
use crate::sketch::moments::{Moments, Number};
use crate::sketch::quantiles::Quantiles;
use crate::sketch::top::Top;
use crate::sketch::uniques::Uniques;
use crate::sketch::{ensure, growth, request};
use crate::statistics::declaration::{Form, Header, StatKind};
use crate::statistics::work::Elements;

/// A sketch, or nothing before its first value.
#[derive(Clone, Debug, Default)]
pub(super) enum Figure {
    #[default]
    Nothing,
    Uniques(Uniques),
    Moments(Box<Moments>),
    Top(Box<Top>),
    Quantiles(Box<Quantiles>),
    Members(Box<Members>),
}

impl Figure {
    fn new(kind: StatKind) -> Self {
        match kind {
            StatKind::Uniques => Figure::Uniques(Uniques::default()),
            StatKind::Sum => Figure::Nothing,
            StatKind::Top { k } => Figure::Top(Box::new(Top::new(k))),
            StatKind::Quantiles => Figure::Quantiles(Box::default()),
            StatKind::Members { bound } => Figure::Members(Box::new(Members::new(bound))),
        }
    }

    /// Returns an upper bound of the bytes that [`Figure::count`] requests.
    #[inline]
    pub fn growth(&self, kind: StatKind, elements: Elements) -> usize {
        if elements.is_empty() {
            return 0;
        }
        match self {
            Figure::Uniques(uniques) => uniques.growth(elements.len()),
            Figure::Moments(_) => 0,
            Figure::Top(top) => top.growth(elements.values()),
            Figure::Quantiles(quantiles) => quantiles.growth(elements.floats()),
            Figure::Members(members) => members.growth(elements.values()),
            Figure::Nothing => match kind {
                StatKind::Uniques => Uniques::default().growth(elements.len()),
                StatKind::Sum => request::<Moments>(1),
                StatKind::Top { k } => request::<Top>(1) + Top::new(k).growth(elements.values()),
                StatKind::Quantiles => request::<Quantiles>(1) + Quantiles::default().growth(elements.floats()),
                StatKind::Members { bound } => request::<Members>(1) + Members::new(bound).growth(elements.values()),
            },
        }
    }

    /// Counts the elements of an attribute's value.
    #[inline]
    pub fn count(&mut self, kind: StatKind, elements: Elements) {
        if elements.is_empty() {
            return;
        }
        if let Figure::Nothing = self {
            *self = Figure::new(kind);
        }
        match self {
            Figure::Uniques(uniques) => {
                if elements.len() > 1 {
                    uniques.reserve(elements.len());
                }
                elements.hashes().for_each(|hash| uniques.insert(hash));
            }
            Figure::Top(top) => {
                if elements.len() > 1 {
                    top.reserve(elements.values().filter(|&value| top.lacks(value)).count());
                }
                elements.values().for_each(|value| top.insert(value));
            }
            Figure::Quantiles(quantiles) => {
                if elements.len() > 1 {
                    quantiles.reserve(elements.floats());
                }
                elements.floats().for_each(|float| quantiles.insert(float));
            }
            Figure::Members(members) => {
                if elements.len() > 1 {
                    members.reserve(elements.values().filter(|&value| members.lacks(value)).count());
                }
                elements.values().for_each(|value| members.insert(value));
            }
            Figure::Nothing | Figure::Moments(_) => elements.numbers().for_each(|number| self.add(number)),
        }
    }

    fn add(&mut self, number: Number) {
        match self {
            Figure::Moments(moments) => moments.insert(number),
            _ => *self = Figure::Moments(Box::new(Moments::of(number))),
        }
    }

    /// Returns an upper bound of the bytes that [`Figure::merge`] requests.
    pub fn merge_growth(&self, other: &Figure) -> usize {
        match (self, other) {
            (Figure::Uniques(mine), Figure::Uniques(theirs)) => mine.merge_growth(theirs),
            (Figure::Top(mine), Figure::Top(theirs)) => mine.merge_growth(theirs),
            (Figure::Quantiles(mine), Figure::Quantiles(theirs)) => mine.merge_growth(theirs),
            (Figure::Members(mine), Figure::Members(theirs)) => mine.merge_growth(theirs),
            (Figure::Nothing, theirs) => theirs.copy_growth(),
            _ => 0,
        }
    }

    /// Returns the bytes that a copy requests.
    fn copy_growth(&self) -> usize {
        match self {
            Figure::Nothing => 0,
            Figure::Uniques(uniques) => request::<u8>(uniques.bytes()),
            Figure::Moments(_) => request::<Moments>(1),
            Figure::Top(top) => request::<Top>(1) + top.copy_growth(),
            Figure::Quantiles(quantiles) => request::<Quantiles>(1) + 2 * request::<u8>(0) + quantiles.bytes(),
            Figure::Members(members) => request::<Members>(1) + members.copy_growth(),
        }
    }

    /// Adds another figure, of a statistic that [merges](super::declaration::Header::merges_with) with this one's.
    pub fn merge(&mut self, other: &Figure) {
        match (self, other) {
            (_, Figure::Nothing) => {}
            (mine @ Figure::Nothing, theirs) => *mine = theirs.clone(),
            (Figure::Uniques(mine), Figure::Uniques(theirs)) => mine.merge(theirs),
            (Figure::Moments(mine), Figure::Moments(theirs)) => mine.merge(theirs),
            (Figure::Top(mine), Figure::Top(theirs)) => mine.merge(theirs),
            (Figure::Quantiles(mine), Figure::Quantiles(theirs)) => mine.merge(theirs),
            (Figure::Members(mine), Figure::Members(theirs)) => mine.merge(theirs),
            _ => unreachable!("figures of one statistic are of one kind"),
        }
    }

    /// Returns an upper bound of the encoded bytes.
    pub fn max_encoded_bytes(&self) -> usize {
        match self {
            Figure::Nothing => 0,
            Figure::Uniques(uniques) => uniques.max_encoded_bytes(),
            Figure::Moments(_) => Moments::MAX_ENCODED_BYTES,
            Figure::Top(top) => top.max_encoded_bytes(),
            Figure::Quantiles(quantiles) => quantiles.max_encoded_bytes(),
            Figure::Members(members) => members.max_encoded_bytes(),
        }
    }

    /// Appends the sketch, if there is one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Figure::Nothing => {}
            Figure::Uniques(uniques) => uniques.encode(out),
            Figure::Moments(moments) => moments.encode(out),
            Figure::Top(top) => top.encode(out),
            Figure::Quantiles(quantiles) => quantiles.encode(out),
            Figure::Members(members) => members.encode(out),
        }
    }

    /// Reads the sketch of a statistic of this kind, over values of this form. Errors: malformed bytes; no memory.
    pub fn decode(kind: StatKind, form: Form, input: &mut Input) -> Result<Self, Error> {
        Ok(match kind {
            StatKind::Uniques => Figure::Uniques(Uniques::decode(input)?),
            StatKind::Sum => {
                let moments = Moments::decode(input)?;
                if matches!(moments, Moments::Floats { .. }) != (form == Form::Floats) {
                    return Err(input.malformed("a sum is of another type than its statistic"));
                }
                Figure::Moments(boxed(moments)?)
            }
            StatKind::Top { .. } => Figure::Top(boxed(Top::decode(input)?)?),
            StatKind::Quantiles => Figure::Quantiles(boxed(Quantiles::decode(input)?)?),
            StatKind::Members { .. } => Figure::Members(boxed(Members::decode(input)?)?),
        })
    }

    /// Returns the bytes of the sketch outside of the figure.
    pub fn bytes(&self) -> usize {
        match self {
            Figure::Nothing => 0,
            Figure::Uniques(uniques) => uniques.bytes(),
            Figure::Moments(_) => size_of::<Moments>(),
            Figure::Top(top) => size_of::<Top>() + top.bytes(),
            Figure::Quantiles(quantiles) => size_of::<Quantiles>() + quantiles.bytes(),
            Figure::Members(members) => size_of::<Members>() + members.bytes(),
        }
    }
}

/// Adds a figure to those of an expression: to the one of the same statistic, if there is one. Errors: no memory.
pub(super) fn add(
    figures: &mut Vec<(Arc<Header>, Figure)>,
    header: &Arc<Header>,
    figure: &Figure,
) -> Result<(), Error> {
    match figures.iter_mut().find(|(known, _)| known.merges_with(header)) {
        Some((_, present)) => {
            ensure(present.merge_growth(figure))?;
            present.merge(figure);
        }
        None => {
            ensure(Figure::Nothing.merge_growth(figure) + growth(figures, 1))?;
            figures.push((header.clone(), figure.clone()));
        }
    }
    Ok(())
}

fn boxed<T>(sketch: T) -> Result<Box<T>, Error> {
    ensure(request::<T>(1))?;
    Ok(Box::new(sketch))
}
