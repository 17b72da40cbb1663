//! The queue of outputs: its limits, its counts, and senders on many threads.

#[path = "../src/output/mod.rs"]
#[allow(dead_code)]
mod output;

use std::thread;
use std::time::Duration;

use output::{Amount, Appended, Limits, Overflow, Queue, Room, Sender};

fn limits(overflow: Overflow) -> Limits {
    Limits { page: 10, hard: Amount { bytes: 40, messages: 100 }, overflow }
}

/// Appends a message in the first epoch.
fn append(sender: &Sender, message: &str) -> Appended {
    sender.append(message.as_bytes(), 0, false)
}

/// Takes the next job of at least `bytes`, and returns its messages by page.
fn take(queue: &Queue, bytes: usize) -> Vec<String> {
    let pages = queue.next(bytes).map_or(Vec::new(), |job| job.pages);
    pages.into_iter().map(|page| String::from_utf8(page.bytes).unwrap()).collect()
}

/// Checks the sum of the counts, and returns `(delivered, dropped, lost)` and the bytes of open pages.
fn check(queue: &Queue) -> (u64, u64, u64, u64) {
    let counts = queue.counts();
    let pending = (counts.open + counts.queued + counts.in_hand).messages;
    assert_eq!(counts.accepted, counts.delivered + counts.dropped + counts.lost + pending, "{counts:?}");
    (counts.delivered, counts.dropped, counts.lost, counts.open.bytes)
}

#[test]
fn append_fills_a_page_and_wakes_the_writer_once() {
    let queue = Queue::new(limits(Overflow::Block));
    let sender = Sender::new(&queue);
    assert_eq!(append(&sender, "aaaaa"), Appended::Wake);
    assert_eq!(append(&sender, "bbbbb"), Appended::Done);
    // The first full page.
    assert_eq!(append(&sender, "c"), Appended::Wake);
    assert_eq!(append(&sender, "dddddddddd"), Appended::Done);
    assert_eq!(take(&queue, 100), ["aaaaabbbbb", "c"]);
    assert_eq!(check(&queue), (0, 0, 0, 10));
}

#[test]
fn append_sends_a_long_message_alone_behind_the_open_page() {
    let queue = Queue::new(limits(Overflow::Block));
    let sender = Sender::new(&queue);
    append(&sender, "a");
    append(&sender, "bbbbbbbbbbbbbbbbbbbb");
    append(&sender, "c");
    assert_eq!(take(&queue, 100), ["a", "bbbbbbbbbbbbbbbbbbbb"]);
    check(&queue);
}

#[test]
fn append_accepts_a_message_beyond_the_limit_into_an_empty_queue_only() {
    let queue = Queue::new(limits(Overflow::Block));
    let sender = Sender::new(&queue);
    let long = "x".repeat(1_000);
    assert_eq!(append(&sender, &long), Appended::Wake);
    assert_eq!(append(&sender, &long), Appended::Full);
    assert_eq!(take(&queue, 1).len(), 1);
    assert_eq!(append(&sender, &long), Appended::Full);
    queue.settle(true);
    assert!(queue.next(1).is_none());
    assert_eq!(append(&sender, &long), Appended::Wake);
    check(&queue);
}

#[test]
fn append_blocks_until_the_soft_limit_and_lets_those_that_wait_go_first() {
    let queue = Queue::new(limits(Overflow::Block));
    let sender = Sender::new(&queue);
    while append(&sender, "1234567890") != Appended::Full {}
    check(&queue);
    assert!(queue.counts().overloaded);
    assert_eq!(queue.room(), Room::None);
    queue.set_waiting(true);
    take(&queue, 20);
    queue.settle(true);
    assert_eq!(queue.room(), Room::Some(Amount { bytes: 20, messages: 98 }));
    assert_eq!(append(&sender, "1234567890"), Appended::Full);
    assert_eq!(sender.append(b"1234567890", 0, true), Appended::Done);
    check(&queue);
}

#[test]
fn append_drops_new_messages_until_the_soft_limit_and_tells_the_sink() {
    let queue = Queue::new(limits(Overflow::DropNew));
    let sender = Sender::new(&queue);
    let outcomes: Vec<_> = (0..8).map(|_| append(&sender, "1234567890")).collect();
    assert_eq!(outcomes[5..], [Appended::Dropped; 3]);
    assert_eq!(queue.next(1).unwrap().dropped, 3);
    queue.settle(true);
    // 30 bytes wait, and the overload ends at 20.
    assert_eq!(append(&sender, "1234567890"), Appended::Dropped);
    assert_eq!(queue.next(1).unwrap().dropped, 1);
    // The sink failed, so it was not told.
    queue.settle(false);
    assert_ne!(append(&sender, "1234567890"), Appended::Dropped);
    assert_eq!(queue.next(1).unwrap().dropped, 1);
    assert_eq!(check(&queue), (1, 4, 1, 10));
}

#[test]
fn append_drops_old_pages() {
    let queue = Queue::new(limits(Overflow::DropOld));
    let sender = Sender::new(&queue);
    for number in 0..10 {
        append(&sender, &format!("{number}........."));
    }
    // The last message is in the open page, and 40 bytes are in the queue.
    assert_eq!(take(&queue, 100), ["5.........", "6.........", "7.........", "8........."]);
    assert_eq!(check(&queue), (0, 5, 0, 10));
}

