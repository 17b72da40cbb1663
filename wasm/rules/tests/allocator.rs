//! Refuse each memory request of an operation in turn. Each refusal must be an error and change nothing, and once memory is granted
//! the operation must succeed.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use be_tree_rules::{Arrival, Call, Engine, Error, EventTime, Fact, Kind, Limits, Notice, Value};

thread_local! {
    /// The number of requests of this thread to grant before a refusal, and whether all later ones are refused too.
    static GRANTED: Cell<Option<usize>> = const { Cell::new(None) };
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with refusals for threads that ask for them.
struct Refusing;

impl Refusing {
    fn grants() -> bool {
        match GRANTED.get() {
            None => true,
            Some(0) => {
                REFUSED.set(REFUSED.get() + 1);
                false
            }
            Some(left) => {
                GRANTED.set(Some(left - 1));
                true
            }
        }
    }
}

// SAFETY: requests that are granted go to the system's allocator, and null is a refusal.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::grants() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::grants() {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// All state that an operation may change.
#[derive(Debug, PartialEq)]
struct State {
    facts: Vec<Vec<Fact>>,
    now: i64,
    firings: u64,
    asserted: u64,
    position: u32,
    is_busy: bool,
}

fn state(engine: &Engine, types: &[&str]) -> State {
    State {
        facts: types.iter().map(|ty| engine.stored().facts(ty).unwrap()).collect(),
        now: engine.clock().now(),
        firings: engine.counts().firings,
        asserted: engine.counts().asserted,
        position: engine.progress().position,
        is_busy: engine.is_busy(),
    }
}

/// Runs an operation with each of its requests refused in turn, and then lets it succeed. Returns the number of refusals. With
/// `has_steps`, a refused operation may have run some of its steps; then only its final state is compared.
fn refuse(
    engine: &mut Engine,
    types: &[&str],
    has_steps: bool,
    operate: impl Fn(&mut Engine) -> Result<(), Error>,
) -> usize {
    let mut expected = engine.clone();
    let before = state(engine, types);
    for granted in 0.. {
        assert!(granted < 1_000, "the operation asks for memory without end");
        let mut tried = engine.clone();
        REFUSED.set(0);
        GRANTED.set(Some(granted));
        let result = operate(&mut tried);
        GRANTED.set(None);
        if REFUSED.get() == 0 {
            result.unwrap();
            operate(&mut expected).unwrap();
            assert_eq!(state(&tried, types), state(&expected, types));
            assert_eq!(notices(&mut tried), notices(&mut expected));
            *engine = tried;
            return granted;
        }
        assert_eq!(result.unwrap_err().kind, Kind::OutOfMemory);
        if !has_steps {
            assert_eq!(state(&tried, types), before, "the refused request {granted} left a change");
        }
        operate(&mut tried).unwrap();
        let mut whole = engine.clone();
        operate(&mut whole).unwrap();
        assert_eq!(state(&tried, types), state(&whole, types), "after the refused request {granted}");
        assert_eq!(notices(&mut tried), notices(&mut whole));
    }
    unreachable!()
}

fn notices(engine: &mut Engine) -> Vec<Notice> {
    engine.take_notices()
}

const RULES: &str = "
    fact login(user: string, ok: boolean)
    fact change(user: string)
    fact order(id: integer)
    fact payment(order: integer)
    rule takeover
      when a: login(not ok)
           b: login(not ok, user = a.user), after a within 5 minutes
           c: change(user = a.user), after b, after a within 5 minutes
      then notify takeover(user: a.user), retract a
    rule unpaid
      when o: order
           none payment(order = o.id) within 10 minutes after o
      then notify unpaid(order: o.id), retract o
    rule many
      when n: order
           s: count login(ok = false) within 5 minutes before n, s > 30
      then notify many(count: s)
";

const TYPES: [&str; 4] = ["login", "change", "order", "payment"];

#[test]
fn a_refused_request_changes_nothing() {
    let mut engine = Engine::new(RULES, Limits::default()).unwrap();
    let mut refusals = [0; 4];
    let mut random = 7_u64;
    for number in 0..800_i64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (kind, user) = (random >> 60, format!("{} user {}", "long ".repeat(30), random >> 33 & 0x3f));
        let (user, at) = (Value::String(user.as_bytes()), Some(2_000 * number));
        refusals[0] += refuse(&mut engine, &TYPES, true, |engine| {
            engine.begin(Call::Fire, 0)?;
            match kind % 8 {
                0..=3 => {
                    let login = [Some(user), Some(Value::Boolean(kind > 1))];
                    engine.assert(Arrival { position: number as u32, ..Arrival::new(0, at, &login) })?
                }
                4 => engine.assert(Arrival::new(1, at, &[Some(user)]))?,
                5 | 6 => engine.assert(Arrival::new(2, at, &[Some(Value::Integer(number))]))?,
                _ => engine.assert(Arrival::new(3, at, &[Some(Value::Integer(number - 7))]))?,
            };
            Ok(())
        });
        refusals[1] += refuse(&mut engine, &TYPES, true, |engine| engine.run().map(drop));
        if number % 100 == 99 {
            let logins = engine.stored().facts("login").unwrap();
            if let Some(fact) = logins.get(logins.len() / 2) {
                refusals[2] += refuse(&mut engine, &TYPES, false, |engine| engine.retract(fact.id));
            }
        }
        if number % 200 == 199 {
            refusals[3] +=
                refuse(&mut engine, &TYPES, true, |engine| engine.advance(EventTime::OfAll(2_000 * number + 250)));
        }
    }
    refuse(&mut engine, &TYPES, true, |engine| engine.advance(EventTime::OfAll(10_000_000)));
    refuse(&mut engine, &TYPES, true, |engine| engine.run().map(drop));
    assert!(refusals.iter().sum::<usize>() > 3, "{refusals:?}");
    assert_eq!(engine.counts().facts, 0);
}

/// One fact that needs every kind of room: an assertion is one step.
#[test]
fn a_refused_assertion_leaves_the_fact_out() {
    let mut engine = Engine::new(RULES, Limits::default()).unwrap();
    // Time moves in a step of its own.
    engine.advance(EventTime::OfAll(0)).unwrap();
    let long = vec![b'x'; 100_000];
    let mut refusals = 0;
    for number in 0..40_u8 {
        let name = [&long[..], &[number]].concat();
        refusals += refuse(&mut engine, &TYPES, false, |engine| {
            engine.assert(Arrival::new(1, Some(0), &[Some(Value::String(&name))])).map(drop)
        });
    }
    assert!(refusals > 5, "{refusals}");
    assert_eq!(engine.counts().facts, 40);
}
