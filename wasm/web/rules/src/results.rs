//! Results as objects of JavaScript.

use be_tree_rules::{Engine, Error, Explanation, Fact, Notice, Verdict};
use js_sys::{Array, Object};
use wasm_bindgen::JsValue;

use crate::operation::Inserted;
use crate::values::{by_name, count, memory_bytes, object, optional, time, total};

/// Returns the results of an operation, with its notices, which leave the engine.
pub(crate) fn page(engine: &mut Engine, inserted: &Inserted) -> Object {
    let notices = engine.take_notices();
    let progress = engine.progress();
    let last_rule = engine.fired().last_rule().filter(|_| progress.firings > 0);
    object([
        ("notices", notices.iter().map(notice).collect::<Array>().into()),
        ("ids", inserted.ids.iter().map(|id| total(*id)).collect::<Array>().into()),
        ("firings", progress.firings.into()),
        ("mismatches", total(inserted.mismatches)),
        ("late", progress.late.into()),
        ("lastRule", optional(last_rule, JsValue::from)),
        ("nextDue", optional(engine.clock().next_due(), time)),
    ])
}

fn notice(notice: &Notice) -> JsValue {
    object([
        ("rule", notice.rule.as_str().into()),
        ("name", optional(notice.name.as_deref(), JsValue::from)),
        ("values", by_name(&notice.values)),
    ])
    .into()
}

/// Returns at most `limit` facts of a type, newest first, those numbered below `before`.
pub(crate) fn facts(engine: &Engine, ty: &str, before: u64, limit: usize) -> Result<Array, Error> {
    let ty = engine.types().find(ty)?;
    let (_, _, facts) = engine.stored().page(ty, before, limit, usize::MAX);
    Ok(facts.map(|each| fact(&each)).collect())
}

fn fact(fact: &Fact) -> JsValue {
    object([
        ("id", total(fact.id)),
        ("type", fact.ty.as_str().into()),
        ("at", time(fact.at)),
        ("fields", by_name(&fact.fields)),
    ])
    .into()
}

/// Returns the name and the time of each source. A time that all sources have reached counts for each.
pub(crate) fn sources(engine: &Engine) -> Array {
    let clock = engine.clock();
    let floor = clock.floor().unwrap_or(i64::MIN);
    let source = |(name, at): (Option<Vec<u8>>, i64)| -> JsValue {
        let name = optional(name, |name| String::from_utf8_lossy(&name).as_ref().into());
        [name, time(at.max(floor))].into_iter().collect::<Array>().into()
    };
    clock.sources().into_iter().map(source).collect()
}

/// Returns explanations.
pub(crate) fn explanations(explanations: &[Explanation]) -> Array {
    explanations.iter().map(explanation).collect()
}

fn explanation(Explanation { facts, verdict }: &Explanation) -> JsValue {
    let none = || JsValue::NULL;
    let (name, until, line, condition, by) = match verdict {
        Verdict::Fired => ("fired", none(), none(), none(), none()),
        Verdict::Due => ("due", none(), none(), none(), none()),
        Verdict::Unknown => ("unknown", none(), none(), none(), none()),
        Verdict::Waits(until) => ("waits", time(*until), none(), none(), none()),
        Verdict::Blocked { line, text, by } => {
            // The first condition of a rule begins after this keyword.
            let condition = text.strip_prefix("when").unwrap_or(text).trim();
            ("blocked", none(), count(*line), condition.into(), optional(by.as_ref(), fact))
        }
    };
    object([
        ("verdict", name.into()),
        ("facts", facts.iter().map(fact).collect::<Array>().into()),
        ("until", until),
        ("line", line),
        ("condition", condition),
        ("by", by),
    ])
    .into()
}

/// Returns texts.
pub(crate) fn strings(texts: &[String]) -> Array {
    texts.iter().map(|text| JsValue::from(text.as_str())).collect()
}

/// Returns counts and sizes.
pub(crate) fn info(engine: &Engine) -> Object {
    let (counts, clock, types) = (engine.counts(), engine.clock(), engine.types());
    let now = (clock.now() > i64::MIN).then(|| clock.now());
    let stored = types.names().map(|name| (name, engine.stored().count(name).unwrap_or(0).into()));
    let lives = types.names().enumerate().filter_map(|(ty, name)| Some((name, time(types.life(ty)?))));
    object([
        ("rules", count(engine.rules().names().len())),
        ("facts", counts.facts.into()),
        ("types", object(stored).into()),
        ("lives", object(lives).into()),
        ("asserted", total(counts.asserted)),
        ("firings", total(counts.firings)),
        ("late", total(counts.late)),
        ("waiting", counts.waiting.into()),
        ("lateness", time(clock.lateness())),
        ("now", optional(now, time)),
        ("latest", optional(clock.latest(), time)),
        ("nextDue", optional(clock.next_due(), time)),
        ("factsBytes", count(counts.used_bytes)),
        ("memoryBytes", memory_bytes()),
    ])
}
