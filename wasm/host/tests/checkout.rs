//! Tests of the checkout without the rest of the library, which links only into the BEAM.

#[path = "../src/instance/checkout.rs"]
mod checkout;

use std::cell::RefCell;

use checkout::{Checkout, Status, Unavailable};

type TestCheckout = Checkout<&'static str, u32, u32>;

/// A caller that holds no suspended call.
const ME: u32 = 99;

fn equal_rank(_value: &&'static str) -> u64 {
    0
}

fn woken(checkout: &TestCheckout, dead: &[u32]) -> Vec<u32> {
    let woken = RefCell::new(Vec::new());
    checkout.advance(|waiter| {
        woken.borrow_mut().push(*waiter);
        !dead.contains(waiter)
    });
    woken.into_inner()
}

#[test]
fn lends_a_value_to_one_caller_at_a_time() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    assert!(!checkout.check_in(0, machine, 0));
    assert!(checkout.check_out(None, ME, equal_rank).is_ok());
}

#[test]
fn wakes_waiters_in_order_and_refuses_callers_without_a_turn() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    let first = checkout.join(1).unwrap();
    let second = checkout.join(2).unwrap();
    assert_eq!(woken(&checkout, &[]), []);
    assert_eq!(checkout.waiting(), 2);
    assert!(checkout.check_in(0, machine, 0));
    assert_eq!(woken(&checkout, &[]), [1]);
    assert_eq!(checkout.waiting(), 1);
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    assert!(matches!(checkout.check_out(Some(second), ME, equal_rank), Err(Unavailable::Busy)));
    let (_, machine) = checkout.check_out(Some(first), ME, equal_rank).unwrap();
    assert!(checkout.check_in(0, machine, 0));
    assert_eq!(woken(&checkout, &[]), [2]);
    assert!(checkout.check_out(Some(second), ME, equal_rank).is_ok());
}

#[test]
fn skips_dead_waiters() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    checkout.join(1).unwrap();
    let second = checkout.join(2).unwrap();
    let third = checkout.join(3).unwrap();
    checkout.check_in(0, machine, 0);
    assert_eq!(woken(&checkout, &[1]), [1, 2]);
    assert!(checkout.withdraw(second));
    assert!(!checkout.withdraw(second));
    assert_eq!(woken(&checkout, &[]), [3]);
    assert!(checkout.check_out(Some(third), ME, equal_rank).is_ok());
}

#[test]
fn wakes_a_waiter_that_joins_while_a_value_is_free() {
    let checkout = TestCheckout::single("machine");
    let turn = checkout.join(1).unwrap();
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(checkout.check_out(Some(turn), ME, equal_rank).is_ok());
}

#[test]
fn refuses_the_holder_of_the_only_suspended_call() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    checkout.suspend(0, 7);
    assert_eq!(checkout.status(), Status::Suspended);
    assert!(matches!(checkout.check_out(None, 7, equal_rank), Err(Unavailable::Held)));
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    checkout.resume(0);
    assert!(matches!(checkout.check_out(None, 7, equal_rank), Err(Unavailable::Busy)));
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    checkout.check_in(0, machine, 0);
    assert_eq!(checkout.status(), Status::Free);
}

#[test]
fn a_poisoned_checkout_wakes_all_waiters() {
    let checkout = TestCheckout::single("machine");
    checkout.check_out(None, ME, equal_rank).unwrap();
    let turn = checkout.join(1).unwrap();
    checkout.join(2).unwrap();
    checkout.poison("why");
    assert_eq!(woken(&checkout, &[1]), [1, 2]);
    assert!(matches!(checkout.check_out(Some(turn), ME, equal_rank), Err(Unavailable::Broken(why)) if why == "why"));
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Broken(_))));
}

#[test]
fn a_caller_without_a_turn_is_busy_while_others_wait() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    let first = checkout.join(1).unwrap();
    assert!(checkout.check_in(0, machine, 0));
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(checkout.check_out(Some(first), ME, equal_rank).is_ok());
}

#[test]
fn withdraw_removes_a_waiter_from_the_queue() {
    let checkout = TestCheckout::single("machine");
    let (_, machine) = checkout.check_out(None, ME, equal_rank).unwrap();
    let first = checkout.join(1).unwrap();
    let second = checkout.join(2).unwrap();
    let third = checkout.join(3).unwrap();
    assert!(!checkout.withdraw(second));
    assert!(!checkout.withdraw(second));
    assert_eq!(checkout.waiting(), 2);
    checkout.check_in(0, machine, 0);
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(checkout.withdraw(first));
    assert_eq!(woken(&checkout, &[]), [3]);
    let (_, machine) = checkout.check_out(Some(third), ME, equal_rank).unwrap();
    assert!(!checkout.check_in(0, machine, 0));
    assert!(checkout.check_out(None, ME, equal_rank).is_ok());
}

