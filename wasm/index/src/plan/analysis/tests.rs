use std::collections::HashSet;

use super::*;
use crate::eval::memo::Memo;
use crate::eval::patterns;
use crate::event::digest::{self, ValueDigest};
use crate::event::{decode, key, Event, Format, Value};
use crate::index::{Index, Insertion};
use crate::language::read;
use crate::model::predicate::Postfix;
use crate::model::schema::{Attribute, Bounds, Type};
use crate::oracle::encode;
use crate::oracle::generate::{self, CONSTANTS};
use crate::oracle::naive::{self, NaiveEvent};
use crate::oracle::random::Random;

/// The number of random indexes, and of the expressions and events of each.
const INDEXES: u64 = 150;
const EXPRESSIONS: u64 = 12;
const EVENTS: usize = 60;

/// An event in the forms that the tests compare.
struct Seen {
    naive: NaiveEvent,
    event: Event,
    digests: Vec<ValueDigest>,
}

/// An index of random expressions, with events over its schema.
struct Sample {
    index: Index,
    texts: Vec<Postfix>,
    events: Vec<Seen>,
}

impl Sample {
    fn new(random: &mut Random) -> Self {
        let mut index = Index::new(generate::schema(random));
        let mut texts = Vec::new();
        while texts.len() < EXPRESSIONS as usize {
            let depth = 1 + random.below(5);
            let text = generate::expression(random, index.schema(), depth);
            let insertion = Insertion { id: texts.len() as u64, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
            if index.insert(&insertion).is_ok() {
                texts.push(read(text.as_bytes(), index.schema(), &CONSTANTS).unwrap());
            }
        }
        let events = (0..EVENTS).map(|_| seen(random, &index)).collect();
        Sample { index, texts, events }
    }

    /// Calls `each` with every expression that is not constant: its subscription and its text.
    fn each(&self, mut each: impl FnMut(&Subscription, &Postfix)) {
        for (slot, subscription) in self.index.subscriptions().iter() {
            let steps = self.index.catalog().expression(subscription).steps;
            if let Normalised::Tree(_) = normalise(&steps) {
                each(subscription, &self.texts[self.index.subscriptions().id(slot) as usize]);
            }
        }
    }
}

fn seen(random: &mut Random, index: &Index) -> Seen {
    let naive = generate::event(random, index.schema());
    let bytes = encode::term_by_position(random, index.schema(), &naive);
    let mut event = Event::default();
    decode(Format::Record, &bytes, index.schema(), index.strings(), &mut event).unwrap();
    event.lower(index.catalog().predicates.patterns().lowered()).unwrap();
    let mut memo = Memo::default();
    memo.reserve(index.catalog().predicates.capacity()).unwrap();
    memo.begin();
    patterns::find(&mut event, index.catalog(), &mut memo).unwrap();
    let mut digests = vec![ValueDigest::default(); index.schema().all_attributes().len() + 1];
    digest::read(&event, index.schema(), &mut digests);
    Seen { naive, event, digests }
}

/// Returns whether `event` meets `access_predicate`, by the definition of each [`ValueSet`].
fn meets(access_predicate: &AccessPredicate, event: &Event) -> bool {
    let keys: Vec<i64> = match event.values[access_predicate.attribute.index()] {
        Value::Undefined => return access_predicate.is_lax,
        Value::Integers(span) => span.of(&event.integers).to_vec(),
        Value::Strings(span) => span.of(&event.strings).iter().map(|text| i64::from(text.id.word())).collect(),
        Value::Segments(span) => span.of(&event.segments).iter().map(|segment| segment.id).collect(),
        Value::Caps(_) => Vec::new(),
        Value::Patterns => event.patterns.clone(),
        scalar => key::of_value(scalar).into_iter().collect(),
    };
    match &access_predicate.values {
        ValueSet::Points(points) => keys.iter().any(|key| points.contains(key)),
        ValueSet::Interval(low, high) => keys.iter().any(|key| low <= key && key <= high),
        ValueSet::Defined => true,
        ValueSet::Except(points) => !keys.iter().any(|key| points.contains(key)),
    }
}

fn literals(analysis: &Analysis) -> Vec<NodeIndex> {
    analysis.normal.top_down().filter(|index| analysis.normal.literal(*index).is_some()).collect()
}

#[test]
fn each_event_that_an_expression_matches_meets_a_whole_context_of_its_access() {
    let (mut matches, mut filters) = (0, 0);
    for seed in 0..INDEXES {
        let sample = Sample::new(&mut Random::new(seed));
        let catalog = sample.index.catalog();
        sample.each(|subscription, text| {
            let analysis = Analysis::of(subscription, catalog);
            let access = analysis.access(&catalog.expression(subscription).predicates, catalog);
            for Seen { naive, event, digests } in &sample.events {
                let is_match = naive::matches(text, naive);
                match &access {
                    Access::Demands(literals) => {
                        let is_met = |literal: &NodeIndex| {
                            assert!(analysis.access_predicate(*literal).is_some());
                            analysis.context(*literal).all(|(_, access_predicate)| meets(access_predicate, event))
                        };
                        assert!(!is_match || literals.iter().any(is_met), "{seed}: {text:?} and {naive:?}");
                        matches += usize::from(is_match);
                    }
                    Access::Filter(filter) => {
                        let tested = filter.test(&digests[..]);
                        assert!(tested.passes || !is_match, "{seed}: {text:?} and {naive:?}");
                        assert!(!tested.passes || tested.may_fail || is_match, "{seed}: {text:?} and {naive:?}");
                        filters += usize::from(tested.passes && !tested.may_fail);
                    }
                    Access::Nothing => {}
                }
            }
        });
    }
    assert!(matches > 1000 && filters > 1000, "{matches} matches and {filters} proofs");
}

#[test]
fn an_event_that_meets_all_that_is_known_and_the_residual_makes_the_expression_true() {
    let (mut nothing, mut one, mut either) = (0, 0, 0);
    for seed in 0..INDEXES {
        let random = &mut Random::new(seed);
        let sample = Sample::new(random);
        let catalog = sample.index.catalog();
        sample.each(|subscription, text| {
            let analysis = Analysis::of(subscription, catalog);
            for literal in literals(&analysis) {
                // Some literals of the context are known.
                let known: HashSet<*const AccessPredicate> = analysis
                    .normal
                    .context(literal)
                    .filter_map(|index| analysis.access_predicates[index as usize].as_ref())
                    .filter(|access_predicate| access_predicate.is_exact && random.chance(80))
                    .map(|access_predicate| access_predicate as *const _)
                    .collect();
                let is_known = |access_predicate: &AccessPredicate| known.contains(&(access_predicate as *const _));
                let residual = analysis.residual(literal, catalog, is_known);
                let is_reached = |event: &Event| {
                    let known = analysis.access_predicates.iter().flatten().filter(|known| is_known(known));
                    known.into_iter().all(|known| meets(known, event))
                };
                for Seen { naive, event, digests } in sample.events.iter().filter(|seen| is_reached(&seen.event)) {
                    let is_proven = match &residual {
                        Residual::Nothing => {
                            nothing += 1;
                            true
                        }
                        Residual::One(access_predicate) => {
                            one += 1;
                            meets(access_predicate, event)
                        }
                        Residual::Either(likely) => {
                            either += 1;
                            let tested = likely.filter.test(&digests[..]);
                            assert!(tested.passes, "{seed}: {text:?} and {naive:?}");
                            !tested.may_fail
                        }
                        Residual::More => false,
                    };
                    assert!(
                        !is_proven || naive::matches(text, naive),
                        "{seed}: {residual:?} of {text:?} and {naive:?}"
                    );
                }
            }
        });
    }
    assert!(nothing > 1000 && one > 1000 && either > 100, "{nothing}, {one} and {either}");
}

#[test]
fn an_entry_alone_has_the_context_of_the_whole_expression() {
    let mut contexts = 0;
    for seed in 0..INDEXES {
        let sample = Sample::new(&mut Random::new(seed));
        let catalog = sample.index.catalog();
        sample.each(|subscription, _| {
            let whole = Analysis::of(subscription, catalog);
            for literal in literals(&whole).into_iter().filter(|literal| whole.access_predicate(*literal).is_some()) {
                let entry = Analysis::of_entry(literal, subscription, catalog);
                assert!(entry.context(literal).eq(whole.context(literal)), "{seed}");
                for (index, _) in whole.context(literal) {
                    assert_eq!(entry.share(index), whole.share(index), "{seed}");
                }
                for attribute in 0..2 {
                    let residual = |analysis: &Analysis| {
                        let is_known =
                            |known: &AccessPredicate| known.is_exact && known.attribute.index() % 2 == attribute;
                        format!("{:?}", analysis.residual(literal, catalog, is_known))
                    };
                    assert_eq!(residual(&entry), residual(&whole), "{seed}");
                }
                contexts += usize::from(whole.context(literal).count() > 1);
            }
        });
    }
    assert!(contexts > 100, "{contexts}");
}

/// Returns the least cost of finding an expression by the node at `index`, over all choices.
fn least_cost(analysis: &Analysis, index: NodeIndex, catalog: &Catalog) -> f32 {
    let costs = analysis.normal.children(index).map(|child| least_cost(analysis, child, catalog));
    match analysis.normal.node(index) {
        NormalNode::Literal(_) => analysis.cost(index, catalog),
        NormalNode::And => costs.fold(f32::INFINITY, f32::min),
        NormalNode::Or => costs.sum(),
    }
}

#[test]
fn no_other_choice_of_literals_costs_less() {
    let (mut finite, mut choices) = (0, 0);
    for seed in 0..INDEXES {
        let sample = Sample::new(&mut Random::new(seed));
        let catalog = sample.index.catalog();
        sample.each(|subscription, text| {
            let analysis = Analysis::of(subscription, catalog);
            // With distinct shares below 1, all literals of a conjunction lead to the same entry at the same cost.
            let mut shares: Vec<f32> = literals(&analysis).into_iter().map(|literal| analysis.share(literal)).collect();
            shares.sort_unstable_by(f32::total_cmp);
            if shares.windows(2).any(|pair| pair[0] == pair[1]) || shares.contains(&1.0) {
                return;
            }
            let least = least_cost(&analysis, analysis.normal.root(), catalog);
            let chosen = analysis.cheapest(&analysis.costs(catalog));
            let cost: f32 = chosen.iter().map(|&literal| analysis.cost(literal, catalog)).sum();
            if least.is_finite() {
                assert!(cost <= least * 1.0001, "{seed}: {cost} instead of {least} for {text:?}");
                finite += 1;
                choices += usize::from(chosen.len() > 1);
            } else {
                assert!(cost.is_infinite(), "{seed}: {text:?}");
            }
        });
    }
    assert!(finite > 100 && choices > 20, "{finite} and {choices}");
}

/// Returns the analysis of the only expression of an index, its access, and the catalog.
fn analyzed(attributes: &[(&str, Type, bool, Bounds)], text: &str) -> (Analysis, Access, Catalog) {
    let attribute = |&(name, ty, optional, bounds): &(&str, Type, bool, Bounds)| Attribute {
        name: name.into(),
        ty,
        optional,
        bounds,
    };
    let mut index = Index::new(Schema::new(attributes.iter().map(attribute).collect()).unwrap());
    index.insert(&Insertion { id: 1, text: text.as_bytes(), constants: vec![] }).unwrap();
    let (_, subscription) = index.subscriptions().iter().next().unwrap();
    let analysis = Analysis::of(subscription, index.catalog());
    let access = analysis.access(&index.catalog().expression(subscription).predicates, index.catalog());
    (analysis, access, index.catalog().clone())
}

const ADS: [(&str, Type, bool, Bounds); 4] = [
    ("premium", Type::Boolean, false, Bounds::Unbounded),
    ("city", Type::String, false, Bounds::Count(1000)),
    ("age", Type::Integer, false, Bounds::Integer { min: 0, max: 99 }),
    ("score", Type::Float, true, Bounds::Unbounded),
];

#[test]
fn the_rarest_demand_of_a_conjunction_and_all_of_a_disjunction_lead_to_an_expression() {
    let attributes = |text: &str| {
        let (analysis, access, _) = analyzed(&ADS, text);
        let Access::Demands(literals) = access else { panic!("{text} is found by demands, not by {access:?}") };
        let attribute = |literal| analysis.access_predicate(literal).unwrap().attribute.index();
        let mut attributes: Vec<usize> = literals.into_iter().map(attribute).collect();
        attributes.sort_unstable();
        attributes
    };
    assert_eq!(attributes("premium and age > 3 and city = 'Rome'"), [1]);
    assert_eq!(attributes("city = 'Rome' or age = 7"), [1, 2]);
    assert_eq!(attributes("(city = 'Rome' or age = 7) and premium"), [1, 2]);
}

#[test]
fn an_expression_that_most_events_may_match_has_no_demand_but_may_have_a_filter() {
    let access = |text: &str| analyzed(&ADS, text).1;
    assert!(matches!(access("not (score > 0.5)"), Access::Filter(_)));
    assert!(matches!(access("score is null"), Access::Nothing));
    assert!(matches!(access("score is null and score is null"), Access::Nothing));
    let large =
        (0..MAX_INDEXED_NODES).map(|number| format!("city = '{}'", number % 900)).collect::<Vec<_>>().join(" or ");
    assert!(matches!(access(&large), Access::Nothing));
}

#[test]
fn siblings_on_one_attribute_are_narrowed_to_what_is_common() {
    let (analysis, _, catalog) = analyzed(&ADS, "age > 3 and age <= 20 and age <> 5");
    let intervals: Vec<&ValueSet> = analysis.access_predicates().map(|access| &access.values).collect();
    let except: crate::plan::access_predicate::Keys = [5].into_iter().collect();
    assert_eq!(intervals, [&ValueSet::Interval(4, 20), &ValueSet::Interval(4, 20), &ValueSet::Except(except)]);
    // Together the three exact demands prove the expression.
    let first = literals(&analysis)[0];
    assert!(matches!(analysis.residual(first, &catalog, |access| access.is_exact), Residual::Nothing));
    // Alternatives stay as wide as they are.
    let (analysis, ..) = analyzed(&ADS, "age > 3 or age <= 20");
    let intervals: Vec<&ValueSet> = analysis.access_predicates().map(|access| &access.values).collect();
    assert_eq!(intervals, [&ValueSet::Interval(4, i64::MAX), &ValueSet::Interval(i64::MIN, 20)]);
}

/// The demand of `score = 1.0` has a margin, in which the literal is false.
#[test]
fn a_narrowed_demand_is_exact_only_if_it_was_before() {
    for (text, expected) in
        [("score > 0.5 and score = 1.0", [true, false]), ("score = 1.0 and score > 0.5", [false, true])]
    {
        let (analysis, _, catalog) = analyzed(&ADS, text);
        let [first, second] = [0, 1].map(|place| analysis.access_predicate(literals(&analysis)[place]).unwrap());
        assert_eq!(first.values, second.values);
        assert_eq!([first.is_exact, second.is_exact], expected, "{text}");
        let first = literals(&analysis)[0];
        assert!(matches!(analysis.residual(first, &catalog, |access| access.is_exact), Residual::More), "{text}");
    }
}
