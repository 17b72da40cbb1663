//! Common subexpression elimination: a value that a rule's actions compute repeatedly becomes a `let`.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::compile::code::{Code, SLOTS};
use crate::compile::program::Action;

/// The least number of subexpressions that such a `let` saves. A `let` costs some itself, even in a firing that does not need it.
const LEAST_SAVED: usize = 6;

/// Value numbering: equal expressions have equal numbers. A key holds numbers in place of its subexpressions, so the cost of
/// hashing does not depend on depth.
type Numbers = HashMap<Code, usize>;

/// A subexpression, and how often the actions contain it.
struct Part<'c> {
    code: &'c Code,
    times: usize,
    /// The number of its subexpressions, itself included.
    size: usize,
    /// Its position among all subexpressions.
    place: usize,
}

/// Moves the subexpressions that save most into `let`s while the rule has free locals. `locals` counts those in use.
#[inline(never)]
pub(super) fn share(actions: &mut Vec<Action>, locals: &mut u8) {
    while usize::from(*locals) < SLOTS {
        let mut numbers = Numbers::new();
        let Some((number, part)) = most_repeated(actions, &mut numbers) else { return };
        let local = *locals;
        *locals += 1;
        let mut first = actions.len();
        for (position, action) in actions.iter_mut().enumerate().rev() {
            action.change(|code| {
                let mut has_part = false;
                replace(code, number, local, &numbers, &mut has_part);
                if has_part {
                    first = position;
                }
            });
        }
        // Inserted before its first use, after the locals that it reads.
        actions.insert(first, Action::Let { local, code: part });
    }
}

/// Returns the subexpression that saves most if computed once, the first on ties, and its number.
#[inline(never)]
fn most_repeated(actions: &[Action], numbers: &mut Numbers) -> Option<(usize, Code)> {
    let (mut parts, mut places) = (Vec::new(), 0);
    for action in actions {
        action.visit(|code| {
            add(code, numbers, &mut parts, &mut places);
        });
    }
    let repeated = parts.iter().enumerate().filter(|(_, part)| part.times > 1);
    let saved = |part: &Part| (part.times - 1) * (part.size - 1);
    let (number, most) = repeated.max_by_key(|(_, part)| (saved(part), Reverse(part.place)))?;
    (saved(most) >= LEAST_SAVED).then(|| (number, most.code.clone()))
}

/// Adds an expression and its subexpressions to the parts. Returns its number and its size.
fn add<'c>(code: &'c Code, numbers: &mut Numbers, parts: &mut Vec<Part<'c>>, places: &mut usize) -> (usize, usize) {
    let place = *places;
    *places += 1;
    let (mut of_parts, mut size) = (Vec::new(), 1);
    code.for_each_part(|part| {
        let (number, of_part) = add(part, numbers, parts, places);
        of_parts.push(number);
        size += of_part;
    });
    let number = *numbers.entry(key(code, of_parts)).or_insert(parts.len());
    match parts.get_mut(number) {
        Some(part) => part.times += 1,
        None => parts.push(Part { code, times: 1, size, place }),
    }
    (number, size)
}

/// Replaces each subexpression numbered `wanted` by a local. Returns the number that the expression had.
fn replace(code: &mut Code, wanted: usize, local: u8, numbers: &Numbers, has_part: &mut bool) -> usize {
    let of_parts = code.parts_mut().map(|part| replace(part, wanted, local, numbers, has_part)).collect();
    let number = numbers[&key(code, of_parts)];
    if number == wanted {
        *code = Code::Local(local);
        *has_part = true;
    }
    number
}

/// Returns the key of an expression, given the numbers of its subexpressions.
fn key(code: &Code, of_parts: Vec<usize>) -> Code {
    let mut of_parts = of_parts.into_iter();
    code.with_parts(&mut |_| Code::Constant(of_parts.next().unwrap_or_default() as u64))
}
