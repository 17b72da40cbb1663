//! Writes results as external terms.

use be_tree_index::index::Info;
use be_tree_index::term::Writer;

use crate::memory;
use crate::state::Refusal;

/// Writes `{Kind, Message, Attribute, Column, Position}`.
pub(crate) fn error(refusal: &Refusal, out: &mut Vec<u8>) {
    let Refusal { error, position } = refusal;
    let mut writer = Writer::new(out);
    writer.tuple(5);
    writer.atom(error.kind.name());
    writer.binary(error.message.as_bytes());
    match &error.attribute {
        Some(attribute) => writer.binary(attribute.as_bytes()),
        None => writer.atom("nil"),
    }
    for number in [error.column, *position] {
        match number {
            Some(number) => writer.unsigned(number as u64),
            None => writer.atom("nil"),
        }
    }
}

/// Writes a list of `{Name, Integer}`.
pub(crate) fn info(info: &Info, out: &mut Vec<u8>) {
    let pairs = [
        ("expressions", info.expressions),
        ("predicates", info.predicates),
        ("strings", info.strings),
        ("nodes", info.nodes),
        ("entries", info.entries),
        ("unindexed", info.unindexed),
        ("depth", info.depth),
        ("code_bytes", info.code_bytes),
    ];
    let mut writer = Writer::new(out);
    writer.list(pairs.len() + 1);
    let pairs = pairs.into_iter().map(|(name, number)| (name, number as u64));
    for (name, number) in pairs.chain([("memory_bytes", memory::bytes())]) {
        writer.tuple(2);
        writer.atom(name);
        writer.unsigned(number);
    }
    writer.end_list();
}
