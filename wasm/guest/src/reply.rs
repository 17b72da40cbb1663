//! Writes results as external terms.

use be_tree_index::index::Info;
use be_tree_index::model::schema::AttributeId;
use be_tree_index::search::Counts;
use be_tree_index::shard::Tenant;
use be_tree_index::term::Writer;
use be_tree_module::memory;

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
    pairs.into_iter().for_each(|(name, number)| pair(name, number as u64, &mut writer));
    pair("memory_bytes", memory::bytes(), &mut writer);
    writer.end_list();
}

/// Writes a list of `{Name, Integer}`.
pub(crate) fn tenant(tenant: &Tenant, out: &mut Vec<u8>) {
    let statistics = tenant.statistics();
    let mut writer = Writer::new(out);
    writer.list(6);
    pair("expressions", tenant.index().len() as u64, &mut writer);
    pair("index_bytes", tenant.index().bytes() as u64, &mut writer);
    pair("statistics_bytes", statistics.bytes() as u64, &mut writer);
    pair("events", statistics.events(), &mut writer);
    pair("sealed", statistics.sealed_days() as u64, &mut writer);
    writer.tuple(2);
    writer.atom("day");
    writer.integer(statistics.day().into());
    writer.end_list();
}

fn pair(name: &str, number: u64, writer: &mut Writer) {
    writer.tuple(2);
    writer.atom(name);
    writer.unsigned(number);
}

/// Writes the counts of a part of a profile as a list of tuples. Attributes are positions in the schema, or `nil`.
///
///   - a walk: `{Attribute, Lookups, Nodes}`;
///   - a scan, or dense expressions: `{Attribute, Entries, Proven, [Id]}` with the ids of the candidates;
///   - expressions: `{Id, Tests, Holds, Attribute}` with the attribute that decided.
pub(crate) fn counts(counts: &Counts, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    match counts {
        Counts::None => {}
        Counts::Walk(levels) => {
            writer.list(levels.len());
            for level in levels {
                writer.tuple(3);
                attribute(level.attribute, &mut writer);
                writer.unsigned(level.lookups);
                writer.unsigned(level.nodes);
            }
        }
        Counts::Scan(lists) => {
            writer.list(lists.len());
            for list in lists {
                writer.tuple(4);
                attribute(list.attribute, &mut writer);
                writer.unsigned(list.entries);
                writer.unsigned(list.proven);
                writer.list(list.candidates.len());
                list.candidates.iter().for_each(|&id| writer.unsigned(id));
                writer.end_list();
            }
        }
        Counts::Run(runs) => {
            writer.list(runs.len());
            for run in runs {
                writer.tuple(4);
                writer.unsigned(run.id);
                writer.unsigned(run.tests.into());
                writer.boolean(run.holds);
                attribute(run.decided_by, &mut writer);
            }
        }
    }
    writer.end_list();
}

fn attribute(attribute: Option<AttributeId>, writer: &mut Writer) {
    match attribute {
        Some(attribute) => writer.unsigned(attribute.index() as u64),
        None => writer.atom("nil"),
    }
}
