//! Checks that rules can be partitioned: all facts that a rule joins must have the same key, so that they lie in one partition.
//!
//! Equal keys follow from the equalities of key fields in the conditions, and from their transitive closure. Facts that a rule
//! inserts or modifies must keep the key of its conditions. A fact type without a key has its facts in every partition: no rule may
//! change them, and a rule over such facts alone is refused because it would fire in every partition.

use std::collections::HashMap;

use crate::compile::code::{Code, Kind, Relation, OWN};
use crate::compile::plans::RawGuard;
use crate::compile::program::{Action, FactType, Slot, TypeNames};
use crate::compile::resolve::unknown;
use crate::error::{self, quoted, Error};
use crate::keys::{By, Keys};
use crate::language::{self, Offset};
use crate::layout::field_offset;

/// Returns the keys of fact types.
pub(super) fn keys(by: &By, facts: &[language::FactType], types: &[FactType], text: &str) -> Result<Keys, Error> {
    let mut keys = Vec::with_capacity(types.len());
    let mut fields: HashMap<&str, &Option<String>> = HashMap::new();
    if let By::Types(named) = by {
        let type_names = TypeNames::new(types);
        for (name, field) in named {
            fields.entry(name).or_insert(field);
            if type_names.find(types, name).is_none() {
                return Err(unknown(name, "fact type of these rules", types.iter().map(|ty| ty.name.as_str())));
            }
        }
    }
    for (ty, declared) in types.iter().zip(facts) {
        let place = |error: Error| error.about(&ty.name).at(text, declared.name.at);
        let field = match by {
            By::Field(field) => Some(field),
            By::Types(_) => match fields.get(ty.name.as_str()) {
                Some(field) => field.as_ref(),
                None => {
                    let message = format!(
                        "the partitions need the key of `{0}`; give `{0}` one of its fields, or :all to have its facts in every \
                         partition",
                        ty.name
                    );
                    return Err(place(Error::new(error::Kind::MissingAttribute, message)));
                }
            },
        };
        let Some(name) = field else {
            keys.push(None);
            continue;
        };
        let Some(number) = ty.fields.iter().position(|field| field.name == *name) else {
            if let By::Field(_) = by {
                let message = format!(
                    "`{}` has no field {}, the key of the partitions; give a map with the key of each fact type, or :all for \
                     a type whose facts are in every partition",
                    ty.name,
                    quoted(name)
                );
                return Err(place(Error::new(error::Kind::MissingAttribute, message)));
            }
            let of = format!("field of `{}`", ty.name);
            return Err(unknown(name, &of, ty.fields.iter().map(|field| field.name.as_str())));
        };
        if ty.fields[number].kind == Kind::Float {
            let message = format!("`{name}` of `{}` is a float, which is no key; take another field", ty.name);
            return Err(place(Error::new(error::Kind::Type, message)));
        }
        keys.push(Some(number as u8));
    }
    if keys.iter().all(Option::is_none) {
        let message = "no fact type has a key, so every fact would be in every partition; give one a key, or leave the partitions out";
        return Err(Error::new(error::Kind::MissingAttribute, message));
    }
    Ok(keys)
}

/// A rule whose conditions are compiled.
pub(super) struct Candidate<'a> {
    pub text: &'a str,
    pub rule: &'a language::Rule,
    pub types: &'a [FactType],
    pub keys: &'a Keys,
    pub slots: &'a [Slot],
    /// The names of the slots that have one.
    pub names: Vec<(u8, &'a str)>,
    pub conjuncts: &'a [Code],
    pub guards: &'a [RawGuard],
    pub actions: &'a [Action],
}

