//! The parts of a profile find the ids of a search, and their counts add up to its counts.

use std::collections::BTreeSet;

use crate::support::encode;
use crate::support::generate;
use crate::support::make::ALL_IDS;
use crate::support::random::Random;
use crate::support::twin::Twin;
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::search::{Counts, Part, Search};

/// The sums of the counts of all parts of one search.
#[derive(Debug, Default)]
struct Sums {
    parts: Vec<Part>,
    nodes: u64,
    entries: u64,
    proven: u64,
    candidates: BTreeSet<u64>,
    runs: u64,
    true_runs: BTreeSet<u64>,
    unindexed: u64,
    /// The dense expressions, and those of them that were decided at once.
    dense: u64,
    decided: u64,
}

fn profile(index: &Index, search: &mut Search, event: &[u8]) -> Sums {
    search.open(index, Format::Term, event, ALL_IDS).unwrap();
    let mut sums = Sums::default();
    while let Some(part) = search.next_part(index) {
        sums.parts.push(part);
        match search.counts(index) {
            Counts::Walk(levels) => sums.nodes += levels.iter().map(|level| level.nodes).sum::<u64>(),
            Counts::Scan(lists) if part == Part::Dense => {
                for list in lists {
                    sums.dense += list.entries;
                    sums.decided += list.entries - list.candidates.len() as u64;
                    sums.candidates.extend(list.candidates);
                }
            }
            Counts::Scan(lists) => {
                for list in lists {
                    sums.entries += list.entries;
                    sums.proven += list.proven;
                    sums.candidates.extend(list.candidates);
                }
            }
            Counts::Run(runs) => {
                sums.runs += runs.len() as u64;
                sums.true_runs.extend(runs.iter().filter(|run| run.holds).map(|run| run.id));
                if part == Part::Verify {
                    assert!(runs.iter().all(|run| sums.candidates.contains(&run.id)), "{runs:?}");
                } else {
                    sums.unindexed += runs.len() as u64;
                }
            }
            Counts::None => {}
        }
    }
    sums
}

#[test]
fn the_parts_add_up_to_the_search() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let twin = Twin::random(&mut random, 3000);
        let schema = twin.index.schema().clone();
        let mut search = Search::default();
        search.reserve(&twin.index).unwrap();
        for _ in 0..10 {
            let event = generate::event(&mut random, &schema);
            let event = encode::term_by_name(&mut random, &schema, &event);
            search.open(&twin.index, Format::Term, &event, ALL_IDS).unwrap();
            let found = search.run(&twin.index);
            let (ids, visited, evaluated) = (found.ids().to_vec(), found.visited(), found.evaluated());

            let sums = profile(&twin.index, &mut search, &event);
            assert_eq!(search.found().ids(), ids, "seed {seed}");
            assert_eq!(sums.entries + sums.unindexed + sums.dense, visited, "seed {seed}");
            assert_eq!(sums.runs + sums.decided, evaluated, "seed {seed}");
            assert!(sums.true_runs.iter().all(|id| ids.binary_search(id).is_ok()), "seed {seed}");
            let others = ids.len() - sums.true_runs.len();
            // An expression may be proven in more than one place.
            let proven = (sums.proven + sums.decided) as usize;
            assert!(proven >= others, "seed {seed}: {proven} < {others}");
            assert_eq!((sums.parts[0], sums.nodes > 0), (Part::Walk, true));
        }
    }
}

#[test]
fn the_deciding_attribute_is_that_of_the_last_test() {
    use be_tree_index::index::Insertion;
    use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
    let schema = Schema::new(vec![attribute("a"), attribute("b"), attribute("c")]).unwrap();
    let mut index = Index::new(schema);
    let text = b"not (a = 1 and b = 2) and not (b = 3 and c = 4) and not (a = 5 and c = 6)";
    index.insert(&Insertion { id: 7, text, constants: vec![] }).unwrap();
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    search.open(&index, Format::Json, br#"{"a": 1, "b": 2, "c": 9}"#, ALL_IDS).unwrap();
    let mut runs = Vec::new();
    while search.next_part(&index).is_some() {
        if let Counts::Run(more) = search.counts(&index) {
            runs.extend(more);
        }
    }
    let [run] = runs[..] else { panic!("{runs:?}") };
    assert_eq!((run.id, run.holds, run.tests), (7, false, 2));
    let name = |attribute| index.schema().attribute(attribute).name.as_str();
    assert!(["a", "b"].contains(&run.decided_by.map(name).unwrap()));
}
