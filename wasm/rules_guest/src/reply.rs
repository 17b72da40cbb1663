//! Writes results as external terms.

use be_tree_index::error::Error;
use be_tree_index::term::Writer;
use be_tree_module::memory;
use be_tree_module::refusal::Refusal;
use be_tree_rules::{Engine, Explanation, Fact, Notice, Owned, Verdict};

/// The reason for which an operation returned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing is left to do.
    #[default]
    Done,
    /// The limit on firings is reached, and a rule is due.
    Firings,
    /// The limit on pending notices is reached, and a rule is due.
    Notices,
    /// The engine lacks room.
    Room,
}

impl Reason {
    /// Returns whether the notices stay pending until the operation, or the next one, continues.
    pub fn keeps_notices(self) -> bool {
        self == Reason::Room
    }
}

/// Converts an error of the engine to a refusal.
pub(crate) fn refusal(error: be_tree_rules::Error) -> Refusal {
    let column = error.place.as_ref().map(|place| place.column).or(error.column);
    let line = error.place.map(|place| (place.line, place.text.clone()));
    let error = Error { kind: error.kind, message: error.message.into_owned(), attribute: error.name, column };
    Refusal { error, position: None, line }
}

/// The facts that an operation inserted.
pub(crate) struct Inserted<'a> {
    /// Their numbers.
    pub ids: &'a [u64],
    /// The number of misfit values that count as undefined.
    pub mismatches: u64,
}

/// Writes `{Reason, Position, Firings, LastRule, NextDue, Ids, Notices, Mismatches, Late}`: the number of the reason, the position of the next
/// fact, the rule that fired last, a binary or `[]`, the time at which a window closes next or `[]`, the packed numbers of the inserted
/// facts, the notices, the number of values that count as undefined because they do not fit, and the number of facts that came too late. Notices of an operation that lacks room wait. The outcome has no atoms, because the VM looks each up when it
/// reads them.
pub(crate) fn outcome(engine: &Engine, reason: Reason, position: u32, inserted: Inserted, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.tuple(9);
    writer.unsigned(match reason {
        Reason::Done => 0,
        Reason::Firings => 1,
        Reason::Notices => 2,
        Reason::Room => 3,
    });
    writer.unsigned(position.into());
    let progress = engine.progress();
    writer.unsigned(progress.firings.into());
    match engine.fired().last_rule().filter(|_| progress.firings > 0) {
        Some(rule) => writer.binary(rule.as_bytes()),
        None => writer.end_list(),
    }
    match engine.clock().next_due() {
        Some(time) => writer.integer(time),
        None => writer.end_list(),
    }
    let packed: Vec<u8> = inserted.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    writer.binary(&packed);
    let notices = if reason.keeps_notices() { Vec::new() } else { engine.fired().notices() };
    writer.list(notices.len());
    notices.iter().for_each(|each| notice(each, &mut writer));
    writer.end_list();
    writer.unsigned(inserted.mismatches);
    writer.unsigned(progress.late.into());
}

/// Writes `{Rule, Name, Values}`: the name a binary, or `nil` if the firing failed, and the values a map.
fn notice(notice: &Notice, writer: &mut Writer) {
    writer.tuple(3);
    writer.binary(notice.rule.as_bytes());
    match &notice.name {
        Some(name) => writer.binary(name.as_bytes()),
        None => writer.atom("nil"),
    }
    values(&notice.values, writer);
}

fn values(values: &[(String, Option<Owned>)], writer: &mut Writer) {
    writer.map(values.len());
    for (name, value) in values {
        writer.binary(name.as_bytes());
        match value {
            None => writer.atom("nil"),
            Some(Owned::Integer(integer)) => writer.integer(*integer),
            Some(Owned::Float(float)) => writer.float(*float),
            Some(Owned::Boolean(boolean)) => writer.boolean(*boolean),
            Some(Owned::String(bytes)) => writer.binary(bytes),
        }
    }
}

/// Writes the packed route of each fact: its partition as `u32`, with [`ALL`] for all, its start in the input and its bytes, both `u32`, 1
/// or 0 as `u32` if it has a time or not, and the time as `i64`.
pub(crate) fn routes(routes: &[Route], out: &mut Vec<u8>) {
    let packed: Vec<u8> = routes.iter().flat_map(packed).collect();
    Writer::new(out).binary(&packed);
}

/// A fact with its partition.
pub(crate) struct Route {
    pub partition: Option<u32>,
    pub start: usize,
    pub length: usize,
    pub time: Option<i64>,
}

/// The code for a fact that goes to all partitions.
const ALL: u32 = u32::MAX;

fn packed(route: &Route) -> [u8; 24] {
    let mut packed = [0; 24];
    let words =
        [route.partition.unwrap_or(ALL), route.start as u32, route.length as u32, u32::from(route.time.is_some())];
    for (place, word) in packed.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    packed[16..].copy_from_slice(&route.time.unwrap_or(0).to_le_bytes());
    packed
}

/// Writes `{More, Facts}`: 1 if there are more facts, otherwise 0, and a list of `{Id, Type, At, Fields}`.
pub(crate) fn facts(count: usize, is_more: bool, facts: impl Iterator<Item = Fact>, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.tuple(2);
    writer.unsigned(is_more.into());
    writer.list(count);
    facts.for_each(|each| fact(&each, &mut writer));
    writer.end_list();
}

