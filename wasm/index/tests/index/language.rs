//! Properties of every text: reading returns an expression or an error, and a printed expression reads back equal.

use crate::support::generate::{self, CONSTANTS};
use crate::support::naive;
use crate::support::random::Random;
use be_tree_index::language::{expression_text, predicate_text, read};
use be_tree_index::model::predicate::{Postfix, Step};
use be_tree_index::model::schema::Schema;
use proptest::prelude::*;

const DEPTH: usize = 6;

fn printed(steps: &Postfix, schema: &Schema) -> String {
    expression_text(steps, schema, |text| text)
}

/// A schema and an expression over it.
fn generated(random: &mut Random) -> (Schema, String) {
    let schema = generate::schema(random);
    let text = generate::expression(random, &schema, DEPTH);
    (schema, text)
}

/// Returns `text` with a few bytes removed, inserted, exchanged or repeated.
fn mutated(random: &mut Random, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let until = (at + random.below(8)).min(bytes.len());
        match random.below(4) {
            0 => drop(bytes.drain(at..until)),
            1 => bytes.insert(at, random.pick(b"()'\"\\,<>=-.e0n\xc3\xff \0&|")),
            2 => bytes.extend_from_within(at..),
            _ => bytes.truncate(until),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn printed_text_reads_back_as_the_same_expression(seed: u64) {
        let (schema, text) = generated(&mut Random::new(seed));
        let steps = read(text.as_bytes(), &schema, &CONSTANTS).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let canonical = printed(&steps, &schema);
        prop_assert_eq!(read(canonical.as_bytes(), &schema, &CONSTANTS), Ok(steps.clone()), "{}", canonical);
        for step in &steps {
            if let Step::Predicate(predicate) = step {
                let text = predicate_text(predicate, &schema, |text| text);
                prop_assert_eq!(read(text.as_bytes(), &schema, &CONSTANTS), Ok(vec![step.clone()]), "{}", text);
            }
        }
    }

    #[test]
    fn printing_twice_changes_nothing(seed: u64) {
        let (schema, text) = generated(&mut Random::new(seed));
        let once = printed(&read(text.as_bytes(), &schema, &CONSTANTS).unwrap(), &schema);
        let twice = printed(&read(once.as_bytes(), &schema, &CONSTANTS).unwrap(), &schema);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn any_bytes_are_read_or_refused_with_a_column(bytes: Vec<u8>) {
        let schema = generate::schema(&mut Random::new(bytes.len() as u64));
        if let Err(error) = read(&bytes, &schema, &CONSTANTS) {
            let column = error.column.expect("a column");
            prop_assert!((1..=bytes.len() + 1).contains(&column));
        }
    }

    #[test]
    fn damaged_expressions_are_read_or_refused_with_a_column(seed: u64) {
        let mut random = Random::new(seed);
        let (schema, text) = generated(&mut random);
        let bytes = mutated(&mut random, &text);
        match read(&bytes, &schema, &CONSTANTS) {
            Ok(steps) => {
                let canonical = printed(&steps, &schema);
                prop_assert_eq!(read(canonical.as_bytes(), &schema, &CONSTANTS), Ok(steps), "{}", canonical);
            }
            Err(error) => {
                let column = error.column.expect("a column");
                prop_assert!((1..=bytes.len() + 1).contains(&column));
            }
        }
    }

    /// The laws of `not`, `and` and `or` tie the reader's precedence to the oracle's meaning.
    #[test]
    fn the_laws_of_logic_hold(seed: u64) {
        let mut random = Random::new(seed);
        let schema = generate::schema(&mut random);
        let event = generate::event(&mut random, &schema);
        let [a, b] = [0, 0].map(|_| generate::expression(&mut random, &schema, 3));
        let holds = |text: String| naive::matches(&read(text.as_bytes(), &schema, &CONSTANTS).unwrap(), &event);
        let (left, right) = (holds(a.clone()), holds(b.clone()));
        prop_assert_eq!(holds(format!("not ({a})")), !left);
        prop_assert_eq!(holds(format!("({a}) and ({b})")), left && right);
        prop_assert_eq!(holds(format!("({a}) or ({b})")), left || right);
        prop_assert_eq!(holds(format!("not (not ({a}) or not ({b}))")), left && right);
        prop_assert_eq!(holds(format!("({a}) and ({b}) or not ({a}) and not ({b})")), left == right);
    }
}

#[test]
fn the_oracle_agrees_with_cases_worked_out_by_hand() {
    let schema = crate::support::cases::schema();
    for case in crate::support::cases::cases() {
        let steps = read(case.expression.as_bytes(), &schema, &CONSTANTS)
            .unwrap_or_else(|e| panic!("{}: {e}", case.expression));
        assert_eq!(naive::matches(&steps, &case.event), case.matches, "{} of {:?}", case.expression, case.event);
    }
}

/// Generated expressions match sometimes, and every type and test occurs.
#[test]
fn generated_cases_are_neither_all_true_nor_all_false() {
    let mut random = Random::new(1);
    let (mut matched, mut predicates, mut held) = (0, 0, 0);
    let mut tests = std::collections::HashSet::new();
    const ROUNDS: usize = 4000;
    for _ in 0..ROUNDS {
        let (schema, text) = generated(&mut random);
        let event = generate::event(&mut random, &schema);
        let steps = read(text.as_bytes(), &schema, &CONSTANTS).unwrap();
        matched += usize::from(naive::matches(&steps, &event));
        for step in &steps {
            if let Step::Predicate(predicate) = step {
                predicates += 1;
                held += usize::from(naive::holds(predicate, &event));
                tests.insert(std::mem::discriminant(&predicate.test));
            }
        }
    }
    assert!((ROUNDS / 5..ROUNDS * 4 / 5).contains(&matched), "{matched} of {ROUNDS} matched");
    assert!((predicates / 5..predicates * 4 / 5).contains(&held), "{held} of {predicates} held");
    assert_eq!(tests.len(), 25, "every test occurs");
}
