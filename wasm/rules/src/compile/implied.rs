//! Derives implied tests: `b.user = a.user` and `c.user = a.user` imply `c.user = b.user`; `after b` implies `after a` if `b` is
//! after `a`.
//!
//! With an implied test, a fact of `c` can be looked up before a fact of `a` is bound.

use std::collections::HashSet;

use crate::compile::code::{Code, Kind, Operand, Relation};

/// The most derived equalities. Their number is quadratic in that of the equal fields, and a plan scans all of them; a rule whose
/// 16 facts share one key has 105.
const MAX_IMPLIED: usize = 512;

/// A field of the fact in a slot.
type Field = (u8, u32);

/// Fields that have equal values in every match.
struct Class {
    kind: Kind,
    fields: Vec<(Field, Code)>,
}

/// Returns the implied tests of two facts that `conjuncts` does not contain yet.
pub(super) fn implied(conjuncts: &[Code]) -> Vec<Code> {
    let mut implied = equalities(conjuncts);
    implied.extend(orders(conjuncts));
    implied
}

/// Returns the transitive closure of the orders in time, without the given ones.
fn orders(conjuncts: &[Code]) -> Vec<Code> {
    let given = conjuncts.iter().filter_map(|code| match code {
        Code::After { later, earlier, .. } => Some((*later, *earlier)),
        _ => None,
    });
    let mut seen = HashSet::new();
    let mut orders: Vec<(u8, u8)> = given.filter(|order| seen.insert(*order)).collect();
    let count = orders.len();
    let mut done = 0;
    while done < orders.len() {
        let (later, earlier) = orders[done];
        let follows = |(other_later, other_earlier): &(u8, u8)| {
            if *other_later == earlier {
                Some((later, *other_earlier))
            } else if *other_earlier == later {
                Some((*other_later, earlier))
            } else {
                None
            }
        };
        let found: Vec<(u8, u8)> = orders.iter().filter_map(follows).collect();
        for order in found {
            if order.0 != order.1 && !orders.contains(&order) {
                orders.push(order);
            }
        }
        done += 1;
    }
    let implied = orders.drain(count..);
    implied.map(|(later, earlier)| Code::After { later, earlier, less_than: None }).collect()
}

/// Returns the transitive closure of the field equalities, without the given ones.
fn equalities(conjuncts: &[Code]) -> Vec<Code> {
    let mut classes: Vec<Class> = Vec::new();
    let mut given = HashSet::new();
    for code in conjuncts {
        let Code::Compare(kind, Relation::Equal, left, right) = code else { continue };
        // Equal floats may differ in their bits, so floats cannot be keys.
        let (Some(first), Some(second), true) = (field(left), field(right), *kind != Kind::Float) else { continue };
        if !given.insert([first, second]) {
            continue;
        }
        let mut fields = vec![(first, (**left).clone()), (second, (**right).clone())];
        let has = |class: &Class| class.fields.iter().any(|(field, _)| [first, second].contains(field));
        for class in classes.extract_if(.., |class| has(class)) {
            fields.extend(class.fields);
        }
        fields.sort_by_key(|(field, _)| *field);
        fields.dedup_by_key(|(field, _)| *field);
        classes.push(Class { kind: *kind, fields });
    }
    let mut implied = Vec::new();
    for Class { kind, fields } in &classes {
        for (number, (first, left)) in fields.iter().enumerate() {
            for (second, right) in &fields[number + 1..] {
                let is_given = given.contains(&[*first, *second]) || given.contains(&[*second, *first]);
                if implied.len() == MAX_IMPLIED {
                    return implied;
                }
                if first.0 != second.0 && !is_given {
                    let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
                    implied.push(Code::Compare(*kind, Relation::Equal, left, right));
                }
            }
        }
    }
    implied
}

fn field(code: &Code) -> Option<Field> {
    match Operand::of(code)? {
        Operand::Field { slot, offset, .. } => Some((slot, offset)),
        Operand::Constant(_) => None,
    }
}
