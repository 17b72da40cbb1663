use proptest::prelude::*;

use super::*;

/// The attributes of the schema, in the order of its types and bounds.
const ATTRIBUTES: usize = 9;
const BOUNDED: AttributeId = AttributeId::from_index(2);
const FLOAT: AttributeId = AttributeId::from_index(3);
/// An attribute without bounds.
const UNBOUNDED: AttributeId = AttributeId::from_index(1);

fn schema(optional: bool) -> Schema {
    let attributes = [
        (Type::Boolean, Bounds::Unbounded),
        (Type::Integer, Bounds::Unbounded),
        (Type::Integer, Bounds::Integer { min: -10, max: 989 }),
        (Type::Float, Bounds::Float { min: -1.5, max: 1e9 }),
        (Type::String, Bounds::Count(1)),
        (Type::String, Bounds::Count(u32::MAX)),
        (Type::IntegerList, Bounds::Unbounded),
        (Type::StringList, Bounds::Count(40)),
        (Type::Integer, Bounds::Integer { min: i64::MIN, max: i64::MAX }),
    ];
    let attribute = |(number, (ty, bounds))| Attribute { name: format!("a{number}"), ty, optional, bounds };
    Schema::new((0..).zip(attributes).map(attribute).collect()).unwrap()
}

fn attributes() -> impl Iterator<Item = AttributeId> {
    (0..ATTRIBUTES).map(AttributeId::from_index)
}

fn attribute() -> impl Strategy<Value = AttributeId> {
    (0..ATTRIBUTES).prop_map(AttributeId::from_index)
}

/// An observation of an expression: the attributes that it asks for, or an interval of one.
#[derive(Clone, Debug)]
enum Seen {
    Asked(Vec<AttributeId>),
    Interval(AttributeId, i64, i64),
}

