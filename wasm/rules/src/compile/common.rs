//! Common subexpressions: what the actions of a rule compute several times gets a `let`, as if the text had one.

use std::collections::HashMap;

use crate::compile::code::{Code, SLOTS};
use crate::compile::program::Action;

/// The least number of parts of expressions that such a `let` saves. It costs some itself, also in a firing that does not need it.
const LEAST_SAVED: usize = 6;

/// Gives the parts that save most a `let`, as long as the rule has locals left. `locals` is the number of locals.
pub(super) fn share(actions: &mut Vec<Action>, locals: &mut u8) {
    while usize::from(*locals) < SLOTS {
        let Some(part) = most_repeated(actions) else { return };
        let local = *locals;
        *locals += 1;
        let mut first = actions.len();
        for (position, action) in actions.iter_mut().enumerate().rev() {
            action.change(|code| {
                if code.replace(&part, local) {
                    first = position;
                }
            });
        }
        // Before its first use, the part's own locals have their values.
        actions.insert(first, Action::Let { local, code: part });
    }
}

/// Returns the part of actions that saves most if it is computed once, the first one of equals.
fn most_repeated(actions: &[Action]) -> Option<Code> {
    let mut parts: Vec<(&Code, usize)> = Vec::new();
    let mut known: HashMap<&Code, usize> = HashMap::new();
    let mut count = |part| {
        let place = *known.entry(part).or_insert(parts.len());
        match parts.get_mut(place) {
            Some((_, times)) => *times += 1,
            None => parts.push((part, 1)),
        }
    };
    for action in actions {
        action.visit(|code| code.visit(&mut count));
    }
    let repeated = parts.into_iter().filter(|(_, times)| *times > 1);
    let saved = repeated.map(|(part, times)| ((times - 1) * (part.size() - 1), part));
    let most = saved.rev().max_by_key(|(saved, _)| *saved)?;
    (most.0 >= LEAST_SAVED).then(|| most.1.clone())
}
