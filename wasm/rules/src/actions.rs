//! What a firing does.
//!
//! All values are those of the facts as the conditions found them. A fact that an earlier action of the firing removed is neither
//! modified nor retracted. If a value does not fit its field, the firing changes nothing and reports that.

use crate::compile::code::{Bound, Code, Kind, Locals, Scope, NUMBER, SLOTS, TIME};
use crate::compile::program::{Action, FactType};
use crate::facts::{is_alive, Cells};
use crate::memory::{Address, Full};
use crate::step::{Step, CALL_FIRED, FIRED};

impl Step<'_> {
    /// Fires a rule for the bound facts.
    pub fn fire(&mut self, number: u32, bound: &mut Bound) -> Result<(), Full> {
        self.words.set64(FIRED, self.words.get64(FIRED) + 1)?;
        self.words.set(CALL_FIRED, self.words.get(CALL_FIRED) + 1)?;
        let rule = &self.program.rules[number as usize];
        let mut locals = self.locals(rule, bound);
        for action in &rule.actions {
            if let Action::Let { local, code } = action {
                locals[*local as usize] = self.value(code, bound, &locals);
            }
        }
        if let Some((action, field)) = self.misfit(&rule.actions, bound, &locals) {
            return self.notify_failure(number, action, field);
        }
        // The facts as earlier actions left them.
        let mut current: [(Address, u64); SLOTS] = [(0, 0); SLOTS];
        for (place, fact) in current.iter_mut().zip(bound.iter()).take(rule.slots.len()) {
            *place = (*fact, self.words.get64(*fact + NUMBER));
        }
        for (position, action) in rule.actions.iter().enumerate() {
            match action {
                Action::Let { .. } => {}
                Action::Assert { ty, values } => {
                    let mut cells = [None; 32];
                    self.fill(&mut cells, values, bound, &locals);
                    self.insert(*ty, &cells, self.clock())?;
                }
                Action::Modify { slot, ty, values } => {
                    let (fact, fact_number) = current[*slot as usize];
                    if !is_alive(self.words, fact, fact_number) {
                        continue;
                    }
                    let mut cells = self.cells(&self.program.types[*ty], fact);
                    self.fill(&mut cells, values, bound, &locals);
                    let time = self.words.get64(fact + TIME) as i64;
                    self.remove(*ty, fact, true)?;
                    let modified = self.insert(*ty, &cells, time)?;
                    current[*slot as usize] = (modified, self.words.get64(modified + NUMBER));
                }
                Action::Retract { slot } => {
                    let (fact, fact_number) = current[*slot as usize];
                    if is_alive(self.words, fact, fact_number) {
                        self.remove(rule.slots[*slot as usize].ty, fact, true)?;
                    }
                }
                Action::Notify { values, .. } => {
                    let mut given: [(Kind, Option<u64>); 32] = [(Kind::Integer, None); 32];
                    for (place, (_, kind, code)) in given.iter_mut().zip(values) {
                        *place = (*kind, self.value(code, bound, &locals));
                    }
                    self.notify(number, position as u32, &given[..values.len()])?;
                }
            }
        }
        Ok(())
    }

    fn value(&self, code: &Code, bound: &Bound, locals: &Locals) -> Option<u64> {
        code.value(Scope { words: self.words, bound, locals })
    }

    fn fill(&self, cells: &mut Cells, values: &[(u8, Code)], bound: &Bound, locals: &Locals) {
        for (field, code) in values {
            cells[*field as usize] = self.value(code, bound, locals);
        }
    }

    /// Returns the values of a fact.
    pub fn cells(&self, ty: &FactType, fact: Address) -> Cells {
        let mut cells = [None; 32];
        for (field, cell) in cells.iter_mut().enumerate().take(ty.fields.len()) {
            *cell = ty.cell(self.words, fact, field);
        }
        cells
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