impl Candidate<'_> {
    /// Checks that the rule finds the same matches and makes the same changes in partitions as in one engine.
    ///
    /// Errors: `out_of_bounds`, at the condition or action.
    pub fn check(&self) -> Result<(), Error> {
        let rule = &self.rule.name.text;
        let keyed = (0..self.slots.len() as u8).find(|slot| self.keys[self.slots[usize::from(*slot)].ty].is_some());
        let Some(first) = keyed else {
            let message = format!(
                "no condition of the rule `{rule}` binds a fact with a key, so the rule would fire in every partition; add one, or \
                 give one of its fact types a key"
            );
            return Err(self.error(message, self.rule.name.at));
        };
        let mut classes = self.classes();
        let of = classes.of_slot(first);
        let facts = self.slots.iter().map(|slot| (slot.ty, slot.place)).enumerate();
        let guards = self.guards.iter().map(|guard| (guard.ty, guard.place)).enumerate();
        let guards = guards.map(|(guard, about)| (self.slots.len() + guard, about));
        for (node, (ty, place)) in facts.chain(guards) {
            let Some(key) = self.keys[ty] else { continue };
            if classes.find(node) == of {
                continue;
            }
            let message = format!(
                "the rule `{rule}` joins `{}` with `{}`, but does not say that their keys are equal, so they may lie in different \
                 partitions; add `{} = {}` to this condition",
                self.types[ty].name,
                self.types[self.slots[usize::from(first)].ty].name,
                self.types[ty].fields[usize::from(key)].name,
                self.key_of(first),
            );
            return Err(self.error(message, place as Offset));
        }
        for (action, compiled) in self.rule.actions.iter().zip(self.actions) {
            self.action(action, compiled, first, &mut classes)?;
        }
        Ok(())
    }

    /// Returns the classes of equal keys. Members are the slots, then the guards.
    fn classes(&self) -> Classes {
        let mut classes =
            Classes { parents: (0..self.slots.len() + self.guards.len()).collect(), constants: HashMap::new() };
        for code in self.conjuncts {
            self.join(code, None, &mut classes);
        }
        for (number, guard) in self.guards.iter().enumerate() {
            for code in &guard.conjuncts {
                self.join(code, Some(number), &mut classes);
            }
        }
        classes
    }

    /// Merges the classes of two keys that a test equates.
    fn join(&self, code: &Code, guard: Option<usize>, classes: &mut Classes) {
        let Code::Compare(kind, Relation::Equal, left, right) = code else { return };
        match [self.key(left, guard), self.key(right, guard)] {
            [Some(left), Some(right)] => classes.join(left, right),
            [Some(node), None] => classes.join_constant(node, *kind, right),
            [None, Some(node)] => classes.join_constant(node, *kind, left),
            [None, None] => {}
        }
    }

    /// Returns the slot or guard whose key field the expression is.
    fn key(&self, code: &Code, guard: Option<usize>) -> Option<usize> {
        let Code::Field { slot, offset, .. } = code else { return None };
        let (node, ty) = match guard {
            Some(guard) if *slot == OWN => (self.slots.len() + guard, self.guards[guard].ty),
            _ => (usize::from(*slot), self.slots.get(usize::from(*slot))?.ty),
        };
        (self.keys[ty].map(|key| field_offset(key.into())) == Some(*offset)).then_some(node)
    }

    fn action(
        &self,
        action: &language::Action,
        compiled: &Action,
        first: u8,
        classes: &mut Classes,
    ) -> Result<(), Error> {
        let (ty, values, verb, is_new) = match compiled {
            Action::Assert { ty, values } => (*ty, &values[..], "inserts", true),
            Action::Modify { ty, values, .. } => (*ty, &values[..], "modifies", false),
            Action::Retract { slot } => (self.slots[usize::from(*slot)].ty, &[][..], "retracts", false),
            Action::Notify { .. } | Action::Let { .. } => return Ok(()),
        };
        let place = match action {
            language::Action::Assert(name, _)
            | language::Action::Modify(name, _)
            | language::Action::Retract(name)
            | language::Action::Notify(name, _)
            | language::Action::Let(name, _) => name.at,
        };
        let rule = &self.rule.name.text;
        let declared = &self.types[ty];
        let Some(key) = self.keys[ty] else {
            let message = format!(
                "the rule `{rule}` {verb} a fact of `{0}`, whose facts are in every partition; give `{0}` a key, or change its facts \
                 by calls alone",
                declared.name
            );
            return Err(self.error(message, place));
        };
        let is_kept = match values.iter().find(|(field, _)| *field == key) {
            Some((_, code)) => {
                let of = classes.of_slot(first);
                match self.key(code, None) {
                    Some(node) => classes.find(node) == of,
                    None => {
                        let kind = declared.fields[usize::from(key)].kind;
                        classes.constant(kind, code).is_some_and(|node| classes.find(node) == of)
                    }
                }
            }
            None => !is_new,
        };
        if is_kept {
            return Ok(());
        }
        let message = format!(
            "the rule `{rule}` {verb} a fact of `{}` whose key may be another one than that of its conditions, so the fact may belong \
             to another partition; write `{}: {}`",
            declared.name,
            declared.fields[usize::from(key)].name,
            self.key_of(first),
        );
        Err(self.error(message, place))
    }

    /// Returns the key of a slot in the notation of rules.
    fn key_of(&self, slot: u8) -> String {
        let ty = &self.types[self.slots[usize::from(slot)].ty];
        let key = self.keys[self.slots[usize::from(slot)].ty].map_or("at", |key| &ty.fields[usize::from(key)].name);
        match self.names.iter().find(|(named, _)| *named == slot) {
            Some((_, name)) => format!("{name}.{key}"),
            None => format!("x.{key}` after naming the condition on `{0}` as `x: {0}", ty.name),
        }
    }

    fn error(&self, message: String, at: Offset) -> Error {
        Error::new(error::Kind::OutOfBounds, message).about(&self.rule.name.text).at(self.text, at)
    }
}

/// A union-find structure over keys.
struct Classes {
    parents: Vec<usize>,
    /// A member equal to each constant. Constants of different kinds may have the same bits, so the kind is part of the key.
    constants: HashMap<(Kind, u64), usize>,
}

impl Classes {
    fn find(&mut self, mut node: usize) -> usize {
        while self.parents[node] != node {
            node = self.parents[node];
        }
        node
    }

    fn of_slot(&mut self, slot: u8) -> usize {
        self.find(slot.into())
    }

    fn join(&mut self, left: usize, right: usize) {
        let (left, right) = (self.find(left), self.find(right));
        self.parents[left] = right;
    }

    fn join_constant(&mut self, node: usize, kind: Kind, code: &Code) {
        let Code::Constant(constant) = code else { return };
        match self.constant(kind, code) {
            Some(other) => self.join(node, other),
            None => {
                self.constants.insert((kind, *constant), node);
            }
        }
    }

    fn constant(&self, kind: Kind, code: &Code) -> Option<usize> {
        let Code::Constant(constant) = code else { return None };
        self.constants.get(&(kind, *constant)).copied()
    }
}
