//! Runs the actions of a firing.
//!
//! All values are computed from the facts as the conditions found them. A fact that an earlier action of the firing removed is
//! neither modified nor retracted. If a value does not fit its field, the firing changes nothing but reports the failure.

use crate::compile::code::{Bound, Code, Locals, Scope, NO_LOCALS};
use crate::compile::fact_type::FactType;
use crate::compile::program::Action;
use crate::fact::is_alive;
use crate::facts::change;
use crate::facts::change::Removal;
use crate::firing::notices;
use crate::layout::{CALL_FIRED, FIRED, NUMBER};
use crate::matches::guards;
use crate::memory::{Address, Full};
use crate::step::Step;

/// Fires a rule for the bound facts.
pub(crate) fn fire(step: &mut Step, number: u32, bound: &mut Bound) -> Result<(), Full> {
    step.words.set64(FIRED, step.words.get64(FIRED) + 1)?;
    step.words.set(CALL_FIRED, step.words.get(CALL_FIRED) + 1)?;
    let rule = &step.program.rules[number as usize];
    let mut values;
    let locals = if rule.has_locals {
        values = guards::locals(step, rule, bound);
        for action in &rule.actions {
            if let Action::Let { local, code } = action {
                values[*local as usize] = value(step, code, bound, &values);
            }
        }
        &values
    } else {
        &NO_LOCALS
    };
    if let Some((action, field)) = misfit(step, &rule.actions, bound, locals) {
        return notices::notify_failure(step, number, action, field);
    }
    for (place, fact) in step.scratch.current.iter_mut().zip(bound.iter()).take(rule.slots.len()) {
        *place = (*fact, step.words.get64(*fact + NUMBER));
    }
    for (position, action) in rule.actions.iter().enumerate() {
        match action {
            Action::Let { .. } => {}
            Action::Assert { ty, values } => {
                step.scratch.cells.clear();
                fill(step, values, bound, locals);
                change::insert(step, *ty, step.clock())?;
            }
            Action::Modify { slot, ty, values, is_last } => {
                let (fact, fact_number) = step.scratch.current[*slot as usize];
                if !is_alive(step.words, fact, fact_number) {
                    continue;
                }
                let fact_type = &step.program.types[*ty];
                step.scratch.cells.clear();
                fill(step, values, bound, locals);
                let changed = change::changed_fields(step, fact_type, fact, values.iter().map(|(field, _)| *field));
                let modified = if *is_last && change::renew(step, *ty, fact, changed)? {
                    fact
                } else {
                    copy_others(step, fact_type, fact, values);
                    change::replace(step, *ty, fact, changed)?
                };
                step.scratch.current[*slot as usize] = (modified, step.words.get64(modified + NUMBER));
            }
            Action::Retract { slot } => {
                let (fact, fact_number) = step.scratch.current[*slot as usize];
                if is_alive(step.words, fact, fact_number) {
                    change::remove(step, rule.slots[*slot as usize].ty, fact, Removal::Retraction)?;
                }
            }
            Action::Notify { values, .. } => {
                notices::notify(step, number, position as u32, values, bound, locals)?;
            }
        }
    }
    Ok(())
}

fn value(step: &Step, code: &Code, bound: &Bound, locals: &Locals) -> Option<u64> {
    code.value(Scope { words: step.words, bound, locals })
}

/// Sets the fields that an action assigns in the fact to insert.
fn fill(step: &mut Step, values: &[(u8, Code)], bound: &Bound, locals: &Locals) {
    for (field, code) in values {
        let value = value(step, code, bound, locals);
        step.scratch.cells.set(*field as usize, value);
    }
}

/// Copies the fields that an action does not assign from the old fact to the fact to insert.
fn copy_others(step: &mut Step, ty: &FactType, fact: Address, values: &[(u8, Code)]) {
    for field in 0..ty.fields.len() {
        if values.iter().all(|(given, _)| usize::from(*given) != field) {
            step.scratch.cells.set(field, ty.cell(step.words, fact, field));
        }
    }
}

/// Returns the first misfit: the position of an action and a field that does not accept the value.
fn misfit(step: &Step, actions: &[Action], bound: &Bound, locals: &Locals) -> Option<(u32, u32)> {
    for (position, action) in actions.iter().enumerate() {
        let (Action::Assert { ty, values } | Action::Modify { ty, values, .. }) = action else { continue };
        for (field, code) in values {
            // Constants were checked when the rules were compiled.
            if matches!(code, Code::Constant(_)) {
                continue;
            }
            let declared = &step.program.types[*ty].fields[*field as usize];
            let is_simple = matches!(code, Code::Field { bit: 0, .. });
            if is_simple && declared.domain == crate::compile::program::Domain::Any {
                continue;
            }
            let fits = match value(step, code, bound, locals) {
                Some(value) => declared.domain.contains(value),
                None => declared.optional,
            };
            if !fits {
                return Some((position as u32, (*field).into()));
            }
        }
    }
    None
}
