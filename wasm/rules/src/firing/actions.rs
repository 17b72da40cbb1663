//! What a firing does.
//!
//! All values are those of the facts as the conditions found them. A fact that an earlier action of the firing removed is neither
//! modified nor retracted. If a value does not fit its field, the firing changes nothing and reports that.

use crate::compile::code::{Bound, Code, Locals, Scope, NO_LOCALS, NUMBER};
use crate::compile::program::{Action, FactType};
use crate::facts::change::{is_alive, Removal};
use crate::memory::{Address, Full};
use crate::step::{Step, CALL_FIRED, FIRED};

impl Step<'_> {
    /// Fires a rule for the bound facts.
    pub fn fire(&mut self, number: u32, bound: &mut Bound) -> Result<(), Full> {
        self.words.set64(FIRED, self.words.get64(FIRED) + 1)?;
        self.words.set(CALL_FIRED, self.words.get(CALL_FIRED) + 1)?;
        let rule = &self.program.rules[number as usize];
        let mut values;
        let locals = if rule.has_locals {
            values = self.locals(rule, bound);
            for action in &rule.actions {
                if let Action::Let { local, code } = action {
                    values[*local as usize] = self.value(code, bound, &values);
                }
            }
            &values
        } else {
            &NO_LOCALS
        };
        if let Some((action, field)) = self.misfit(&rule.actions, bound, locals) {
            return self.notify_failure(number, action, field);
        }
        for (place, fact) in self.scratch.current.iter_mut().zip(bound.iter()).take(rule.slots.len()) {
            *place = (*fact, self.words.get64(*fact + NUMBER));
        }
        for (position, action) in rule.actions.iter().enumerate() {
            match action {
                Action::Let { .. } => {}
                Action::Assert { ty, values } => {
                    self.scratch.cells.clear();
                    self.fill(values, bound, locals);
                    self.insert(*ty, self.clock())?;
                }
                Action::Modify { slot, ty, values, is_last } => {
                    let (fact, fact_number) = self.scratch.current[*slot as usize];
                    if !is_alive(self.words, fact, fact_number) {
                        continue;
                    }
                    let fact_type = &self.program.types[*ty];
                    self.scratch.cells.clear();
                    self.fill(values, bound, locals);
                    let changed = self.changed_fields(fact_type, fact, values.iter().map(|(field, _)| *field));
                    let modified = if *is_last && self.renew(*ty, fact, changed)? {
                        fact
                    } else {
                        self.copy_others(fact_type, fact, values);
                        self.replace(*ty, fact, changed)?
                    };
                    self.scratch.current[*slot as usize] = (modified, self.words.get64(modified + NUMBER));
                }
                Action::Retract { slot } => {
                    let (fact, fact_number) = self.scratch.current[*slot as usize];
                    if is_alive(self.words, fact, fact_number) {
                        self.remove(rule.slots[*slot as usize].ty, fact, Removal::Retraction)?;
                    }
                }
                Action::Notify { values, .. } => {
                    self.notify(number, position as u32, values, bound, locals)?;
                }
            }
        }
        Ok(())
    }

    fn value(&self, code: &Code, bound: &Bound, locals: &Locals) -> Option<u64> {
        code.value(Scope { words: self.words, bound, locals })
    }

    /// Sets the fields of the fact to insert that an action gives.
    fn fill(&mut self, values: &[(u8, Code)], bound: &Bound, locals: &Locals) {
        for (field, code) in values {
            let value = self.value(code, bound, locals);
            self.scratch.cells.set(*field as usize, value);
        }
    }

    /// Gives the fact to insert the fields of another that an action does not give.
    fn copy_others(&mut self, ty: &FactType, fact: Address, values: &[(u8, Code)]) {
        for field in 0..ty.fields.len() {
            if values.iter().all(|(given, _)| usize::from(*given) != field) {
                self.scratch.cells.set(field, ty.cell(self.words, fact, field));
            }
        }
    }

    /// Returns the position of the first action that would store a value which its field does not take, and the field.
    fn misfit(&self, actions: &[Action], bound: &Bound, locals: &Locals) -> Option<(u32, u32)> {
        for (position, action) in actions.iter().enumerate() {
            let (Action::Assert { ty, values } | Action::Modify { ty, values, .. }) = action else { continue };
            for (field, code) in values {
                // Constants were checked when the rules were compiled.
                if matches!(code, Code::Constant(_)) {
                    continue;
                }
                let declared = &self.program.types[*ty].fields[*field as usize];
                let is_simple = matches!(code, Code::Field { bit: 0, .. });
                if is_simple && declared.domain == crate::compile::program::Domain::Any {
                    continue;
                }
                let fits = match self.value(code, bound, locals) {
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
}
