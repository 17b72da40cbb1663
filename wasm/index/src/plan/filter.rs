//! Filters: one more demand of an expression, in the 12 bytes that an entry has for it.
//!
//! A filter is a range of digests, for demands that are one value, an interval or any value but one, or a mask of 64 bits, for
//! demands that are several values or that lists are to meet: each value has a bit in either half, and an event's value, or
//! the values of its list, must share one with each half of the mask. Both let pass whatever meets the demand, and are
//! tested without a branch. Nothing passes whose attribute is undefined, but where the filter is marked as lax.
//!
//! Where nothing but the filter is left to be met, it proves its entry. It does so even if what is demanded is any value but
//! some: of two, both are told; of more, its mask is of these, and an event that shares bits with it leaves the entry in doubt.
//! So does one whose value has the digest of an end of a range of floats, of which a digest has the upper half.
//!
//! Where one of several demands is left to be met, and nearly every event meets a certain one of them, its filter proves the
//! entry: it is of what does not meet that one, which leaves the entry in doubt.

use crate::catalog::statistics::Statistics;
use crate::catalog::Catalog;
use crate::event::digest::{self, Table, ValueDigest, UNDEFINED};
use crate::event::key::Scale;
use crate::model::schema::{Attribute, AttributeId, Schema, Type};
use crate::plan::access_predicate::{is_list, AccessPredicate, ValueSet};
use crate::plan::demands::{Demanded, Demands};
use crate::support::number::{greater, lesser};

/// Marks a filter that is a mask, or [`NEITHER`].
pub(crate) const MASK: u32 = 1 << 31;
/// Marks a filter behind which nothing is left to be tested: what passes it, and is not in doubt, is true.
pub(crate) const SUFFICIENT: u32 = 1 << 30;
/// Marks a filter whose entry is in front of another one of the same subscription: what passes has to pass both.
pub(crate) const JOINED: u32 = 1 << 29;
/// Marks a filter that is passed as well where the attribute is undefined.
pub(crate) const LAX: u32 = 1 << 28;
/// Marks a range whose first and last digest do not tell, or [`NEITHER`].
pub(crate) const BLURRED: u32 = 1 << 27;
/// Marks a range or a mask of what is excepted, to prove an entry: an event passes whether it meets that or not, and leaves
/// the entry in doubt if it does.
pub(crate) const EXCEPT: u32 = 1 << 26;
/// Both mark a range of which only the ends count: any value passes but these two.
const NEITHER: u32 = MASK | BLURRED;
/// Where the position of a digest ends and a note begins.
const NOTE_SHIFT: u32 = 14;
/// Notes are below.
pub(crate) const NOTES: u32 = EXCEPT >> NOTE_SHIFT;
/// The positions of digests. Attributes beyond are not filtered by.
const PROBE: u32 = (1 << NOTE_SHIFT) - 1;

/// The share of events that pass a demand which holds nearly none back.
const PARTLY: f32 = 0.99;
/// The share of events for which another filter proves an entry from which on it may be joined: where it is less, few programs
/// are run, and every event that comes upon the entry would have to pass the other one as well.
const MANY: f32 = 0.125;

/// A demand on the digest of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Filter {
    /// The position of the digest, the note and the marks.
    digest: u32,
    /// The least digest, or the lower half of the mask.
    low: u32,
    /// The greatest digest less the least, or the upper half of the mask.
    span: u32,
}

impl Filter {
    /// The filter that every event passes: the first digest is always 0.
    pub const NONE: Filter = Filter { digest: 0, low: 0, span: 0 };

    /// Whether there is a filter for any attribute.
    pub fn has_room_for(schema: &Schema) -> bool {
        schema.len() <= PROBE as usize
    }

    /// A filter of what `access_predicate` demands.
    pub fn of(access_predicate: &AccessPredicate, schema: &Schema) -> Self {
        let ty = schema.attribute(access_predicate.attribute).ty;
        let digest = access_predicate.attribute + 1;
        if digest > PROBE {
            return Filter::NONE;
        }
        match &access_predicate.values {
            ValueSet::Points(keys) if keys.len() > 1 || is_list(ty) => mask(digest, keys),
            ValueSet::Points(keys) => range(digest, ty, keys.first().copied().unwrap_or(0), keys.first().copied()),
            ValueSet::Interval(low, high) => range(digest, ty, *low, Some(*high)),
            ValueSet::Except(keys) if is_one_probe(keys, ty) => all_but(digest, keys[0]),
            // A list that is defined may be empty, and then has no bit; its range is of the digest that lists have.
            ValueSet::Defined | ValueSet::Except(_) => range(digest, ty, i64::MIN, Some(i64::MAX)),
        }
    }

