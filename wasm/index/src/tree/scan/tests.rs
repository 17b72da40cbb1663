use super::*;
use crate::event::digest::{bits, ValueDigest, UNDEFINED};
use crate::model::schema::{Attribute, AttributeId, Bounds, Schema, Type};
use crate::oracle::random::Random;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::filter::Filter;
use crate::support::simd::{Fastest, Portable};

const ATTRIBUTES: usize = 3;
/// The values of events and expressions are below this.
const VALUES: usize = 12;

fn schema() -> Schema {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
    Schema::new(["a", "b", "c"].map(attribute).to_vec()).unwrap()
}

fn values(random: &mut Random) -> ValueSet {
    let value = |random: &mut Random| random.below(VALUES) as i64;
    let [one, other] = [(); 2].map(|()| value(random));
    let mut few = random.several(4, value);
    few.push(one);
    few.sort_unstable();
    few.dedup();
    match random.below(6) {
        0 => ValueSet::Points([one].into_iter().collect()),
        1 => ValueSet::Points(few.into_iter().collect()),
        2 => ValueSet::Interval(one.min(other), one.max(other)),
        3 => ValueSet::Interval(i64::MIN, one),
        4 => ValueSet::Except([one].into_iter().collect()),
        _ => ValueSet::Except(few.into_iter().collect()),
    }
}

fn filter(random: &mut Random, schema: &Schema) -> Filter {
    let is_lax = random.chance(33);
    let attribute = AttributeId::from_index(random.below(ATTRIBUTES));
    let access_predicate = AccessPredicate { attribute, values: values(random), is_exact: true, is_lax };
    let filter = match random.below(5) {
        0 => return Filter::NONE,
        1 => Filter::of(&access_predicate, schema),
        2 => Filter::exception(&access_predicate, schema).unwrap_or(Filter::NONE),
        _ => Filter::proof(&access_predicate, schema),
    };
    match random.chance(50) {
        true => filter.as_sufficient(),
        false => filter,
    }
}

/// Returns entries of which some are joined to the next one, but not the last.
fn entries(random: &mut Random, schema: &Schema, len: usize) -> Vec<Entry> {
    let entry = |place: usize| {
        let filter = filter(random, schema);
        let is_joined = place + 1 < len && random.chance(25);
        let subject = match filter.is_sufficient() {
            true => Subject::slot(Slot::from_index(place + 1)),
            false => Subject::program(ProgramId::from_word(place as u32 + 1)),
        };
        Entry { subject, filter: if is_joined { filter.joined() } else { filter } }
    };
    (0..len).map(entry).collect()
}

fn digests(random: &mut Random) -> Vec<ValueDigest> {
    let digest = |_| match random.below(VALUES + 1) {
        VALUES => ValueDigest::new(0, UNDEFINED),
        value => ValueDigest::new(bits(value as i64), value as i32),
    };
    std::iter::once(ValueDigest::new(0, 0)).chain((0..ATTRIBUTES).map(digest)).collect()
}

/// Returns the lists of a scan that begins after two listed slots and one listed program.
fn listed(scan: impl Fn(&mut List<Proven>, &mut List<ProgramId>, Passed) -> Passed) -> (Vec<Proven>, Vec<ProgramId>) {
    let (mut slots, mut programs) = ([Proven::default(); LENGTH], [ProgramId::default(); LENGTH]);
    let passed = scan(&mut slots, &mut programs, Passed { proven: 2, to_run: 1 });
    (slots[..passed.proven].to_vec(), programs[..passed.to_run].to_vec())
}

#[test]
fn vectors_list_the_same_entries_as_a_loop_over_them() {
    let (mut random, schema) = (Random::new(1), schema());
    let (mut proven, mut may_fail, mut to_run) = (0, 0, 0);
    for len in (0..40).cycle().take(4000) {
        let entries = entries(&mut random, &schema, len);
        let digests = &digests(&mut random)[..];
        let expected = listed(|slots, programs, passed| one_by_one(&entries, digests, slots, programs, passed));
        let of_vectors = [
            listed(|slots, programs, passed| scan::<Portable>(&entries, digests, slots, programs, passed)),
            listed(|slots, programs, passed| scan::<Fastest>(&entries, digests, slots, programs, passed)),
        ];
        assert_eq!(of_vectors, [expected.clone(), expected.clone()], "{entries:?} {digests:?}");
        proven += expected.0.len() - 2;
        may_fail += expected.0.iter().filter(|slot| slot.may_fail()).count();
        to_run += expected.1.len() - 1;
    }
    assert!(proven.min(to_run) > 1000 && may_fail > 100, "{proven} proven, {may_fail} may fail, {to_run} to run");
}
