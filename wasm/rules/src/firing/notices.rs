//! Notices: the messages that rules emit.
//!
//! A step appends a notice to the committed ones, and then commits the new length. A notice is its length in words, its rule, its
//! action, the number of its values, and the values: a tag, and two words, or the length and the bytes of a string.

use crate::compile::code::{Bound, Code, Kind, Locals, Scope};
use crate::compile::program::{Action, Program};
use crate::layout::{NOTICES, NOTICE_WORDS};
use crate::memory::{Address, Full, StringTable, Words};
use crate::step::Step;
use crate::value::Owned;

/// The action number of a failure notice. Its two values are the positions of the action and of the field.
const FAILED: u32 = u32::MAX;

/// A message that a rule emits.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The rule.
    pub rule: String,
    /// The name that the rule gives, or `None` for a failed firing, which would have stored a value outside its field's domain or
    /// left a required field undefined. A failed firing changes nothing.
    pub name: Option<String>,
    /// The values by name. `None` is undefined. For a failed firing: the fact type and the field.
    pub values: Vec<(String, Option<Owned>)>,
}

const UNDEFINED: u32 = 0;
const INTEGER: u32 = 1;
const FLOAT: u32 = 2;
const STRING: u32 = 3;
const BOOLEAN: u32 = 4;

/// Writes a notice to `notices`, behind the committed ones, and returns its end.
fn write(
    words: &Words,
    notices: &mut [u32],
    rule: u32,
    action: u32,
    values: impl ExactSizeIterator<Item = (Kind, Option<u64>)>,
) -> Result<u32, Full> {
    let start = words.get(NOTICE_WORDS) as usize;
    let count = values.len() as u32;
    let mut at = start + 4;
    for (kind, value) in values {
        let length = match (kind, value) {
            (Kind::String, Some(string)) => StringTable::length(words, string as Address),
            _ => 0,
        };
        let Some(room) = notices.get_mut(at..at + 3 + length.div_ceil(4)) else {
            return Err(Full::Notices((at + 3 + length.div_ceil(4) - start) as u32));
        };
        at += match (kind, value) {
            (_, None) => {
                room[0] = UNDEFINED;
                1
            }
            (Kind::String, Some(string)) => {
                (room[0], room[1]) = (STRING, length as u32);
                for (number, word) in room[2..].iter_mut().enumerate().take(length.div_ceil(4)) {
                    *word = StringTable::word(words, string as Address, number as u32);
                }
                2 + length.div_ceil(4)
            }
            (kind, Some(value)) => {
                room[0] = match kind {
                    Kind::Float => FLOAT,
                    Kind::Boolean => BOOLEAN,
                    _ => INTEGER,
                };
                (room[1], room[2]) = (value as u32, (value >> 32) as u32);
                3
            }
        };
    }
    let length = at - start;
    let Some(head) = notices.get_mut(start..start + 4) else { return Err(Full::Notices(length as u32)) };
    head.copy_from_slice(&[length as u32, rule, action, count]);
    Ok(at as u32)
}

/// Writes the notice of an action.
pub(crate) fn notify(
    step: &mut Step,
    rule: u32,
    action: u32,
    values: &[(String, Kind, Code)],
    bound: &Bound,
    locals: &Locals,
) -> Result<(), Full> {
    let Step { words, scratch, .. } = step;
    let scope = Scope { words, bound, locals };
    let values = values.iter().map(|(_, kind, code)| (*kind, code.value(scope)));
    let end = write(words, &mut scratch.notices, rule, action, values)?;
    count_notice(step, end)
}

/// Writes the notice of a failed firing.
pub(crate) fn notify_failure(step: &mut Step, rule: u32, action: u32, field: u32) -> Result<(), Full> {
    let values = [action, field].map(|number| (Kind::Integer, Some(number.into())));
    let end = write(step.words, &mut step.scratch.notices, rule, FAILED, values.into_iter())?;
    count_notice(step, end)
}

fn count_notice(step: &mut Step, end: u32) -> Result<(), Full> {
    step.words.set(NOTICE_WORDS, end)?;
    step.words.set(NOTICES, step.words.get(NOTICES) + 1)
}

/// Reads notices.
pub(crate) fn read(program: &Program, mut words: &[u32]) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let [length, rule, action, count, ..] = *words {
        let rule = &program.rules[rule as usize];
        let mut values = words[4..length as usize].iter().copied();
        let values: Vec<Option<Owned>> = (0..count).map(|_| value(&mut values)).collect();
        words = &words[length as usize..];
        if action == FAILED {
            let position = |value: &Option<Owned>| match value {
                Some(Owned::Integer(position)) => *position as usize,
                _ => 0,
            };
            let ty = match &rule.actions[position(&values[0])] {
                Action::Assert { ty, .. } | Action::Modify { ty, .. } => &program.types[*ty],
                _ => continue,
            };
            let text = |text: &str| Some(Owned::String(text.as_bytes().to_vec()));
            let values = vec![
                ("type".to_owned(), text(&ty.name)),
                ("field".to_owned(), text(&ty.fields[position(&values[1])].name)),
            ];
            notices.push(Notice { rule: rule.name.clone(), name: None, values });
        } else if let Action::Notify { name, values: declared } = &rule.actions[action as usize] {
            let names = declared.iter().map(|(name, _, _)| name.clone());
            let values = names.zip(values).collect();
            notices.push(Notice { rule: rule.name.clone(), name: Some(name.clone()), values });
        }
    }
    notices
}

fn value(words: &mut impl Iterator<Item = u32>) -> Option<Owned> {
    let tag = words.next()?;
    if tag == UNDEFINED {
        return None;
    }
    let first = words.next()?;
    if tag == STRING {
        let mut bytes: Vec<u8> = words.take(first.div_ceil(4) as usize).flat_map(u32::to_le_bytes).collect();
        bytes.truncate(first as usize);
        return Some(Owned::String(bytes));
    }
    let bits = u64::from(first) | u64::from(words.next()?) << 32;
    Some(match tag {
        FLOAT => Owned::Float(f64::from_bits(bits)),
        BOOLEAN => Owned::Boolean(bits == 1),
        _ => Owned::Integer(bits as i64),
    })
}
