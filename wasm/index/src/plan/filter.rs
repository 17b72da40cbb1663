//! A filter is a second demand of an expression, encoded in 12 bytes of an entry.
//!
//! A filter is a range of value digests or a mask of 64 bits, and neither is tested with a branch. A range stands for one
//! value, an interval, or any value but one. A mask stands for several values, or for a demand on a list. It has a bit of
//! each value in either half. An event passes if its value, or the values of its list, share a bit with each half. Every
//! event that meets the demand passes. An undefined attribute passes only a lax filter.
//!
//! A filter is sufficient if its expression has no other open demand: it proves the expression. It can also prove a demand
//! for any value but some. Two excepted values are tested exactly. For more, the mask has the excepted values, and an event
//! that shares bits with it runs the program. So does an event at either end of a range of floats, because a digest has only
//! the upper half of a float.
//!
//! If an entry needs one of several alternatives, and nearly every event meets a certain one, its filter proves the entry by
//! that one. The filter has the values that fail the alternative; events with such a value run the program.

use crate::catalog::statistics::Statistics;
use crate::cost;
use crate::event::digest::{self, Table, ValueDigest};
use crate::event::key::Scale;
use crate::model::schema::{Attribute, AttributeId, Schema, Type};
use crate::plan::access_predicate::{is_list, AccessPredicate, ValueSet};
use crate::support::number::greater;

/// The mark of a filter that is a mask. Also a part of [`NEITHER`].
pub(crate) const MASK: u32 = 1 << 31;
/// The mark of a sufficient filter: an event that passes makes the expression true, unless it [may
/// fail](Tested::may_fail).
pub(crate) const SUFFICIENT: u32 = 1 << 30;
/// The mark of a filter whose entry is directly before another one of the same subscription. An event must pass both.
pub(crate) const JOINED: u32 = 1 << 29;
/// The mark of a filter that an event with an undefined attribute passes too.
pub(crate) const LAX: u32 = 1 << 28;
/// The mark of a range at whose first and last digest an event may fail the demand. Also a part of [`NEITHER`].
pub(crate) const BLURRED: u32 = 1 << 27;
/// The mark of a range or mask of excepted values, to prove an entry. Every event that defines the attribute passes; one
/// that meets the range or mask may fail the demand.
pub(crate) const EXCEPT: u32 = 1 << 26;
/// The marks of a range of which only the two ends fail: any other value passes.
const NEITHER: u32 = MASK | BLURRED;
/// The number of bits of a digest's position. The note follows them.
const NOTE_SHIFT: u32 = 14;
/// The number of different notes.
pub(crate) const NOTE_COUNT: u32 = EXCEPT >> NOTE_SHIFT;
/// The greatest position of a digest. Attributes beyond have no filters.
const PROBE: u32 = (1 << NOTE_SHIFT) - 1;

/// Returns the position of an attribute's digest, which may be beyond [`PROBE`].
fn probe(attribute: AttributeId) -> u32 {
    digest::place(attribute) as u32
}

/// A demand on the digest of an attribute. The default is [`Filter::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Filter {
    /// The position of the digest, the note and the marks.
    digest: u32,
    /// The least digest, or the lower half of the mask.
    low: u32,
    /// The greatest digest minus the least, or the upper half of the mask.
    span: u32,
}

impl Filter {
    /// A filter that every event passes: the first digest is always 0.
    pub const NONE: Filter = Filter { digest: 0, low: 0, span: 0 };

    /// Returns whether every attribute can have a filter.
    pub fn has_room_for(schema: &Schema) -> bool {
        probe(schema.patterns()) <= PROBE
    }

    /// Returns the filter of `access_predicate`.
    pub fn of(access_predicate: &AccessPredicate, schema: &Schema) -> Self {
        let ty = schema.attribute(access_predicate.attribute).ty;
        let digest = probe(access_predicate.attribute);
        if digest > PROBE {
            return Filter::NONE;
        }
        match &access_predicate.values {
            ValueSet::Points(keys) if keys.len() > 1 || is_list(ty) => mask(digest, keys),
            ValueSet::Points(keys) => range(digest, ty, keys.first().copied().unwrap_or(0), keys.first().copied()),
            ValueSet::Interval(low, high) => range(digest, ty, *low, Some(*high)),
            ValueSet::Except(keys) if is_one_probe(keys, ty) => all_but(digest, keys[0]),
            // A defined list may be empty and then has no bit, so the filter is a range around the digest of lists.
            ValueSet::Defined | ValueSet::Except(_) => range(digest, ty, i64::MIN, Some(i64::MAX)),
        }
    }