    /// A filter of what `access_predicate` demands, for which it [is exact](Filter::is_exact_for), to prove an entry.
    pub fn proof(access_predicate: &AccessPredicate, schema: &Schema) -> Self {
        let ty = schema.attribute(access_predicate.attribute).ty;
        let filter = match &access_predicate.values {
            ValueSet::Except(keys) => match **keys {
                [_] if are_probes(keys, ty) => Filter::of(access_predicate, schema),
                [one, other] if are_probes(keys, ty) => neither(access_predicate.attribute + 1, [one, other]),
                _ => mask(access_predicate.attribute + 1, keys).marked(EXCEPT),
            },
            ValueSet::Interval(..) if is_blurred(ty) => Filter::of(access_predicate, schema).marked(BLURRED),
            _ => Filter::of(access_predicate, schema),
        };
        if access_predicate.is_lax {
            filter.lax()
        } else {
            filter
        }
    }

    /// A filter that every event passes and that proves an entry, where `access_predicate` is one of several demands of which one has to be
    /// met: whoever may not meet this one leaves the entry in doubt. None where that is not to be told of each value, or of
    /// what is undefined.
    pub fn exception(access_predicate: &AccessPredicate, schema: &Schema) -> Option<Self> {
        let Attribute { ty, optional, .. } = *schema.attribute(access_predicate.attribute);
        let digest = access_predicate.attribute + 1;
        if digest > PROBE || !access_predicate.is_exact || optional && !access_predicate.is_lax {
            return None;
        }
        let excepted = match &access_predicate.values {
            ValueSet::Except(keys) if is_one_probe(keys, ty) => range(digest, ty, keys[0], Some(keys[0])),
            ValueSet::Except(keys) => mask(digest, keys),
            // What is on the other side.
            ValueSet::Interval(i64::MIN, high) => range(digest, ty, high.saturating_add(1), Some(i64::MAX)),
            ValueSet::Interval(low, i64::MAX) => range(digest, ty, i64::MIN, Some(low.saturating_sub(1))),
            ValueSet::Interval(..) | ValueSet::Points(_) | ValueSet::Defined => return None,
        };
        Some(excepted.marked(EXCEPT | LAX))
    }

    fn marked(self, mark: u32) -> Self {
        Filter { digest: self.digest | mark, ..self }
    }

    /// The same filter, but that it is passed where the attribute is undefined. A range that ends with the least value, or
    /// with the greatest, is longer by one: the digest of what is undefined lies beyond both. Of floats it is longer by two, as
    /// its ends are in doubt; no float has the next one.
    fn lax(self) -> Self {
        let Filter { digest, low, span } = self.marked(LAX);
        let last = low.wrapping_add(span);
        let more = if digest & BLURRED == 0 { 1 } else { 2 };
        match digest & MASK {
            0 if low == UNDEFINED as u32 + 1 => Filter { digest, low: low.wrapping_sub(more), span: span + more },
            0 if last == i32::MAX as u32 => Filter { digest, low, span: span + more },
            _ => Filter { digest, low, span },
        }
    }

    /// Whether what passes a filter of `access_predicate` meets the demand, or leaves the entry in doubt.
    pub fn is_exact_for(access_predicate: &AccessPredicate, schema: &Schema) -> bool {
        let ty = schema.attribute(access_predicate.attribute).ty;
        let fits = |key: i64| is_blurred(ty) || Scale::of(ty).is_exact_at(key);
        match &access_predicate.values {
            _ if access_predicate.attribute >= PROBE => false,
            ValueSet::Defined | ValueSet::Except(_) => true,
            _ if is_list(ty) => false,
            ValueSet::Points(keys) => is_one_probe(keys, ty),
            ValueSet::Interval(low, high) => {
                low <= high && (*low == i64::MIN || fits(*low)) && (*high == i64::MAX || fits(*high))
            }
        }
    }

    /// The same filter, marked as one behind which nothing is left to be tested.
    pub fn as_sufficient(self) -> Self {
        self.marked(SUFFICIENT)
    }

    /// The same filter, marked as that of an entry in front of another one.
    pub fn joined(self) -> Self {
        self.marked(JOINED)
    }

    /// Whether it is marked so.
    #[inline]
    pub fn is_joined(self) -> bool {
        self.digest & JOINED != 0
    }

    /// The same filter with a note, which it makes no use of.
    pub fn noting(self, note: u32) -> Self {
        self.marked(note << NOTE_SHIFT)
    }

    /// What is noted.
    pub fn noted(self) -> u32 {
        self.digest >> NOTE_SHIFT & (NOTES - 1)
    }

    /// The attribute that an event has to define to pass it; none where it need not define any.
    pub fn attribute(self) -> Option<AttributeId> {
        (self.digest & PROBE).checked_sub(1).filter(|_| self.digest & LAX == 0)
    }

    /// Whether it is marked so.
    #[inline]
    pub fn is_sufficient(self) -> bool {
        self.digest & SUFFICIENT != 0
    }

