//! The state of an instance, and its operations.
//!
//! An operation that fires rules may be interrupted at any instruction. It allocates in the search arena only, and the engine
//! defers its own allocations ([`Engine::defer_memory`]). If the engine lacks room, the operation returns that reason at a point
//! where the engine is consistent; the host calls `be_tree_room`, which must not be interrupted, and continues from there.
//!
//! After an interruption the host continues the operation or begins another; the effects so far stand.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use be_tree_index::error::{Error, Kind};
use be_tree_index::term::{Kind as TermKind, Reader};
use be_tree_module::cell::Cell;
use be_tree_module::instance::Instance;
use be_tree_module::memory::{self, in_order, Mark};
use be_tree_module::outbox::{Outbox, NOTED};
use be_tree_module::port::Port;
use be_tree_module::refusal::{Outcome, Refusal};
use be_tree_rules::input::Facts;
use be_tree_rules::partitions::{By, Partitions};
use be_tree_rules::{Arrival, Call, Engine, EventTime, Limits, Pause, Turn, GROUP};

use crate::reply::{self, Reason};

/// The bytes taken from the search arena after which it is reset to the mark.
const MAX_TAKEN_BYTES: usize = 256 * 1024;

/// The bytes of a page of facts. Even a full engine has room for one page.
const PAGE_BYTES: usize = 64 * 1024;

/// An engine, its current operation, and the buffers of the ABI.
#[derive(Default)]
pub(crate) struct State {
    engine: Option<Engine>,
    partitions: Option<Partitions>,
    /// The warnings about the rules, encoded for the outbox.
    warnings: Vec<u8>,
    request: Request,
    /// The facts of the operation, and their numbers once they are inserted, in the search arena.
    facts: Facts,
    ids: Vec<u64>,
    /// The position in the search arena behind them.
    mark: Mark,
    /// Whether the reply is in the outbox. Then only the notices are left to empty, unless the reason keeps them.
    is_sent: AtomicBool,
    reason: Reason,
    port: Port,
}

/// An operation that may be interrupted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Request {
    pub call: Call,
    pub operation: Operation,
}

/// The change of a request before its firings.
#[derive(Clone, Copy, Default)]
pub(crate) enum Operation {
    #[default]
    Nothing,
    /// Inserts the facts in the inbox from a position on.
    Assert { length: usize, from: u32, latest: i64 },
    /// Retracts a fact.
    Retract(u64),
    /// Moves time.
    Advance(i64),
    /// Only fires.
    Run,
}

/// The state of this module's instance.
pub(crate) static STATE: Cell<State> = Cell::new();

impl Instance for State {
    type Request = Request;

    fn port(&mut self) -> &mut Port {
        &mut self.port
    }

    fn abandon(&mut self) {
        abandon(&mut self.facts, &mut self.ids, &mut self.engine);
    }

    fn begin_read(&mut self) {
        self.abandon();
        self.port.begin_read();
        if let Some(engine) = &mut self.engine {
            engine.recover();
        }
    }

    fn store(&mut self, request: Request) {
        self.request = request;
        self.is_sent.store(false, Relaxed);
    }

    fn advance(&mut self) -> Outcome {
        if self.port.outbox.progress() == NOTED {
            self.open()?;
        }
        let Some(reason) = self.run()? else { return Ok(()) };
        let State { engine, ids, facts, port, request, .. } = self;
        let engine = engine.as_ref().ok_or_else(no_rules)?;
        self.reason = reason;
        let position = engine.progress().position;
        let inserted = match request.operation {
            Operation::Assert { from, .. } => &ids[..(position - from) as usize],
            _ => &[],
        };
        let inserted = reply::Inserted { ids: inserted, mismatches: facts.mismatches(inserted.len()) };
        port.reply(|out| reply::outcome(engine, reason, position, inserted, out));
        Ok(())
    }

    fn finish(&mut self) -> i32 {
        let mut status = 0;
        if !self.is_sent.load(Relaxed) {
            status = self.reply_to_request();
            in_order();
            self.is_sent.store(status == 0, Relaxed);
            in_order();
        }
        if let (0, Some(engine)) = (status, &mut self.engine) {
            engine.recover();
            if !self.reason.keeps_notices() {
                engine.empty_notices();
            }
        }
        status
    }
}

