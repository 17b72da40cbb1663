//! The gate by itself: the library can only be linked into the BEAM.

#[path = "../src/instance/checkout.rs"]
mod checkout;

use std::cell::RefCell;

use checkout::{Gate, Refusal, Standing};

type TestGate = Gate<&'static str, u32, u32>;

/// A caller that holds nothing.
const ME: u32 = 99;

fn same(_value: &&'static str) -> u64 {
    0
}

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
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    assert!(!gate.leave(0, machine, 0));
    assert!(gate.enter(None, ME, same).is_ok());
}

#[test]
fn calls_waiters_in_order_and_lets_nobody_overtake() {
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    let first = gate.join(1).unwrap();
    let second = gate.join(2).unwrap();
    assert_eq!(told(&gate, &[]), []);
    assert_eq!(gate.waiting(), 2);
    assert!(gate.leave(0, machine, 0));
    assert_eq!(told(&gate, &[]), [1]);
    assert_eq!(gate.waiting(), 1);
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    assert!(matches!(gate.enter(Some(second), ME, same), Err(Refusal::Busy)));
    let (_, machine) = gate.enter(Some(first), ME, same).unwrap();
    assert!(gate.leave(0, machine, 0));
    assert_eq!(told(&gate, &[]), [2]);
    assert!(gate.enter(Some(second), ME, same).is_ok());
}

#[test]
fn passes_over_the_dead() {
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    gate.join(1).unwrap();
    let second = gate.join(2).unwrap();
    let third = gate.join(3).unwrap();
    gate.leave(0, machine, 0);
    assert_eq!(told(&gate, &[1]), [1, 2]);
    assert!(gate.withdraw(second));
    assert!(!gate.withdraw(second));
    assert_eq!(told(&gate, &[]), [3]);
    assert!(gate.enter(Some(third), ME, same).is_ok());
}

#[test]
fn a_waiter_who_joins_a_free_gate_is_called_at_once() {
    let gate = TestGate::single("machine");
    let turn = gate.join(1).unwrap();
    assert_eq!(told(&gate, &[]), [1]);
    assert!(gate.enter(Some(turn), ME, same).is_ok());
}

#[test]
fn refuses_the_holder_of_a_suspended_call() {
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    gate.suspend(0, 7);
    assert_eq!(gate.standing(), Standing::Suspended);
    assert!(matches!(gate.enter(None, 7, same), Err(Refusal::Held)));
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    gate.resume(0);
    assert!(matches!(gate.enter(None, 7, same), Err(Refusal::Busy)));
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    gate.leave(0, machine, 0);
    assert_eq!(gate.standing(), Standing::Free);
}

#[test]
fn a_broken_gate_tells_all_who_wait() {
    let gate = TestGate::single("machine");
    gate.enter(None, ME, same).unwrap();
    let turn = gate.join(1).unwrap();
    gate.join(2).unwrap();
    gate.condemn("why");
    assert_eq!(told(&gate, &[1]), [1, 2]);
    assert!(matches!(gate.enter(Some(turn), ME, same), Err(Refusal::Broken(why)) if why == "why"));
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Broken(_))));
}

#[test]
fn who_comes_while_others_wait_does_not_overtake_them() {
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    let first = gate.join(1).unwrap();
    assert!(gate.leave(0, machine, 0));
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    assert_eq!(told(&gate, &[]), [1]);
    assert!(gate.enter(Some(first), ME, same).is_ok());
}

#[test]
fn who_withdraws_no_longer_waits() {
    let gate = TestGate::single("machine");
    let (_, machine) = gate.enter(None, ME, same).unwrap();
    let first = gate.join(1).unwrap();
    let second = gate.join(2).unwrap();
    let third = gate.join(3).unwrap();
    assert!(!gate.withdraw(second));
    assert!(!gate.withdraw(second));
    assert_eq!(gate.waiting(), 2);
    gate.leave(0, machine, 0);
    assert_eq!(told(&gate, &[]), [1]);
    assert!(gate.withdraw(first));
    assert_eq!(told(&gate, &[]), [3]);
    let (_, machine) = gate.enter(Some(third), ME, same).unwrap();
    assert!(!gate.leave(0, machine, 0));
    assert!(gate.enter(None, ME, same).is_ok());
}