    /// Its words, in the order in which they lie in memory.
    #[cfg(target_arch = "wasm32")]
    #[inline(always)]
    pub(crate) fn words(self) -> [u32; 3] {
        [self.digest, self.low, self.span]
    }

    /// The one of `digests` that it is about.
    #[inline(always)]
    pub(crate) fn digest(self, digests: &(impl Table + ?Sized)) -> &ValueDigest {
        digests.at((self.digest & PROBE) as usize)
    }

    /// What the event with these digests makes of an entry with this filter.
    #[inline]
    pub fn test(self, digests: &(impl Table + ?Sized)) -> Tested {
        let digest = self.digest(digests);
        let above = (digest.value() as u32).wrapping_sub(self.low);
        let in_range = above <= self.span;
        let at_end = (above == 0) | (above == self.span);
        let [mask_low, mask_high] = digest.mask();
        let in_mask = (mask_low & self.low != 0) & (mask_high & self.span != 0);
        // Bits, not choices: which kind a filter is of is not to be guessed.
        let is_mask = self.digest & MASK != 0;
        let is_except = self.digest & EXCEPT != 0;
        let meets = (in_mask & is_mask) | (in_range & !is_mask);
        let may_pass = digest.is_defined() | (self.digest & LAX != 0);
        let is_blurred = self.digest & BLURRED != 0;
        let is_neither = self.digest & NEITHER == NEITHER;
        Tested {
            passes: (meets | is_except) & may_pass & !(is_neither & at_end),
            is_in_doubt: ((meets & is_except) | (at_end & is_blurred)) & !is_neither,
        }
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tested {
    /// Whether the event may meet the demand.
    pub passes: bool,
    /// Whether it is not known to, though the filter [proves](Filter::proves): a value has the bits of one that is excepted, or
    /// the digest of an end.
    pub is_in_doubt: bool,
}

/// What an event met of a demand on its way to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    Nothing,
    /// It came by the same attribute.
    Partly,
    Wholly,
}

/// What to filter an entry by, with the share of events that are expected to pass: of all that its context demands, and events
/// are not `led` here by, the demand whose filter the fewest are. None where nothing more is demanded.
pub(crate) fn choose<'a>(
    demands: &Demands<'a>,
    led: impl Fn(&AccessPredicate) -> Coverage,
    catalog: &Catalog,
) -> Option<Demanded<'a>> {
    let mut least = 1.0;
    let mut chosen = None;
    for &demanded in demands.iter() {
        let access_predicate = demanded.access_predicate;
        // No filter lets fewer events pass than meet the demand.
        let fewest = lesser(PARTLY, demanded.share);
        if fewest >= least {
            break;
        }
        let share = match (led(access_predicate), &access_predicate.values) {
            (Coverage::Wholly, _) => continue,
            (Coverage::Partly, _) => PARTLY,
            // What nearly every event passes may still be all that is left to be proven.
            (Coverage::Nothing, ValueSet::Except(_)) => fewest,
            (Coverage::Nothing, _) => share(access_predicate, &catalog.schema, &catalog.statistics),
        };
        if share < least {
            least = share;
            chosen = Some(Demanded { share, ..demanded });
        }
    }
    chosen
}

/// The share of events that a filter of `access_predicate` is expected to let pass.
fn share(access_predicate: &AccessPredicate, schema: &Schema, statistics: &Statistics) -> f32 {
    match &access_predicate.values {
        ValueSet::Points(keys) if keys.len() > 1 || is_list(schema.attribute(access_predicate.attribute).ty) => {
            meeting(access_predicate.attribute, keys, statistics)
        }
        _ => access_predicate.selectivity(statistics),
    }
}

/// The share of events of which a filter of `access_predicate` is expected to prove that they meet it.
pub(crate) fn proven(access_predicate: &AccessPredicate, statistics: &Statistics) -> f32 {
    let defined = statistics.defined(access_predicate.attribute);
    let undefined = if access_predicate.is_lax { 1.0 - defined } else { 0.0 };
    undefined
        + match &access_predicate.values {
            ValueSet::Except(keys) => defined - meeting(access_predicate.attribute, keys, statistics),
            _ => access_predicate.selectivity(statistics),
        }
}

/// The share of events that are expected to have one of `keys`, or to share a bit with each half of their mask.
fn meeting(attribute: AttributeId, keys: &[i64], statistics: &Statistics) -> f32 {
    let bits = bits(keys);
    let [low, high] = [bits as u32, (bits >> 32) as u32].map(|half| half.count_ones() as f32 / 32.0);
    greater(statistics.points(attribute, keys.len()), low * high * statistics.defined(attribute))
}

/// Whether a filter is worth a place in an entry, or an entry more, that proves it for this share of the events that come upon
/// it.
pub(crate) fn is_worth_joining(proven: f32) -> bool {
    proven > MANY
}