impl State {
    /// Makes an engine from `{Text, Memory, Facts, Firings, Notices}`, optionally with the lateness, or with the number of
    /// partitions and their keys.
    pub fn rules(&mut self, length: usize) -> Outcome {
        self.warnings.clear();
        let mut reader = Reader::new(self.port.message(length)?)?;
        let arity = reader.tuple()?;
        if !(5..=7).contains(&arity) {
            let message = "rules are {Text, Memory, Facts, Firings, Notices}, that with Lateness, or that with Partitions and Keys";
            return Err(Error::new(Kind::Type, message).into());
        }
        let text = std::str::from_utf8(reader.binary()?)
            .map_err(|_| Error::new(Kind::Syntax, "the rules are not UTF-8; encode them so"))?;
        let limits = limits(&mut reader)?;
        let lateness = if arity == 6 { reader.integer()? } else { 0 };
        let partitions = if arity == 7 {
            let count = u32::try_from(reader.unsigned()?).unwrap_or(u32::MAX);
            Some((count, keys(&mut reader)?))
        } else {
            None
        };
        reader.finish()?;
        let mut engine = match partitions {
            None => Engine::new(text, limits).map_err(reply::refusal)?,
            Some((count, by)) => {
                let (engine, partitions) = Engine::partitioned(text, limits, count, &by).map_err(reply::refusal)?;
                self.partitions = Some(partitions);
                engine
            }
        };
        engine.set_lateness(lateness).map_err(reply::refusal)?;
        engine.defer_memory();
        reply::warnings(&engine, &mut self.warnings);
        self.port.outbox.send(&self.warnings);
        self.engine = Some(engine);
        Ok(())
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Outcome {
        engine(&mut self.engine)?.begin_transaction().map_err(reply::refusal)
    }

    /// Rolls back all operations since the transaction began. Replies with the time that was saved since and the rules that fired
    /// repeatedly.
    pub fn roll_back(&mut self) -> Outcome {
        let engine = engine(&mut self.engine)?;
        let cycle = engine.fired().cycle();
        let saved = engine.roll_back();
        self.port.reply(|out| reply::rolled_back(saved, &cycle, out));
        Ok(())
    }

    /// Sets the limits from `{Memory, Facts, Firings, Notices}`.
    pub fn set_limits(&mut self, length: usize) -> Outcome {
        let mut reader = Reader::new(self.port.message(length)?)?;
        let arity = reader.tuple()?;
        if arity != 4 {
            return Err(Error::new(Kind::Type, "limits are {Memory, Facts, Firings, Notices}").into());
        }
        let limits = limits(&mut reader)?;
        reader.finish()?;
        engine(&mut self.engine)?.set_limits(limits);
        Ok(())
    }

    /// Makes the room that the last operation lacked.
    pub fn room(&mut self) -> Outcome {
        engine(&mut self.engine)?.make_room().map_err(reply::refusal)
    }

    /// Begins the call, and reads its facts.
    fn open(&mut self) -> Outcome {
        let State { engine: held, facts, ids, port, request: Request { call, operation }, .. } = self;
        abandon(facts, ids, held);
        let engine = engine(held)?;
        let from = if let Operation::Assert { from, .. } = *operation { from } else { 0 };
        engine.begin(*call, from).map_err(reply::refusal)?;
        if let Operation::Assert { length, latest, .. } = *operation {
            let input = port.message(length)?;
            // Reloaded facts had all their fields when they were first read.
            *facts = Facts::read(engine, input, from as usize, call.is_quiet(), latest)
                .map_err(|(position, error)| Refusal { position, ..reply::refusal(error) })?;
            ids.try_reserve_exact(facts.len())
                .map_err(|_| Error::new(Kind::OutOfMemory, "the facts do not fit in memory; give fewer at a time"))?;
            ids.resize(facts.len(), 0);
        }
        self.mark = memory::mark();
        self.port.outbox.step();
        Ok(())
    }

    /// Runs the request until it ends or has a reason to return.
    fn run(&mut self) -> Result<Option<Reason>, Refusal> {
        let State { engine: held, facts, ids, port, request, mark, .. } = self;
        let engine = engine(held)?;
        engine.recover();
        engine.abandon_searches();
        memory::back_to(*mark);
        match request.operation {
            Operation::Nothing => return Ok(None),
            Operation::Assert { length, from, .. } => {
                let (input, outbox) = port.message_and_outbox(length)?;
                let progress = engine.progress();
                let mut inserted = (progress.position - from) as usize;
                if inserted > 0 {
                    // An interruption may have come before the number was stored.
                    ids[inserted - 1] = progress.last_asserted;
                }
                let source = facts.source(input);
                if let (0, Some(event_time)) = (inserted, facts.event_time(input)) {
                    if let Some(reason) = advance(engine, outbox, *mark, event_time)? {
                        return Ok(Some(reason));
                    }
                }
                while inserted < facts.len() {
                    if facts.len() > 1 && inserted.is_multiple_of(GROUP) {
                        facts.announce(engine, inserted);
                    }
                    let fact = facts.get(engine, inserted, input);
                    let time = engine.clock().after_arrival(fact.time, source);
                    let position = from + inserted as u32;
                    let refused = |error| Refusal { position: Some(position as usize), ..reply::refusal(error) };
                    match turns(engine, outbox, *mark, |engine| engine.turn_to(time)) {
                        Ok(None) => {}
                        Ok(stopped) => return Ok(stopped),
                        Err(error) => return Err(refused(error)),
                    }
                    let (ty, time, values) = (fact.ty, fact.time, &fact.values[..fact.count]);
                    match engine.insert(Arrival { ty, time, values, source, position: position + 1 }) {
                        Ok(id) => ids[inserted] = id,
                        Err(error) => return early(engine).map(Some).ok_or_else(|| refused(error)),
                    }
                    inserted += 1;
                    tick(engine, outbox, *mark);
                }
            }
            // The position is 1 once the fact is retracted.
            Operation::Retract(id) if engine.progress().position == 0 => {
                if let Err(error) = engine.retract(id) {
                    return early(engine).map(Some).ok_or_else(|| reply::refusal(error));
                }
                tick(engine, &port.outbox, *mark);
            }
            Operation::Advance(now) => {
                let event_time = EventTime::OfAll(now);
                engine.clock().check(event_time).map_err(reply::refusal)?;
                if let Some(reason) = advance(engine, &port.outbox, *mark, event_time)? {
                    return Ok(Some(reason));
                }
            }
            Operation::Retract(_) | Operation::Run => {}
        }
        let stopped = turns(engine, &port.outbox, *mark, Engine::turn).map_err(reply::refusal)?;
        Ok(Some(stopped.unwrap_or(Reason::Done)))
    }

    /// Checks facts, and returns the partition of each.
    pub fn route(&mut self, length: usize, latest: i64) -> Outcome {
        let State { engine, partitions, port, .. } = self;
        let engine = engine.as_ref().ok_or_else(no_rules)?;
        let partitions = partitions.as_ref().ok_or_else(no_partitions)?;
        let input = port.message(length)?;
        let facts = Facts::read(engine, input, 0, false, latest)
            .map_err(|(position, error)| Refusal { position, ..reply::refusal(error) })?;
        let spans = Facts::spans(input).map_err(reply::refusal)?;
        let routes = spans.into_iter().enumerate().map(|(position, (start, length))| {
            let fact = facts.get(engine, position, input);
            let partition = partitions.of(fact.ty, &fact.values[..fact.count]);
            reply::Route { partition, start, length, time: fact.time }
        });
        let routes: Vec<_> = routes.collect();
        port.reply(|out| reply::routes(&routes, out));
        Ok(())
    }

    pub fn facts(&mut self, length: usize, before: u64, most: usize) -> Outcome {
        let State { engine, port, .. } = self;
        let engine = engine.as_ref().ok_or_else(no_rules)?;
        let ty = engine.types().find(&String::from_utf8_lossy(port.message(length)?)).map_err(reply::refusal)?;
        let (count, is_more, facts) = engine.stored().page(ty, before, most, PAGE_BYTES);
        port.reply(|out| reply::facts(count, is_more, facts, out));
        Ok(())
    }

    pub fn sources(&mut self) -> Outcome {
        let State { engine, port, .. } = self;
        let clock = engine.as_ref().ok_or_else(no_rules)?.clock();
        port.reply(|out| reply::sources(clock.floor(), &clock.sources(), out));
        Ok(())
    }

    pub fn waiting(&mut self, from: u32, most: u32) -> Outcome {
        let State { engine, port, .. } = self;
        let engine = engine.as_ref().ok_or_else(no_rules)?;
        let facts = engine.stored().waiting(from, most);
        let may_be_more = facts.len() == most as usize;
        port.reply(|out| reply::facts(facts.len(), may_be_more, facts.into_iter(), out));
        Ok(())
    }

    pub fn explain(&mut self, length: usize) -> Outcome {
        let State { engine: held, port, .. } = self;
        let engine = engine(held)?;
        let explanations = engine.explain(&String::from_utf8_lossy(port.message(length)?)).map_err(reply::refusal)?;
        port.reply(|out| reply::explanations(&explanations, out));
        Ok(())
    }

    pub fn info(&mut self) -> Outcome {
        let engine = self.engine.as_ref().ok_or_else(no_rules)?;
        self.port.reply(|out| reply::info(engine, out));
        Ok(())
    }

    /// Drops everything of earlier operations except the engine.
    pub fn forget(&mut self) -> Outcome {
        if let Some(engine) = &mut self.engine {
            engine.recover();
        }
        if !self.port.is_used() {
            return Ok(());
        }
        self.port.forget();
        memory::wipe_searches();
        Ok(())
    }
}

/// Moves time to the watermark that follows a report about event time, and records the report. Returns the reason for an early
/// return, if there is one.
fn advance(engine: &mut Engine, outbox: &Outbox, mark: Mark, event_time: EventTime) -> Result<Option<Reason>, Refusal> {
    let time = engine.clock().after(event_time);
    let stopped = turns(engine, outbox, mark, |engine| {
        if let EventTime::OfAll(_) = event_time {
            engine.save_time();
        }
        engine.turn_to(time)
    });
    if let Some(reason) = stopped.map_err(reply::refusal)? {
        return Ok(Some(reason));
    }
    if let Err(error) = engine.reach(event_time) {
        return early(engine).map(Some).ok_or_else(|| reply::refusal(error));
    }
    tick(engine, outbox, mark);
    Ok(None)
}

/// Takes turns until nothing is left to do, or until a limit or a lack of room stops them.
fn turns(
    engine: &mut Engine,
    outbox: &Outbox,
    mark: Mark,
    turn: impl Fn(&mut Engine) -> Result<Turn, be_tree_rules::Error>,
) -> Result<Option<Reason>, be_tree_rules::Error> {
    loop {
        match turn(engine) {
            Ok(Turn::More) => tick(engine, outbox, mark),
            Ok(Turn::Done) => return Ok(None),
            Ok(Turn::Paused(Pause::Firings)) => return Ok(Some(Reason::Firings)),
            Ok(Turn::Paused(Pause::Notices)) => return Ok(Some(Reason::Notices)),
            Err(error) => return early(engine).map(Some).ok_or(error),
        }
    }
}

/// Returns the reason for an early return that is no error, if there is one.
fn early(engine: &Engine) -> Option<Reason> {
    engine.lacks_room().then_some(Reason::Room)
}

/// Reports progress, and resets the search arena to the mark when it has grown enough.
#[inline]
fn tick(engine: &mut Engine, outbox: &Outbox, mark: Mark) {
    outbox.step();
    if memory::has_taken(mark, MAX_TAKEN_BYTES) {
        engine.abandon_searches();
        memory::back_to(mark);
    }
}

/// Forgets the contents of the search arena. An interrupted operation may have left them inconsistent.
fn abandon(facts: &mut Facts, ids: &mut Vec<u64>, engine: &mut Option<Engine>) {
    std::mem::forget(std::mem::take(facts));
    std::mem::forget(std::mem::take(ids));
    if let Some(engine) = engine {
        engine.abandon_searches();
    }
}

fn engine(engine: &mut Option<Engine>) -> Result<&mut Engine, Error> {
    engine.as_mut().ok_or_else(no_rules)
}

/// Reads the limits on memory, facts, firings and notices.
fn limits(reader: &mut Reader) -> Result<Limits, Error> {
    let mut number = || Ok::<u32, Error>(u32::try_from(reader.unsigned()?).unwrap_or(u32::MAX));
    Ok(Limits { memory: number()? as usize, facts: number()?, firings: number()?, notices: number()? })
}

/// Reads the keys of partitions: the binary of a field, or a list of `{Type, Field}`, with the atom `all` in place of a field.
fn keys(reader: &mut Reader) -> Result<By, Error> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if reader.peek()? == TermKind::Binary {
        return Ok(By::Field(text(reader.binary()?)));
    }
    let mut list = reader.list()?;
    let mut types = Vec::new();
    while reader.next(&mut list)? {
        if reader.tuple()? != 2 {
            return Err(Error::new(Kind::Type, "a key is {Type, Field}"));
        }
        let ty = text(reader.binary()?);
        let field = match reader.peek()? {
            TermKind::Binary => Some(text(reader.binary()?)),
            _ => {
                reader.atom()?;
                None
            }
        };
        types.push((ty, field));
    }
    Ok(By::Types(types))
}

fn no_partitions() -> Error {
    Error::new(Kind::NotFound, "the rules have no partitions; give their number and their keys")
}

fn no_rules() -> Error {
    Error::new(Kind::NotFound, "there are no rules yet; give some first")
}