    /// Returns a filter of `access_predicate` that proves an entry. It must be [exact](Filter::is_exact_for).
    pub fn proof(access_predicate: &AccessPredicate, schema: &Schema) -> Self {
        let ty = schema.attribute(access_predicate.attribute).ty;
        let filter = match &access_predicate.values {
            ValueSet::Except(keys) => match **keys {
                [_] if are_probes(keys, ty) => Filter::of(access_predicate, schema),
                [one, other] if are_probes(keys, ty) => neither(probe(access_predicate.attribute), [one, other]),
                _ => mask(probe(access_predicate.attribute), keys).marked(EXCEPT),
            },
            ValueSet::Interval(..) if is_blurred(ty) => Filter::of(access_predicate, schema).marked(BLURRED),
            _ => Filter::of(access_predicate, schema),
        };
        if access_predicate.is_lax {
            filter.marked(LAX)
        } else {
            filter
        }
    }

    /// Returns a filter that every event passes and that proves an entry, if `access_predicate` is one of several
    /// alternatives. An event that may fail this alternative runs the program. Returns `None` if the filter cannot decide
    /// this for some value, or for an undefined one.
    pub fn exception(access_predicate: &AccessPredicate, schema: &Schema) -> Option<Self> {
        let Attribute { ty, optional, .. } = *schema.attribute(access_predicate.attribute);
        let digest = probe(access_predicate.attribute);
        if digest > PROBE || !access_predicate.is_exact || optional && !access_predicate.is_lax {
            return None;
        }
        let excepted = match &access_predicate.values {
            ValueSet::Except(keys) if is_one_probe(keys, ty) => range(digest, ty, keys[0], Some(keys[0])),
            ValueSet::Except(keys) => mask(digest, keys),
            // The excepted values are those on the other side.
            ValueSet::Interval(i64::MIN, high) => range(digest, ty, high.saturating_add(1), Some(i64::MAX)),
            ValueSet::Interval(low, i64::MAX) => range(digest, ty, i64::MIN, Some(low.saturating_sub(1))),
            ValueSet::Interval(..) | ValueSet::Points(_) | ValueSet::Defined => return None,
        };
        Some(excepted.marked(EXCEPT | LAX))
    }

    fn marked(self, mark: u32) -> Self {
        Filter { digest: self.digest | mark, ..self }
    }

    /// Returns whether every event that passes a filter of `access_predicate` meets it, unless the test says that it [may
    /// fail](Tested::may_fail).
    pub fn is_exact_for(access_predicate: &AccessPredicate, schema: &Schema) -> bool {
        let ty = schema.attribute(access_predicate.attribute).ty;
        // At a blurred end, the test reports that values with the end's digest may fail.
        let fits = |key: i64| is_blurred(ty) || Scale::of(ty).is_exact_at(key);
        match &access_predicate.values {
            _ if probe(access_predicate.attribute) > PROBE => false,
            ValueSet::Defined | ValueSet::Except(_) => true,
            _ if is_list(ty) => false,
            ValueSet::Points(keys) => is_one_probe(keys, ty),
            ValueSet::Interval(low, high) => {
                low <= high && (*low == i64::MIN || fits(*low)) && (*high == i64::MAX || fits(*high))
            }
        }
    }

    /// Returns the filter with the mark that it is sufficient.
    pub fn as_sufficient(self) -> Self {
        self.marked(SUFFICIENT)
    }

    /// Returns the filter with the mark that its entry is directly before another one.
    pub fn joined(self) -> Self {
        self.marked(JOINED)
    }

    /// Returns whether the entry is directly before another one of the same subscription.
    #[inline]
    pub fn is_joined(self) -> bool {
        self.digest & JOINED != 0
    }

    /// Returns the filter with a note, which tests ignore.
    pub fn noting(self, note: u32) -> Self {
        self.marked(note << NOTE_SHIFT)
    }

    /// Returns the note.
    pub fn noted(self) -> u32 {
        self.digest >> NOTE_SHIFT & (NOTE_COUNT - 1)
    }

    /// Returns the attribute that an event must define to pass, if there is one.
    pub fn attribute(self) -> Option<AttributeId> {
        digest::attribute((self.digest & PROBE) as usize).filter(|_| self.digest & LAX == 0)
    }

    /// Returns whether the filter is sufficient.
    #[inline]
    pub fn is_sufficient(self) -> bool {
        self.digest & SUFFICIENT != 0
    }

    /// Returns the words of the filter in the order of memory.
    #[inline(always)]
    pub(crate) fn words(self) -> [u32; 3] {
        [self.digest, self.low, self.span]
    }

    /// Returns the digest that this filter tests.
    #[inline(always)]
    pub(crate) fn digest(self, digests: &(impl Table + ?Sized)) -> &ValueDigest {
        digests.at((self.digest & PROBE) as usize)
    }

