//! A trace finds what a search finds, and its steps add up to what the search did.

use std::collections::BTreeSet;

use crate::support::encode;
use crate::support::generate;
use crate::support::make::ALL_IDS;
use crate::support::random::Random;
use crate::support::twin::Twin;
use be_tree_index::diagnostics::draw::draw;
use be_tree_index::diagnostics::trace::{trace, Place};
use be_tree_index::event::Format;
use be_tree_index::search::Search;

#[test]
fn the_steps_add_up_to_the_search() {
    let mut below = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let twin = Twin::random(&mut random, 3000);
        let schema = twin.index.schema().clone();
        let mut picture = Vec::new();
        draw(&twin.index, &mut picture);
        let picture = String::from_utf8(picture).unwrap();
        let mut search = Search::default();
        search.reserve(&twin.index).unwrap();
        for _ in 0..10 {
            let event = generate::event(&mut random, &schema);
            let event = encode::term_by_name(&mut random, &schema, &event);
            search.open(&twin.index, Format::Term, &event, ALL_IDS).unwrap();
            let found = search.run(&twin.index);
            let (ids, visited, evaluated) = (found.ids().to_vec(), found.visited(), found.evaluated());

            let trace = trace(&twin.index, &mut search, Format::Term, &event).unwrap();
            assert_eq!((&trace.ids, trace.visited, trace.evaluated), (&ids, visited, evaluated), "seed {seed}");
            assert_eq!(trace.steps.iter().map(|step| step.visited).sum::<u64>(), visited, "seed {seed}");
            assert_eq!(trace.steps.iter().map(|step| step.evaluated).sum::<u64>(), evaluated, "seed {seed}");
            let mut matched: Vec<u64> = trace.steps.iter().flat_map(|step| step.matched.clone()).collect();
            matched.sort_unstable();
            assert_eq!(matched, ids, "seed {seed}: each match is found once");

            let mut known = BTreeSet::new();
            for step in &trace.steps {
                assert!(step.passed <= step.visited && step.matched.len() as u64 <= step.visited, "{step:?}");
                let Place::Node(node, edge) = &step.place else { continue };
                assert_eq!(edge.is_none(), *node == 0, "only the root has no edge");
                let Some(edge) = edge else { continue };
                assert!(
                    known.contains(&edge.above) || edge.above == 0,
                    "seed {seed}: {edge:?} hangs below a visited node"
                );
                known.insert(*node);
                below += 1;
                // The picture has the same edge. Its labels are escaped.
                let line = format!("  level{} -> node{node} [label=\"", edge.level);
                let label = edge.label.replace('\\', "\\\\").replace('"', "\\\"");
                let is_plain = !edge.label.chars().any(char::is_control);
                assert!(picture.contains(&line), "{line}");
                assert!(!is_plain || picture.contains(&format!("{line}{label}\"]")), "{line}{label}");
            }
        }
    }
    assert!(below > 1000, "searches go down: {below}");
}