fn key() -> impl Strategy<Value = i64> {
    prop_oneof![6 => -20_i64..2000, 2 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn seen() -> impl Strategy<Value = Vec<Seen>> {
    let asked = prop::collection::vec(attribute(), 0..4).prop_map(Seen::Asked);
    let interval = (attribute(), key(), key());
    let interval = interval.prop_map(|(attribute, low, high)| Seen::Interval(attribute, low.min(high), low.max(high)));
    prop::collection::vec(prop_oneof![asked, interval], 0..60)
}

fn tell(statistics: &mut Statistics, seen: &[Seen]) {
    for seen in seen {
        match seen {
            Seen::Asked(attributes) => statistics.ask(attributes.iter().copied()),
            Seen::Interval(attribute, low, high) => statistics.observe(*attribute, *low, *high),
        }
    }
}

fn after(optional: bool, seen: &[Seen]) -> Statistics {
    let mut statistics = Statistics::new(&schema(optional));
    tell(&mut statistics, seen);
    statistics
}

/// Returns all estimates for some values of each attribute.
fn estimates(statistics: &Statistics) -> Vec<f32> {
    let keys = [i64::MIN, -15, -10, 0, 7, 500, 989, 3000, i64::MAX];
    let of = |attribute| {
        let points = (0..20).map(move |count| statistics.points(attribute, count));
        let pairs = keys.into_iter().flat_map(move |low| keys.into_iter().map(move |high| (low, high)));
        let intervals = pairs.map(move |(low, high)| statistics.interval(attribute, low, high));
        points.chain(intervals).chain([statistics.defined(attribute)])
    };
    attributes().flat_map(of).collect()
}

proptest! {
    #[test]
    fn an_estimate_is_a_share_of_the_events_that_define_the_attribute(optional: bool, seen in seen()) {
        let statistics = after(optional, &seen);
        prop_assert!(estimates(&statistics).iter().all(|share| (0.0..=1.0).contains(share)));
        for attribute in attributes() {
            let defined = statistics.defined(attribute);
            let is_possible = if optional { defined > 0.0 && defined < 1.0 } else { defined == 1.0 };
            prop_assert!(is_possible);
            prop_assert!(statistics.points(attribute, 1000) <= defined);
            prop_assert!(statistics.interval(attribute, i64::MIN, i64::MAX) <= defined);
        }
    }

    #[test]
    fn more_values_are_met_by_no_fewer_events(seen in seen(), attribute in attribute(), count in 0_usize..200) {
        let statistics = after(true, &seen);
        let share = |count| statistics.points(attribute, count);
        prop_assert_eq!(share(0), 0.0);
        prop_assert!(share(count) <= share(count + 1));
        // Below saturation, each value adds the same share.
        if share(count) < statistics.defined(attribute) {
            prop_assert!((share(count) - count as f32 * share(1)).abs() < 1e-4);
        }
    }

    #[test]
    fn a_wider_interval_is_met_by_no_fewer_events(seen in seen(), attribute in attribute(), mut keys: [i64; 4]) {
        keys.sort_unstable();
        let statistics = after(true, &seen);
        let [low, inner_low, inner_high, high] = keys;
        prop_assert!(
            statistics.interval(attribute, inner_low, inner_high) <= statistics.interval(attribute, low, high)
        );
    }

    /// Each interval has a minimum share, so two parts may add up to more than the whole.
    #[test]
    fn the_parts_of_an_interval_add_up(seen in seen(), low in -10_i64..=989, cut in -10_i64..=989, high in -10_i64..=989) {
        let mut cuts = [low, cut, high];
        cuts.sort_unstable();
        let [low, cut, high] = cuts;
        let statistics = after(true, &seen);
        let share = |low, high| statistics.interval(BOUNDED, low, high);
        let parts = share(low, cut) + share(cut + 1, high);
        prop_assert!(parts >= share(low, high) - 1e-6);
        prop_assert!(parts <= share(low, high) + 2.0 * cost::MIN_RANGE_SELECTIVITY + 1e-6);
        prop_assert_eq!(share(-10, 989), statistics.defined(BOUNDED));
        prop_assert_eq!(share(i64::MIN, i64::MAX), statistics.defined(BOUNDED));
    }

    #[test]
    fn what_is_restored_estimates_as_before(before in seen(), seen in seen()) {
        let mut statistics = after(true, &before);
        let expected = estimates(&statistics);
        let saved = statistics.saved(attributes());
        tell(&mut statistics, &seen);
        statistics.restore(saved);
        prop_assert_eq!(estimates(&statistics), expected.clone());
        // The expression counts are rolled back too: later expressions count as if the undone ones had never been seen.
        tell(&mut statistics, &seen);
        prop_assert_eq!(estimates(&statistics), estimates(&after(true, &[before, seen].concat())));
    }
}

#[test]
fn the_more_expressions_ask_for_an_attribute_the_more_events_define_it() {
    let share = |asking: usize, of: usize| {
        let asked = |expression| if expression < of - asking { vec![BOUNDED] } else { vec![UNBOUNDED; 3] };
        let statistics = after(true, &(0..of).map(|expression| Seen::Asked(asked(expression))).collect::<Vec<_>>());
        statistics.defined(UNBOUNDED)
    };
    for of in [1, 10, 1000] {
        for asking in 1..of {
            assert!(share(asking, of) <= share(asking + 1, of), "{asking} of {of}");
        }
    }
    // If a fifth of many expressions ask, half of the events are assumed to define the attribute. One expression decides little.
    assert!((share(200, 1000) - 0.5).abs() < 0.01);
    assert!((share(1, 1) - 0.5).abs() < 0.05);
    // An attribute that an expression asks for three times counts once.
    let once = after(true, &[Seen::Asked(vec![UNBOUNDED])]).defined(UNBOUNDED);
    assert_eq!(share(1, 1), once);
}

#[test]
fn constants_give_the_range_of_an_attribute_without_bounds() {
    let share = |seen: &[Seen]| after(false, seen).interval(UNBOUNDED, 100, 200);
    let is_near = |share: f32, expected: f32| (share - expected).abs() < 1e-6;
    assert_eq!(share(&[]), 0.5);
    // Half-open intervals and a single constant teach the statistics nothing.
    assert_eq!(share(&[Seen::Interval(UNBOUNDED, 0, i64::MAX), Seen::Interval(UNBOUNDED, i64::MIN, 0)]), 0.5);
    // Both bounds are included.
    let expected = 101.0 / 1001.0;
    assert!(is_near(share(&[Seen::Interval(UNBOUNDED, 0, 1000)]), expected));
    assert!(is_near(share(&[Seen::Interval(UNBOUNDED, 0, 500), Seen::Interval(UNBOUNDED, 300, 1000)]), expected));
    assert_eq!(share(&[Seen::Interval(UNBOUNDED, 120, 170)]), 1.0);
    assert_eq!(share(&[Seen::Interval(UNBOUNDED, 500, 600)]), cost::MIN_RANGE_SELECTIVITY);
    let statistics = after(false, &[Seen::Interval(UNBOUNDED, 0, 1000)]);
    assert!(is_near(statistics.interval(UNBOUNDED, 500, i64::MAX), 501.0 / 1001.0));
    assert!(is_near(statistics.interval(UNBOUNDED, i64::MIN, 250), 251.0 / 1001.0));
    // Declared bounds stay.
    for (attribute, low, high) in [(BOUNDED, -10, 989), (FLOAT, of_float(-1.5), of_float(1e9))] {
        let statistics = after(false, &[Seen::Interval(attribute, -5000, 5000)]);
        assert_eq!(statistics.interval(attribute, low, high), 1.0);
        assert_eq!(statistics.interval(attribute, low, low), cost::MIN_RANGE_SELECTIVITY);
    }
}

#[test]
fn an_interval_of_integers_is_as_selective_as_its_values() {
    let statistics = after(true, &[]);
    for (low, high, count) in [(-10, 9, 20), (100, 599, 500), (-10, 989, 1000), (490, i64::MAX, 500)] {
        let (interval, points) = (statistics.interval(BOUNDED, low, high), statistics.points(BOUNDED, count));
        assert!((interval - points).abs() < 1e-6, "{low} to {high}: {interval}, and {points} as values");
    }
    assert_eq!(statistics.interval(BOUNDED, 4, 3), cost::MIN_RANGE_SELECTIVITY * statistics.defined(BOUNDED));
}

#[test]
fn the_number_of_values_gives_the_share_of_one() {
    let statistics = after(false, &[]);
    let share = |attribute| statistics.points(AttributeId::from_index(attribute), 1);
    let expected = [0.5, 0.01, 0.001, 0.01, 1.0, 1.0 / u32::MAX as f32, 0.04, 0.1];
    for (attribute, expected) in (0..).zip(expected) {
        assert!((share(attribute) - expected).abs() <= expected * 1e-4, "{attribute}: {}", share(attribute));
    }
    assert!(share(8) > 0.0 && share(8) < 1e-18);
}