    /// Tests the filter against the digests of an event.
    #[inline]
    pub fn test(self, digests: &(impl Table + ?Sized)) -> Tested {
        let digest = self.digest(digests);
        let above = (digest.value() as u32).wrapping_sub(self.low);
        let in_range = above <= self.span;
        let at_end = (above == 0) | (above == self.span);
        let [mask_low, mask_high] = digest.mask();
        let in_mask = (mask_low & self.low != 0) & (mask_high & self.span != 0);
        // Bits instead of branches, as the kind of the next filter is unpredictable.
        let is_mask = self.digest & MASK != 0;
        let is_except = self.digest & EXCEPT != 0;
        let meets = (in_mask & is_mask) | (in_range & !is_mask);
        let (is_defined, is_lax) = (digest.is_defined(), self.digest & LAX != 0);
        let is_blurred = self.digest & BLURRED != 0;
        let is_neither = self.digest & NEITHER == NEITHER;
        Tested {
            passes: (((meets | is_except) & is_defined) | (is_lax & !is_defined)) & !(is_neither & at_end),
            may_fail: ((meets & is_except) | (at_end & is_blurred)) & !is_neither,
        }
    }
}

/// The result of testing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tested {
    /// The event may meet the demand.
    pub passes: bool,
    /// The event passes but may fail the demand: its value shares bits with an excepted one, or has the digest of an end. A
    /// [proof](Filter::proof) proves nothing for it, so the program must run.
    pub may_fail: bool,
}

/// Returns the expected share of events that pass a filter of `access_predicate`.
pub(crate) fn passing(access_predicate: &AccessPredicate, schema: &Schema, statistics: &Statistics) -> f32 {
    match &access_predicate.values {
        ValueSet::Points(keys) if keys.len() > 1 || is_list(schema.attribute(access_predicate.attribute).ty) => {
            meeting(access_predicate.attribute, keys, statistics)
        }
        _ => access_predicate.selectivity(statistics),
    }
}

/// Returns the expected share of events for which a filter proves that they meet `access_predicate`.
pub(crate) fn proven(access_predicate: &AccessPredicate, statistics: &Statistics) -> f32 {
    let defined = statistics.defined(access_predicate.attribute);
    let undefined = if access_predicate.is_lax { 1.0 - defined } else { 0.0 };
    undefined
        + match &access_predicate.values {
            ValueSet::Except(keys) => defined - meeting(access_predicate.attribute, keys, statistics),
            _ => access_predicate.selectivity(statistics),
        }
}

/// Returns the expected share of events that pass the mask of `keys`: they have a key or share a bit with each half.
fn meeting(attribute: AttributeId, keys: &[i64], statistics: &Statistics) -> f32 {
    let bits = bits(keys);
    let [low, high] = [bits as u32, (bits >> 32) as u32].map(|half| half.count_ones() as f32 / 32.0);
    greater(statistics.points(attribute, keys.len()), low * high * statistics.defined(attribute))
}

/// Returns whether a filter is worth a further entry. `proven` is the share of the arriving events for which it proves the
/// expression.
pub(crate) fn is_worth_joining(proven: f32) -> bool {
    proven > cost::MIN_JOINED
}

fn mask(digest: u32, keys: &[i64]) -> Filter {
    let bits = bits(keys);
    Filter { digest: digest | MASK, low: bits as u32, span: (bits >> 32) as u32 }
}

fn range(digest: u32, ty: Type, low: i64, high: Option<i64>) -> Filter {
    let scale = Scale::of(ty);
    let low = scale.digest(low);
    // An interval without values (the least above the greatest) would wrap to a wide range. One digest replaces it.
    let high = high.map_or(low, |high| scale.digest(high)).max(low);
    Filter { digest, low: low as u32, span: high.wrapping_sub(low) as u32 }
}

/// Returns whether different values of type `ty` may have the same digest.
fn is_blurred(ty: Type) -> bool {
    Scale::of(ty) != Scale::Clamp
}

/// Returns whether `keys` is a single key that its digest identifies.
fn is_one_probe(keys: &[i64], ty: Type) -> bool {
    keys.len() == 1 && are_probes(keys, ty)
}

/// Returns whether a digest identifies each of `keys` among the values of type `ty`.
fn are_probes(keys: &[i64], ty: Type) -> bool {
    !is_list(ty) && keys.iter().all(|&key| Scale::of(ty).is_exact_at(key))
}

/// Returns a range that wraps from above `key` to below it. It contains the digest of undefined, which only the mark of a lax
/// filter lets pass.
fn all_but(digest: u32, key: i64) -> Filter {
    Filter { digest, low: (key as u32).wrapping_add(1), span: u32::MAX - 1 }
}

