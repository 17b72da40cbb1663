//! Operations that fire rules, each as a whole or not at all.

use be_tree_index::term::Writer;
use be_tree_rules::input::Facts;
use be_tree_rules::{Arrival, Call, Engine, Error, EventTime, Kind, Pause, Turn, GROUP};
use js_sys::{Array, Object};
use wasm_bindgen::JsValue;

use crate::refusal::{refusal, refusal_at};
use crate::results;

/// The change of an operation before its last firings.
pub(crate) enum Change<'c> {
    /// Inserts the facts that [`encode`] wrote.
    Assert(&'c [u8]),
    /// Retracts a fact.
    Retract(u64),
    /// Moves the event time of sources.
    Reach(EventTime<'c>),
}

/// What an operation inserted.
#[derive(Default)]
pub(crate) struct Inserted {
    /// The numbers of the facts, in the order of the list.
    pub ids: Vec<u64>,
    /// The number of misfit values that count as undefined.
    pub mismatches: u64,
}

/// The cause that ends an operation early.
enum Stop {
    /// An error, and the position of its fact in the list.
    Refused(Option<usize>, Error),
    /// The limit on firings.
    Firings,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(None, error)
    }
}

/// Writes facts in the form that [`Facts::read`] reads.
pub(crate) fn encode(facts: &Array, source: Option<&str>) -> Vec<u8> {
    let mut term = Vec::new();
    let mut writer = Writer::new(&mut term);
    if let Some(source) = source {
        writer.tuple(3);
        writer.binary(source.as_bytes());
        // The time of the source is that of its facts.
        writer.end_list();
    }
    writer.list(facts.length() as usize);
    facts.iter().filter_map(|fact| fact.as_string()).for_each(|fact| writer.binary(fact.as_bytes()));
    writer.end_list();
    term
}

/// Makes a change in a transaction, fires the rules that are due, and returns the results. An error rolls everything back.
pub(crate) fn operate(engine: &mut Engine, change: Change) -> Result<Object, JsValue> {
    // This also commits the operation before.
    engine.begin_transaction().map_err(refusal)?;
    let made = engine.begin(Call::Fire, 0).map_err(Stop::from).and_then(|()| make(engine, change));
    let inserted = made.map_err(|stop| {
        let refused = match stop {
            Stop::Refused(position, error) => refusal_at(error, position),
            Stop::Firings => refusal(too_many_firings(engine)),
        };
        engine.roll_back();
        refused
    })?;
    Ok(results::page(engine, &inserted))
}

fn make(engine: &mut Engine, change: Change) -> Result<Inserted, Stop> {
    let inserted = match change {
        Change::Assert(input) => insert(engine, input)?,
        Change::Retract(id) => {
            engine.retract(id)?;
            Inserted::default()
        }
        Change::Reach(event_time) => {
            engine.clock().check(event_time)?;
            let time = engine.clock().after(event_time);
            turns(engine, |engine| engine.turn_to(time))?;
            engine.reach(event_time)?;
            Inserted::default()
        }
    };
    turns(engine, Engine::turn)?;
    Ok(inserted)
}

fn insert(engine: &mut Engine, input: &[u8]) -> Result<Inserted, Stop> {
    let facts = Facts::read(engine, input, 0, false, i64::MAX).map_err(|(at, error)| Stop::Refused(at, error))?;
    let source = facts.source(input);
    let mut ids = Vec::with_capacity(facts.len());
    for position in 0..facts.len() {
        if facts.len() > 1 && position.is_multiple_of(GROUP) {
            facts.announce(engine, position);
        }
        let fact = facts.get(engine, position, input);
        let time = engine.clock().after_arrival(fact.time, source);
        let refused = |error| Stop::Refused(Some(position), error);
        turns(engine, |engine| engine.turn_to(time)).map_err(|stop| match stop {
            Stop::Refused(_, error) => refused(error),
            Stop::Firings => Stop::Firings,
        })?;
        let values = &fact.values[..fact.count];
        let arrival = Arrival { ty: fact.ty, time: fact.time, values, source, position: position as u32 + 1 };
        ids.push(engine.insert(arrival).map_err(refused)?);
    }
    Ok(Inserted { mismatches: facts.mismatches(ids.len()), ids })
}

/// Takes turns until nothing is left to do.
fn turns(engine: &mut Engine, turn: impl Fn(&mut Engine) -> Result<Turn, Error>) -> Result<(), Stop> {
    loop {
        match turn(engine)? {
            Turn::More => {}
            Turn::Done => return Ok(()),
            Turn::Paused(Pause::Firings) => return Err(Stop::Firings),
            // More notices than 32 bits count do not fit in memory.
            Turn::Paused(Pause::Notices) => return Err(Error::new(Kind::OutOfMemory, "too many notices").into()),
        }
    }
}

fn too_many_firings(engine: &Engine) -> Error {
    let rules: Vec<String> = engine.fired().cycle().iter().map(|rule| format!("`{rule}`")).collect();
    let message = format!(
        "the call fired {} rules, as many as the option firings allows, and was undone; its last firings were of {}: mend rules that \
         enable one another without end, or allow more firings",
        engine.progress().firings,
        rules.join(", ")
    );
    Error::new(Kind::OutOfBounds, message)
}