/// Makes the value of the vacant place that a caller comes upon.
fn make(gate: &TestGate, value: &'static str) -> (usize, &'static str) {
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Vacant)));
    let place = gate.claim(None, ME).unwrap().unwrap();
    let turn = gate.fill(place, value, 0);
    gate.enter(Some(turn), ME, same).unwrap()
}

#[test]
fn makes_a_value_only_where_none_is_free_and_lends_the_last_one_used() {
    let gate = TestGate::vacant(3, 10);
    let (first, a) = make(&gate, "a");
    assert!(!gate.leave(first, a, 0));
    let (first, a) = gate.enter(None, ME, same).unwrap();
    let (second, b) = make(&gate, "b");
    assert_eq!((gate.places(), gate.made(), gate.standing()), (3, 2, Standing::Free));
    gate.leave(second, b, 0);
    gate.leave(first, a, 0);
    let (_, value) = gate.enter(None, ME, same).unwrap();
    assert_eq!(value, "a");
}

#[test]
fn a_value_that_was_made_is_kept_for_its_maker() {
    let gate = TestGate::vacant(1, 10);
    let place = gate.claim(None, ME).unwrap().unwrap();
    let waiting = gate.join(1).unwrap();
    let turn = gate.fill(place, "a", 0);
    assert_eq!(told(&gate, &[]), []);
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    let (place, value) = gate.enter(Some(turn), ME, same).unwrap();
    assert!(gate.leave(place, value, 0));
    assert_eq!(told(&gate, &[]), [1]);
    assert!(gate.enter(Some(waiting), ME, same).is_ok());
}

#[test]
fn a_value_that_could_not_be_made_or_was_lost_is_made_by_the_next() {
    let gate = TestGate::vacant(1, 10);
    let place = gate.claim(None, ME).unwrap().unwrap();
    let waiting = gate.join(1).unwrap();
    assert!(gate.vacate(place));
    assert_eq!(told(&gate, &[]), [1]);
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Busy)));
    assert!(matches!(gate.enter(Some(waiting), ME, same), Err(Refusal::Vacant)));
    let place = gate.claim(Some(waiting), ME).unwrap().unwrap();
    let turn = gate.fill(place, "a", 0);
    let (place, _lost) = gate.enter(Some(turn), ME, same).unwrap();
    assert!(!gate.vacate(place));
    assert_eq!(gate.made(), 0);
    make(&gate, "b");
}

#[test]
fn who_finds_a_value_after_all_makes_none() {
    let gate = TestGate::vacant(2, 10);
    let (place, value) = make(&gate, "a");
    assert!(matches!(gate.enter(None, ME, same), Err(Refusal::Vacant)));
    gate.leave(place, value, 0);
    assert_eq!(gate.claim(None, ME), Ok(None));
    assert!(gate.enter(None, ME, same).is_ok());
}

#[test]
fn a_full_queue_takes_nobody() {
    let gate = TestGate::vacant(1, 2);
    let (place, value) = make(&gate, "a");
    gate.join(1).unwrap();
    let second = gate.join(2).unwrap();
    assert_eq!(gate.join(3), None);
    gate.withdraw(second);
    gate.join(3).unwrap();
    gate.leave(place, value, 0);
    assert_eq!(told(&gate, &[]), [1]);

    // Who would not have to wait is not refused, although nobody may.
    let gate = TestGate::vacant(1, 0);
    let turn = gate.join(1).unwrap();
    assert_eq!(gate.join(2), None);
    assert_eq!(told(&gate, &[]), [1]);
    assert!(matches!(gate.enter(Some(turn), ME, same), Err(Refusal::Vacant)));
}