/// Fills the vacant place that a caller finds, and checks its value out.
fn make(checkout: &TestCheckout, value: &'static str) -> (usize, &'static str) {
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Vacant)));
    let place = checkout.claim(None, ME).unwrap().unwrap();
    let turn = checkout.fill(place, value, 0);
    checkout.check_out(Some(turn), ME, equal_rank).unwrap()
}

#[test]
fn asks_for_a_new_value_only_if_none_is_free_and_lends_the_last_returned() {
    let checkout = TestCheckout::vacant(3, 10);
    let (first, a) = make(&checkout, "a");
    assert!(!checkout.check_in(first, a, 0));
    let (first, a) = checkout.check_out(None, ME, equal_rank).unwrap();
    let (second, b) = make(&checkout, "b");
    assert_eq!((checkout.places(), checkout.filled(), checkout.status()), (3, 2, Status::Free));
    checkout.check_in(second, b, 0);
    checkout.check_in(first, a, 0);
    let (_, value) = checkout.check_out(None, ME, equal_rank).unwrap();
    assert_eq!(value, "a");
}

#[test]
fn fill_reserves_the_value_for_its_caller() {
    let checkout = TestCheckout::vacant(1, 10);
    let place = checkout.claim(None, ME).unwrap().unwrap();
    let waiting = checkout.join(1).unwrap();
    let turn = checkout.fill(place, "a", 0);
    assert_eq!(woken(&checkout, &[]), []);
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    let (place, value) = checkout.check_out(Some(turn), ME, equal_rank).unwrap();
    assert!(checkout.check_in(place, value, 0));
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(checkout.check_out(Some(waiting), ME, equal_rank).is_ok());
}

#[test]
fn a_vacated_place_is_filled_by_the_next_caller() {
    let checkout = TestCheckout::vacant(1, 10);
    let place = checkout.claim(None, ME).unwrap().unwrap();
    let waiting = checkout.join(1).unwrap();
    assert!(checkout.vacate(place));
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Busy)));
    assert!(matches!(checkout.check_out(Some(waiting), ME, equal_rank), Err(Unavailable::Vacant)));
    let place = checkout.claim(Some(waiting), ME).unwrap().unwrap();
    let turn = checkout.fill(place, "a", 0);
    let (place, _lost) = checkout.check_out(Some(turn), ME, equal_rank).unwrap();
    assert!(!checkout.vacate(place));
    assert_eq!(checkout.filled(), 0);
    make(&checkout, "b");
}

#[test]
fn claim_returns_none_if_a_value_is_free_again() {
    let checkout = TestCheckout::vacant(2, 10);
    let (place, value) = make(&checkout, "a");
    assert!(matches!(checkout.check_out(None, ME, equal_rank), Err(Unavailable::Vacant)));
    checkout.check_in(place, value, 0);
    assert_eq!(checkout.claim(None, ME), Ok(None));
    assert!(checkout.check_out(None, ME, equal_rank).is_ok());
}

#[test]
fn join_returns_none_if_the_queue_is_full() {
    let checkout = TestCheckout::vacant(1, 2);
    let (place, value) = make(&checkout, "a");
    checkout.join(1).unwrap();
    let second = checkout.join(2).unwrap();
    assert_eq!(checkout.join(3), None);
    checkout.withdraw(second);
    checkout.join(3).unwrap();
    checkout.check_in(place, value, 0);
    assert_eq!(woken(&checkout, &[]), [1]);

    // A queue for no waiters admits a caller that finds an open place.
    let checkout = TestCheckout::vacant(1, 0);
    let turn = checkout.join(1).unwrap();
    assert_eq!(checkout.join(2), None);
    assert_eq!(woken(&checkout, &[]), [1]);
    assert!(matches!(checkout.check_out(Some(turn), ME, equal_rank), Err(Unavailable::Vacant)));
}

