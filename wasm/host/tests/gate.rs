//! The gate by itself: the library can only be linked into the BEAM.

#[path = "../src/gate.rs"]
mod gate;

use std::cell::RefCell;

use gate::{Gate, Refusal, Standing};

type TestGate = Gate<&'static str, u32, u32>;

fn told(gate: &TestGate, dead: &[u32]) -> Vec<u32> {
    let told = RefCell::new(Vec::new());
    gate.advance(|waiter| {
        told.borrow_mut().push(*waiter);
        !dead.contains(waiter)
    });
    told.into_inner()
}

#[test]
fn lends_to_one_at_a_time() {
    let gate = TestGate::new("machine");
    let machine = gate.enter(None).unwrap();
    assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
    assert!(!gate.leave(machine));
    assert!(gate.enter(None).is_ok());
}

#[test]
fn calls_waiters_in_order_and_lets_nobody_overtake() {
    let gate = TestGate::new("machine");
    let machine = gate.enter(None).unwrap();
    let first = gate.join(1);
    let second = gate.join(2);
    assert_eq!(told(&gate, &[]), []);
    assert_eq!(gate.waiting(), 2);
    assert!(gate.leave(machine));
    assert_eq!(told(&gate, &[]), [1]);
    assert_eq!(gate.waiting(), 1);
    assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
    assert!(matches!(gate.enter(Some(second)), Err(Refusal::Busy)));
    let machine = gate.enter(Some(first)).unwrap();
    assert!(gate.leave(machine));
    assert_eq!(told(&gate, &[]), [2]);
    assert!(gate.enter(Some(second)).is_ok());
}

#[test]
fn passes_over_the_dead() {
    let gate = TestGate::new("machine");
    let machine = gate.enter(None).unwrap();
    gate.join(1);
    let second = gate.join(2);
    let third = gate.join(3);
    gate.leave(machine);
    assert_eq!(told(&gate, &[1]), [1, 2]);
    assert!(gate.forfeit(second));
    assert!(!gate.forfeit(second));
    assert_eq!(told(&gate, &[]), [3]);
    assert!(gate.enter(Some(third)).is_ok());
}

#[test]
fn a_waiter_who_joins_a_free_gate_is_called_at_once() {
    let gate = TestGate::new("machine");
    let turn = gate.join(1);
    assert_eq!(told(&gate, &[]), [1]);
    assert!(gate.enter(Some(turn)).is_ok());
}

#[test]
fn names_the_holder_of_a_suspended_call() {
    let gate = TestGate::new("machine");
    let machine = gate.enter(None).unwrap();
    gate.suspend(7);
    assert_eq!(gate.standing(), Standing::Suspended);
    assert!(matches!(gate.enter(None), Err(Refusal::Suspended(7))));
    gate.resume();
    assert!(matches!(gate.enter(None), Err(Refusal::Busy)));
    gate.leave(machine);
    assert_eq!(gate.standing(), Standing::Free);
}

#[test]
fn a_broken_gate_tells_all_who_wait() {
    let gate = TestGate::new("machine");
    gate.enter(None).unwrap();
    let turn = gate.join(1);
    gate.join(2);
    gate.condemn("why");
    assert_eq!(told(&gate, &[1]), [1, 2]);
    assert!(matches!(gate.enter(Some(turn)), Err(Refusal::Broken(why)) if why == "why"));
    assert!(matches!(gate.enter(None), Err(Refusal::Broken(_))));
}