#[test]
fn calls_as_many_as_there_are_values() {
    let gate = TestGate::vacant(2, 10);
    let (a, b) = (make(&gate, "a"), make(&gate, "b"));
    let turns = [1, 2, 3].map(|waiter| gate.join(waiter).unwrap());
    gate.leave(a.0, a.1, 0);
    gate.leave(b.0, b.1, 0);
    assert_eq!(told(&gate, &[]), [1, 2]);
    let second = gate.enter(Some(turns[1]), ME, same).unwrap();
    assert!(matches!(gate.enter(Some(turns[2]), ME, same), Err(Refusal::Busy)));
    gate.leave(second.0, second.1, 0);
    assert_eq!(told(&gate, &[]), [3]);
    assert!(gate.enter(Some(turns[0]), ME, same).is_ok());
    assert!(gate.enter(Some(turns[2]), ME, same).is_ok());
}

#[test]
fn only_who_holds_all_values_is_refused() {
    let gate = TestGate::vacant(2, 10);
    let (a, b) = (make(&gate, "a"), make(&gate, "b"));
    gate.suspend(a.0, 7);
    gate.suspend(b.0, 8);
    assert!(matches!(gate.enter(None, 7, same), Err(Refusal::Busy)));
    gate.suspend(b.0, 7);
    assert!(matches!(gate.enter(None, 7, same), Err(Refusal::Held)));
}

/// Ranks by length.
fn length(value: &&'static str) -> u64 {
    value.len() as u64
}

/// Returns a gate with these values, of which the last was returned last.
fn ranked(values: [&'static str; 3]) -> TestGate {
    let gate = TestGate::vacant(3, 9);
    let places = [(); 3].map(|()| gate.claim(None, ME).unwrap().unwrap());
    for (place, value) in places.into_iter().zip(values) {
        let turn = gate.fill(place, value, 0);
        gate.withdraw(turn);
    }
    gate
}

#[test]
fn lends_the_highest_rank_and_among_these_the_last_returned() {
    let gate = ranked(["aaa", "bbb", "c"]);
    assert_eq!(gate.ranks(length), Some((1, 3)));
    let (place, value) = gate.enter(None, ME, length).unwrap();
    assert_eq!(value, "bbb");
    assert_eq!(gate.enter(None, ME, length).unwrap().1, "aaa");
    gate.leave(place, "bbb", 0);
    assert_eq!(gate.enter(None, ME, length).unwrap().1, "bbb");
    assert_eq!(gate.enter(None, ME, length).unwrap().1, "c");
    assert!(matches!(gate.enter(None, ME, length), Err(Refusal::Busy)));
    assert_eq!(gate.ranks(length), None);
}

#[test]
fn lends_the_lowest_rank_below_a_limit_unless_a_caller_waits() {
    let gate = ranked(["aaa", "b", "cc"]);
    assert!(gate.enter_below(1, length).is_none());
    assert_eq!(gate.enter_below(3, length).unwrap().1, "b");
    assert_eq!(gate.enter_below(3, length).unwrap().1, "cc");
    assert!(gate.enter_below(3, length).is_none());
    let gate = ranked(["a", "b", "c"]);
    gate.join(1).unwrap();
    assert!(gate.enter_below(9, length).is_none());
}

#[test]
fn drops_values_of_a_low_rank_now_or_when_they_are_returned() {
    let gate = ranked(["aaa", "b", "cc"]);
    let (lent, value) = gate.enter(None, ME, length).unwrap();
    assert_eq!(value, "aaa");
    gate.require(3, length);
    assert_eq!(gate.made(), 1);
    assert_eq!(gate.ranks(length), None);
    assert!(matches!(gate.enter(None, ME, length), Err(Refusal::Vacant)));
    // A value that was made before is dropped too, and its maker makes another one.
    let place = gate.claim(None, ME).unwrap().unwrap();
    let turn = gate.fill(place, "dd", 2);
    assert!(matches!(gate.enter(Some(turn), ME, length), Err(Refusal::Vacant)));
    let place = gate.claim(Some(turn), ME).unwrap().unwrap();
    let turn = gate.fill(place, "eee", 3);
    assert_eq!(gate.enter(Some(turn), ME, length).unwrap().1, "eee");
    assert!(!gate.leave(lent, "aaa", 3));
    assert_eq!(gate.enter(None, ME, length).unwrap().1, "aaa");
    assert!(!gate.leave(lent, "aa", 2));
    assert_eq!(gate.made(), 1);
}