#[test]
fn wakes_one_waiter_for_each_free_value() {
    let checkout = TestCheckout::vacant(2, 10);
    let (a, b) = (make(&checkout, "a"), make(&checkout, "b"));
    let turns = [1, 2, 3].map(|waiter| checkout.join(waiter).unwrap());
    checkout.check_in(a.0, a.1, 0);
    checkout.check_in(b.0, b.1, 0);
    assert_eq!(woken(&checkout, &[]), [1, 2]);
    let second = checkout.check_out(Some(turns[1]), ME, equal_rank).unwrap();
    assert!(matches!(checkout.check_out(Some(turns[2]), ME, equal_rank), Err(Unavailable::Busy)));
    checkout.check_in(second.0, second.1, 0);
    assert_eq!(woken(&checkout, &[]), [3]);
    assert!(checkout.check_out(Some(turns[0]), ME, equal_rank).is_ok());
    assert!(checkout.check_out(Some(turns[2]), ME, equal_rank).is_ok());
}

#[test]
fn refuses_only_a_caller_that_holds_all_values() {
    let checkout = TestCheckout::vacant(2, 10);
    let (a, b) = (make(&checkout, "a"), make(&checkout, "b"));
    checkout.suspend(a.0, 7);
    checkout.suspend(b.0, 8);
    assert!(matches!(checkout.check_out(None, 7, equal_rank), Err(Unavailable::Busy)));
    checkout.suspend(b.0, 7);
    assert!(matches!(checkout.check_out(None, 7, equal_rank), Err(Unavailable::Held)));
}

/// Ranks by length.
fn length(value: &&'static str) -> u64 {
    value.len() as u64
}

/// Returns a checkout of these values, the last of which was returned last.
fn ranked(values: [&'static str; 3]) -> TestCheckout {
    let checkout = TestCheckout::vacant(3, 9);
    let places = [(); 3].map(|()| checkout.claim(None, ME).unwrap().unwrap());
    for (place, value) in places.into_iter().zip(values) {
        let turn = checkout.fill(place, value, 0);
        checkout.withdraw(turn);
    }
    checkout
}

#[test]
fn lends_the_highest_rank_and_the_last_returned_of_equal_ranks() {
    let checkout = ranked(["aaa", "bbb", "c"]);
    assert_eq!(checkout.ranks(length), Some((1, 3)));
    let (place, value) = checkout.check_out(None, ME, length).unwrap();
    assert_eq!(value, "bbb");
    assert_eq!(checkout.check_out(None, ME, length).unwrap().1, "aaa");
    checkout.check_in(place, "bbb", 0);
    assert_eq!(checkout.check_out(None, ME, length).unwrap().1, "bbb");
    assert_eq!(checkout.check_out(None, ME, length).unwrap().1, "c");
    assert!(matches!(checkout.check_out(None, ME, length), Err(Unavailable::Busy)));
    assert_eq!(checkout.ranks(length), None);
}

#[test]
fn check_out_below_lends_the_lowest_rank_unless_a_caller_waits() {
    let checkout = ranked(["aaa", "b", "cc"]);
    assert!(checkout.check_out_below(1, length).is_none());
    assert_eq!(checkout.check_out_below(3, length).unwrap().1, "b");
    assert_eq!(checkout.check_out_below(3, length).unwrap().1, "cc");
    assert!(checkout.check_out_below(3, length).is_none());
    let checkout = ranked(["a", "b", "c"]);
    checkout.join(1).unwrap();
    assert!(checkout.check_out_below(9, length).is_none());
}

#[test]
fn drop_below_drops_values_now_or_when_they_are_returned() {
    let checkout = ranked(["aaa", "b", "cc"]);
    let (lent, value) = checkout.check_out(None, ME, length).unwrap();
    assert_eq!(value, "aaa");
    checkout.drop_below(3, length);
    assert_eq!(checkout.filled(), 1);
    assert_eq!(checkout.ranks(length), None);
    assert!(matches!(checkout.check_out(None, ME, length), Err(Unavailable::Vacant)));
    // A new value of a low rank is dropped too, and its caller must fill the place again.
    let place = checkout.claim(None, ME).unwrap().unwrap();
    let turn = checkout.fill(place, "dd", 2);
    assert!(matches!(checkout.check_out(Some(turn), ME, length), Err(Unavailable::Vacant)));
    let place = checkout.claim(Some(turn), ME).unwrap().unwrap();
    let turn = checkout.fill(place, "eee", 3);
    assert_eq!(checkout.check_out(Some(turn), ME, length).unwrap().1, "eee");
    assert!(!checkout.check_in(lent, "aaa", 3));
    assert_eq!(checkout.check_out(None, ME, length).unwrap().1, "aaa");
    assert!(!checkout.check_in(lent, "aa", 2));
    assert_eq!(checkout.filled(), 1);
}
