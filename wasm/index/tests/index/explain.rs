//! Explanations of large expressions and events are bounded complete terms, or are refused when memory is exhausted.

use crate::heap::{alone, begin_anew, limited, taken, FREELY, PAGE};
use crate::support::make::{attribute, insertion};
use be_tree_index::diagnostics::explain::explain;
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::term::Reader;

/// An index with `text` as its only expression.
fn index(text: &str) -> Index {
    let attributes = vec![
        attribute("a", Type::Integer),
        attribute("b", Type::Boolean),
        attribute("s", Type::String),
        attribute("t", Type::StringList),
    ];
    let mut index = Index::new(Schema::new(attributes).unwrap());
    index.insert(&insertion(1, text)).unwrap();
    index
}

/// The explanation of `text` for `event`.
fn explanation(text: &str, event: &str) -> Vec<u8> {
    let index = index(text);
    let mut out = Vec::new();
    explain(&index, Format::Json, event.as_bytes(), 1, &mut out).unwrap();
    let mut reader = Reader::new(&out).unwrap();
    reader.skip().unwrap();
    reader.finish().unwrap();
    out
}

/// Returns the number of occurrences of `atom` in a term.
fn atoms(term: &[u8], atom: &str) -> usize {
    let encoded = [&[119, atom.len() as u8], atom.as_bytes()].concat();
    term.windows(encoded.len()).filter(|window| *window == encoded).count()
}

const MAX_TERM_BYTES: usize = (1 << 20) + 300_000;

#[test]
fn the_explanation_of_a_deep_expression_is_truncated() {
    let term = explanation(&format!("{}b", "not ".repeat(200_000)), r#"{"b": true}"#);
    assert!(term.len() < MAX_TERM_BYTES, "{}", term.len());
    assert_eq!((atoms(&term, "not"), atoms(&term, "omitted"), atoms(&term, "predicate")), (10_001, 1, 0));
}

#[test]
fn the_explanation_of_a_wide_expression_is_truncated() {
    let text = (0..30_000).map(|i| format!("a = {i}")).collect::<Vec<_>>().join(" or ");
    let term = explanation(&text, r#"{"a": 29999}"#);
    assert_eq!((atoms(&term, "predicate"), atoms(&term, "omitted")), (10_000, 1));
    // An omitted part makes it true.
    assert_eq!(atoms(&term, "true"), 2);
    let nested = (0..30_000).fold("b".to_owned(), |text, i| format!("a = {i} and ({text}"));
    let term = explanation(&format!("{nested}{}", ")".repeat(30_000)), r#"{"a": 1, "b": true}"#);
    assert_eq!((atoms(&term, "and"), atoms(&term, "predicate"), atoms(&term, "omitted")), (1, 10_000, 1));
}

#[test]
fn long_texts_and_values_are_omitted() {
    let list = (0..600).map(|i| format!("'été{i}'")).collect::<Vec<_>>().join(", ");
    let text = (0..300).map(|i| format!("s not in ({list}, '{i}')")).collect::<Vec<_>>().join(" and ");
    let event = format!(r#"{{"s": "{}", "t": [{}]}}"#, "x".repeat(5000), r#""y","#.repeat(999) + r#""z""#);
    let term = explanation(&text, &event);
    assert!(term.len() < MAX_TERM_BYTES, "{}", term.len());
    // One value for each, and the omitted predicates.
    assert_eq!(atoms(&term, "omitted"), 300);
    assert!(atoms(&term, "predicate") > 200);
    assert!(!term.windows(5000).any(|window| window == "x".repeat(5000).as_bytes()));
    assert_eq!(atoms(&explanation("t one of ('z')", &event), "omitted"), 1);
    assert_eq!(atoms(&explanation("s = 'x'", r#"{"s": "x"}"#), "omitted"), 0);
}

#[test]
fn a_list_is_in_the_order_of_the_event() {
    let strings: Vec<String> = (0..40).map(|i| format!("x{}", i * 7 % 40)).collect();
    let constants = strings.iter().map(|string| format!("'{string}'")).collect::<Vec<_>>().join(", ");
    let term = explanation(&format!("t all of ({constants})"), &format!(r#"{{"t": {strings:?}}}"#));
    let expected: Vec<u8> =
        strings.iter().flat_map(|string| [&[109, 0, 0, 0, string.len() as u8], string.as_bytes()].concat()).collect();
    assert!(term.windows(expected.len()).any(|window| window == expected));
}

/// Fills the free memory of the heap, except for the bytes of an error message.
fn fill() -> Vec<Vec<u8>> {
    let rest: Vec<u8> = limited(FREELY, FREELY, || Vec::with_capacity(1 << 12));
    let mut filler = Vec::new();
    for size in [1 << 20, 1 << 16, 1 << 12, 1 << 8] {
        let block = || {
            let mut block = Vec::new();
            limited(taken(), FREELY, || block.try_reserve_exact(size)).is_ok().then_some(block)
        };
        filler.extend(std::iter::from_fn(block));
    }
    limited(FREELY, FREELY, || drop(rest));
    filler
}

#[test]
#[cfg_attr(target_arch = "wasm32", ignore = "in the sandbox the end of memory traps")]
fn at_every_limit_of_memory_an_explanation_is_whole_or_refused() {
    let _alone = alone();
    let join =
        |count: usize, by: &str, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<Vec<_>>().join(by);
    let texts = [
        format!("{}b", "not ".repeat(5_000)),
        join(3_000, " or ", &|i| format!("a = {i}")),
        (0..3_000).fold("b".to_owned(), |text, i| format!("a = {i} and ({text}")) + &")".repeat(3_000),
        join(40, " and ", &|i| format!("s not in ({})", join(400, ", ", &|j| format!("'it\\'s {i} of {j}'")))),
        format!("contains(s, '{}') or t one of ('{}')", "\\'".repeat(90_000), "é".repeat(90_000)),
    ];
    let event = format!(r#"{{"a": 1, "b": true, "s": "{}", "t": [{}"z"]}}"#, "x".repeat(4_000), r#""y","#.repeat(500));
    for text in texts {
        begin_anew();
        let index = limited(FREELY, FREELY, || index(&text));
        let held = taken();
        let filler = fill();
        let explain_within = |limit: usize| {
            limited(limit, FREELY, || {
                let mut out = Vec::new();
                explain(&index, Format::Json, event.as_bytes(), 1, &mut out).map(|()| out)
            })
        };
        let mut refusals = 0;
        let explained = loop {
            match explain_within(held + refusals * PAGE) {
                Ok(explained) => break explained,
                Err(error) => assert_eq!(error.kind, Kind::OutOfMemory, "{}", error.message),
            }
            refusals += 1;
        };
        assert!(refusals > 0);
        assert_eq!(explained.as_slice(), explain_within(FREELY).unwrap().as_slice());
        limited(FREELY, FREELY, || drop((explained, index, filler)));
    }
}