fn mask(digest: u32, keys: &[i64]) -> Filter {
    let bits = bits(keys);
    Filter { digest: digest | MASK, low: bits as u32, span: (bits >> 32) as u32 }
}

fn range(digest: u32, ty: Type, low: i64, high: Option<i64>) -> Filter {
    let scale = Scale::of(ty);
    let low = scale.digest(low);
    // What no value meets (the least above the greatest) would wrap to a wide range; one digest is as good as none.
    let high = high.map_or(low, |high| scale.digest(high)).max(low);
    Filter { digest, low: low as u32, span: high.wrapping_sub(low) as u32 }
}

/// Whether values of type `ty` that differ may have one digest.
fn is_blurred(ty: Type) -> bool {
    Scale::of(ty) != Scale::Clamp
}

/// Whether `keys` are one that is told by its digest.
fn is_one_probe(keys: &[i64], ty: Type) -> bool {
    keys.len() == 1 && are_probes(keys, ty)
}

/// Whether values of type `ty` have each of `keys` if, and only if, they have its digest.
fn are_probes(keys: &[i64], ty: Type) -> bool {
    !is_list(ty) && keys.iter().all(|&key| Scale::of(ty).is_exact_at(key))
}

/// A range from above `key` round to below it: it has the digest of what is undefined as well, which passes no filter.
fn all_but(digest: u32, key: i64) -> Filter {
    Filter { digest, low: (key as u32).wrapping_add(1), span: u32::MAX - 1 }
}

/// A range of which the ends do not pass, and all else does.
fn neither(digest: u32, keys: [i64; 2]) -> Filter {
    let [low, last] = keys.map(|key| key as u32);
    Filter { digest: digest | NEITHER | EXCEPT, low, span: last.wrapping_sub(low) }
}

fn bits(keys: &[i64]) -> u64 {
    keys.iter().fold(0, |mask, &key| mask | digest::bits(key))
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(passes(one), Tested { passes: value == 7, is_in_doubt: false });
            assert_eq!(passes(one.as_sufficient()), passes(one));
            assert!(passes(some).passes || ![3, 7, 900].contains(&value));
            assert!(!passes(some).is_in_doubt);
        }
        assert!(Filter::NONE.test(&digest(&[])[..]).passes);
        assert!(![one, one.as_sufficient(), some].iter().any(|filter| filter.test(&digest(&[])[..]).passes));
    }

    #[test]
    fn an_exception_of_two_values_is_never_in_doubt() {
        for keys in [[3, 7], [-900, 900], [i64::from(i32::MIN) + 2, i64::from(i32::MAX) - 1]] {
            let filter = neither(1, keys).as_sufficient();
            for value in (-1000..1000).chain(keys) {
                let expected = Tested { passes: !keys.contains(&value), is_in_doubt: false };
                assert_eq!(filter.test(&digest(&[value])[..]), expected);
                assert_eq!(filter.lax().test(&digest(&[value])[..]), expected);
            }
            assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: false, is_in_doubt: false });
            assert_eq!(filter.lax().test(&digest(&[])[..]), Tested { passes: true, is_in_doubt: false });
        }
    }

    #[test]
    fn one_of_several_demands_is_passed_by_all_and_in_doubt_where_it_may_not_be_met() {
        let x = Attribute { name: "x".into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
        let schema = Schema::new(vec![x]).unwrap();
        let access_predicate =
            |values: &ValueSet| AccessPredicate { attribute: 0, values: values.clone(), is_exact: true, is_lax: true };
        // How many of 2,000 values do not meet it; some more share bits with three.
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
            assert!((-1000..1000).all(|value| test(value).passes && (is_met(value) || test(value).is_in_doubt)));
            assert!(unmet.contains(&(-1000..1000).filter(|value| test(*value).is_in_doubt).count()), "{values:?}");
            assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: true, is_in_doubt: false });
            assert_eq!(
                Filter::exception(&AccessPredicate { is_lax: false, ..access_predicate(&values) }, &schema),
                None
            );
        }
    }

    #[test]
    fn an_exception_proves_whatever_it_does_not_doubt() {
        let filter = mask(1, &[3, 7]).marked(EXCEPT).noting(NOTES - 1).as_sufficient();
        assert!(filter.is_sufficient());
        let mut doubted = 0;
        for value in -1000..1000 {
            for values in [&[value][..], &[value, 20], &[20, value]] {
                let tested = filter.test(&digest(values)[..]);
                assert!(tested.passes);
                assert!(tested.is_in_doubt || ![3, 7].contains(&value));
                doubted += usize::from(tested.is_in_doubt);
            }
        }
        assert!(doubted < 6000 / 16);
        assert_eq!(filter.test(&digest(&[])[..]), Tested { passes: false, is_in_doubt: false });
    }
}