fn list_of_facts(facts: &[Fact], writer: &mut Writer) {
    writer.list(facts.len());
    facts.iter().for_each(|each| fact(each, writer));
    writer.end_list();
}

fn fact(fact: &Fact, writer: &mut Writer) {
    writer.tuple(4);
    writer.unsigned(fact.id);
    writer.binary(fact.ty.as_bytes());
    writer.integer(fact.at);
    values(&fact.fields, writer);
}

/// Writes `{Floor, [{Source, Time}]}`: the event time that all sources have reached, or `nil`, and the event time of each source.
/// Facts without a source have the source `nil`.
pub(crate) fn sources(floor: Option<i64>, sources: &[(Option<Vec<u8>>, i64)], out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.tuple(2);
    time(floor, &mut writer);
    writer.list(sources.len());
    for (name, at) in sources {
        writer.tuple(2);
        match name {
            Some(name) => writer.binary(name),
            None => writer.atom("nil"),
        }
        writer.integer(*at);
    }
    writer.end_list();
}

/// Writes a list of `{Verdict, Facts}`. A verdict is `fired`, `due`, `unknown`, `{waits, Until}` or `{blocked, Line, Text, Fact}` with
/// a fact or `nil`.
pub(crate) fn explanations(explanations: &[Explanation], out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.list(explanations.len());
    for Explanation { facts, verdict } in explanations {
        writer.tuple(2);
        match verdict {
            Verdict::Fired => writer.atom("fired"),
            Verdict::Due => writer.atom("due"),
            Verdict::Unknown => writer.atom("unknown"),
            Verdict::Waits(until) => {
                writer.tuple(2);
                writer.atom("waits");
                writer.integer(*until);
            }
            Verdict::Blocked { line, text, by } => {
                writer.tuple(4);
                writer.atom("blocked");
                writer.unsigned(*line as u64);
                writer.binary(text.as_bytes());
                match by {
                    Some(by) => fact(by, &mut writer),
                    None => writer.atom("nil"),
                }
            }
        }
        list_of_facts(facts, &mut writer);
    }
    writer.end_list();
}

/// Writes the list of warnings of the rules, binaries.
pub(crate) fn warnings(engine: &Engine, out: &mut Vec<u8>) {
    list_of_warnings(engine, &mut Writer::new(out));
}

fn list_of_warnings(engine: &Engine, writer: &mut Writer) {
    let warnings = engine.rules().warnings();
    writer.list(warnings.len());
    warnings.iter().for_each(|warning| writer.binary(warning.as_bytes()));
    writer.end_list();
}

/// Writes a list of `{Name, Integer}`;
/// of the times, `{now, nil}`, `{latest, nil}` and `{next_due, nil}` if there are none; `{warnings, [Binary]}`; and last `{types, [{Type, Count, Life}]}`, with the milliseconds after which a fact is dropped, or `nil`.
pub(crate) fn info(engine: &Engine, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    let (counts, clock, types) = (engine.counts(), engine.clock(), engine.types());
    let counts = [
        ("rules", engine.rules().names().len() as u64),
        ("facts", counts.facts.into()),
        ("asserted", counts.asserted),
        ("firings", counts.firings),
        ("notices", counts.notices.into()),
        ("due", engine.is_busy().into()),
        ("facts_bytes", counts.used_bytes as u64),
        ("memory_bytes", memory::bytes()),
        ("late", counts.late),
        ("waiting", counts.waiting.into()),
        ("lateness", clock.lateness() as u64),
    ];
    let now = (clock.now() > i64::MIN).then(|| clock.now());
    writer.list(counts.len() + 5);
    for (name, count) in counts {
        writer.tuple(2);
        writer.atom(name);
        writer.unsigned(count);
    }
    for (name, time) in [("now", now), ("latest", clock.latest()), ("next_due", clock.next_due())] {
        writer.tuple(2);
        writer.atom(name);
        self::time(time, &mut writer);
    }
    writer.tuple(2);
    writer.atom("warnings");
    list_of_warnings(engine, &mut writer);
    writer.tuple(2);
    writer.atom("types");
    writer.list(types.names().len());
    for (ty, name) in types.names().enumerate() {
        writer.tuple(3);
        writer.binary(name.as_bytes());
        writer.unsigned(engine.stored().count(name).unwrap_or(0).into());
        time(types.life(ty), &mut writer);
    }
    writer.end_list();
    writer.end_list();
}

/// Writes `{Time, Rules}`: the time that a roll-back restores, or `[]`, and the rules that fired repeatedly before it, binaries.
pub(crate) fn rolled_back(time: Option<i64>, cycle: &[String], out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.tuple(2);
    match time {
        Some(time) => writer.integer(time),
        None => writer.end_list(),
    }
    writer.list(cycle.len());
    cycle.iter().for_each(|rule| writer.binary(rule.as_bytes()));
    writer.end_list();
}

/// Writes milliseconds, or `nil`.
fn time(time: Option<i64>, writer: &mut Writer) {
    match time {
        Some(time) => writer.integer(time),
        None => writer.atom("nil"),
    }
}