#[test]
fn append_of_a_closed_or_changed_queue_changes_nothing() {
    let queue = Queue::new(limits(Overflow::Disconnect));
    let sender = Sender::new(&queue);
    let outcomes: Vec<_> = (0..6).map(|_| append(&sender, "1234567890")).collect();
    assert_eq!(outcomes[5], Appended::Disconnected);
    assert_eq!(append(&sender, "1"), Appended::Closed);
    queue.close(true);
    assert_eq!(check(&queue), (0, 5, 0, 0));
    queue.reopen();
    let epoch = queue.configure(limits(Overflow::Block));
    assert_eq!(append(&sender, "1"), Appended::Stale);
    assert_eq!(sender.append(b"1", epoch, false), Appended::Wake);
    check(&queue);
}

#[test]
fn sweep_moves_open_pages_and_returns_when_the_next_is_due() {
    let queue = Queue::new(limits(Overflow::Block));
    let senders: Vec<_> = (0..3).map(|_| Sender::new(&queue)).collect();
    senders.iter().for_each(|sender| assert_ne!(append(sender, "a"), Appended::Full));
    let sweep = queue.sweep(Duration::from_secs(3_600));
    assert!(sweep.next.unwrap() > Duration::from_secs(3_000));
    assert!(queue.sweep(Duration::ZERO).next.is_none());
    assert_eq!(take(&queue, 100), ["a", "a", "a"]);
    assert_eq!(append(&senders[0], "b"), Appended::Wake);
    check(&queue);
}

#[test]
fn sweep_leaves_pages_without_room_to_their_senders() {
    let queue = Queue::new(limits(Overflow::Block));
    let (one, two) = (Sender::new(&queue), Sender::new(&queue));
    append(&two, "two");
    while append(&one, "1234567890") != Appended::Full {}
    let sweep = queue.sweep(Duration::ZERO);
    assert!(sweep.stuck && sweep.next.is_none());
    take(&queue, 30);
    queue.settle(true);
    assert!(!queue.sweep(Duration::ZERO).stuck);
    assert_eq!(check(&queue).3, 0);
}

#[test]
fn end_moves_the_last_page_into_the_queue() {
    let queue = Queue::new(limits(Overflow::DropNew));
    let sender = Sender::new(&queue);
    append(&sender, "one");
    sender.end();
    sender.end();
    assert_eq!(append(&sender, "one"), Appended::Closed);
    assert_eq!(take(&queue, 1), ["one"]);
    queue.settle(true);
    assert_eq!(check(&queue), (1, 0, 0, 0));
    assert_eq!(queue.counts().senders, 0);
}

#[test]
fn end_keeps_the_last_pages_up_to_twice_the_limit() {
    for overflow in [Overflow::Block, Overflow::DropNew, Overflow::Disconnect] {
        let queue = Queue::new(limits(overflow));
        for _ in 0..9 {
            let sender = Sender::new(&queue);
            append(&sender, "1234567890");
            sender.end();
        }
        assert_eq!(check(&queue), (0, 1, 0, 0));
    }
}

#[test]
fn settle_ends_an_overload_at_the_soft_limit() {
    let queue = Queue::new(limits(Overflow::DropNew));
    let sender = Sender::new(&queue);
    while append(&sender, "1234567890") != Appended::Dropped {}
    take(&queue, 10);
    queue.settle(true);
    assert!(queue.counts().overloaded);
    take(&queue, 10);
    queue.settle(true);
    assert!(!queue.counts().overloaded);
}

#[test]
fn counts_hold_with_senders_on_many_threads_and_a_writer_that_fails() {
    const MESSAGES: u64 = 5_000;
    for overflow in [Overflow::Block, Overflow::DropNew, Overflow::DropOld] {
        let queue = Queue::new(Limits { page: 100, hard: Amount { bytes: 1_000, messages: 60 }, overflow });
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let sender = Sender::new(&queue);
                    for number in 0..MESSAGES {
                        while append(&sender, &"m".repeat((number % 130) as usize)) == Appended::Full {
                            thread::yield_now();
                        }
                    }
                    sender.end();
                })
            })
            .collect();
        let mut jobs = 0_u64;
        while check_ended(&queue) < 4 * MESSAGES {
            queue.sweep(Duration::ZERO);
            if queue.next(300).is_some() {
                jobs += 1;
                queue.settle(jobs.is_multiple_of(2));
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (delivered, dropped, lost, open) = check(&queue);
        assert_eq!((delivered + dropped + lost, open), (4 * MESSAGES, 0));
        assert!(lost > 0 && delivered > 0, "{overflow:?}: {lost} lost, {delivered} delivered");
        assert!(overflow != Overflow::Block || dropped == 0, "{dropped} dropped");
    }
}

/// Returns the number of messages that were delivered, lost or dropped.
fn check_ended(queue: &Queue) -> u64 {
    let counts = queue.counts();
    counts.delivered + counts.lost + counts.dropped
}