/// Returns a range whose two ends do not pass, while all other values do.
fn neither(digest: u32, keys: [i64; 2]) -> Filter {
    let [low, last] = keys.map(|key| key as u32);
    Filter { digest: digest | NEITHER | EXCEPT, low, span: last.wrapping_sub(low) }
}

/// Returns the bits of all keys, or every bit for a long list.
fn bits(keys: &[i64]) -> u64 {
    if keys.len() > cost::MAX_COMPARED_KEYS {
        return u64::MAX;
    }
    keys.iter().fold(0, |mask, &key| mask | digest::bits(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::digest::UNDEFINED;
    use crate::model::schema::Bounds;

    fn digest(values: &[i64]) -> [ValueDigest; 2] {
        let mask = bits(values);
        let value = if values.is_empty() { UNDEFINED } else { Scale::Clamp.digest(values[0]) };
        [ValueDigest::new(0, 0), ValueDigest::new(mask, value)]
    }

    #[test]
    fn what_meets_a_demand_passes() {
        let one = range(1, Type::Integer, 7, Some(7));
        let some = mask(1, &[3, 7, 900]);
        for value in -1000..1000 {
            let passes = |filter: Filter| filter.test(&digest(&[value])[..]);
            assert_eq!(passes(one), Tested { passes: value == 7, may_fail: false });
            assert_eq!(passes(one.as_sufficient()), passes(one));
            assert!(passes(some).passes || ![3, 7, 900].contains(&value));
            assert!(!passes(some).may_fail);
        }
        assert!(Filter::NONE.test(&digest(&[])[..]).passes);
        assert!(![one, one.as_sufficient(), some].iter().any(|filter| filter.test(&digest(&[])[..]).passes));
    }

    #[test]
    fn an_event_that_passes_an_exception_of_two_values_meets_it() {
        for keys in [[3, 7], [-900, 900], [i64::from(i32::MIN) + 2, i64::from(i32::MAX) - 1]] {
            let filter = neither(1, keys).as_sufficient();
            for value in (-1000..1000).chain(keys) {
                let expected = Tested { passes: !keys.contains(&value), may_fail: false };
                assert_eq!(filter.test(&digest(&[value])[..]), expected);
                assert_eq!(filter.marked(LAX).test(&digest(&[value])[..]), expected);
            }
            assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: false, may_fail: false });
            assert_eq!(filter.marked(LAX).test(&digest(&[])[..]), Tested { passes: true, may_fail: false });
        }
    }

    #[test]
    fn every_event_passes_one_of_several_demands_and_those_that_fail_it_may_fail() {
        let x = Attribute { name: "x".into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
        let schema = Schema::new(vec![x]).unwrap();
        let access_predicate = |values: &ValueSet| AccessPredicate {
            attribute: AttributeId::from_index(0),
            values: values.clone(),
            is_exact: true,
            is_lax: true,
        };
        // The number of 2,000 values that fail the demand. With three excepted values, others share bits with the mask.
        for (values, unmet) in [
            (ValueSet::Except([7].into_iter().collect()), 1..=1),
            (ValueSet::Except([3, 7, 900].into_iter().collect()), 3..=30),
            (ValueSet::Interval(i64::MIN, 6), 993..=993),
            (ValueSet::Interval(7, i64::MAX), 1007..=1007),
        ] {
            let is_met = |value: i64| match &values {
                ValueSet::Except(keys) => !keys.contains(&value),
                _ => access_predicate(&values).admits(value),
            };
            let filter = Filter::exception(&access_predicate(&values), &schema).unwrap().as_sufficient();
            let test = |value: i64| filter.test(&digest(&[value])[..]);
            assert!((-1000..1000).all(|value| test(value).passes && (is_met(value) || test(value).may_fail)));
            assert!(unmet.contains(&(-1000..1000).filter(|value| test(*value).may_fail).count()), "{values:?}");
            assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: true, may_fail: false });
            assert_eq!(
                Filter::exception(&AccessPredicate { is_lax: false, ..access_predicate(&values) }, &schema),
                None
            );
        }
    }

    #[test]
    fn an_exception_proves_nothing_for_its_values() {
        let filter = mask(1, &[3, 7]).marked(EXCEPT).noting(NOTE_COUNT - 1).as_sufficient();
        assert!(filter.is_sufficient());
        let mut failing = 0;
        for value in -1000..1000 {
            for values in [&[value][..], &[value, 20], &[20, value]] {
                let tested = filter.test(&digest(values)[..]);
                assert!(tested.passes);
                assert!(tested.may_fail || ![3, 7].contains(&value));
                failing += usize::from(tested.may_fail);
            }
        }
        assert!(failing < 6000 / 16);
        assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: false, may_fail: false });
    }
}
