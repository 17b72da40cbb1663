//! Changes at every limit of memory: each succeeds, or is refused and changes nothing, and deletions always succeed.
//!
//! The allocator of this program is that of the sandbox, over memory that the test limits.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;
use dlmalloc::{Allocator, Dlmalloc};
use support::random::Random;

const PAGE: usize = 64 * 1024;
/// All memory that there is for the indexes under test.
const ALL: usize = 1 << 30;

/// Where the memory of the heap begins, how much of it is taken, and how much may be.
static BASE: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How many requests for pages are granted before one is refused, and whether all after it are.
static GRANTED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether what is allocated is of an index under test.
static TESTED: AtomicBool = AtomicBool::new(false);

struct Pages;

// SAFETY: what it gives is fresh memory of one large block that only it has, and never takes back.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if BASE.load(Relaxed) == 0 {
            // SAFETY: the size is not 0 and the alignment a power of two.
            let base = unsafe { System.alloc_zeroed(Layout::from_size_align(ALL, PAGE).unwrap()) };
            BASE.store(base as usize, Relaxed);
        }
        let (taken, size) = (TAKEN.load(Relaxed), size.next_multiple_of(PAGE));
        let granted = GRANTED.load(Relaxed);
        if taken + size > LIMIT.load(Relaxed).min(ALL) || granted == 0 {
            return (null_mut(), 0, 0);
        }
        if granted != usize::MAX {
            GRANTED.store(granted - 1, Relaxed);
        }
        TAKEN.store(taken + size, Relaxed);
        ((BASE.load(Relaxed) + taken) as *mut u8, size, 0)
    }
    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }
    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }
    fn can_release_part(&self, _: u32) -> bool {
        false
    }
    fn allocates_zeros(&self) -> bool {
        false
    }
    fn page_size(&self) -> usize {
        PAGE
    }
}

struct Heap(UnsafeCell<Dlmalloc<Pages>>);

// SAFETY: one test runs in this program, and allocates from the heap on its own thread (`TESTED`).
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)));

thread_local! {
    /// Whether this thread is the one that runs the test.
    static IS_TESTING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Heap {
    fn has(pointer: *mut u8) -> bool {
        let base = BASE.load(Relaxed);
        base != 0 && (base..base + ALL).contains(&(pointer as usize))
    }
}

// SAFETY: each block is of the heap or of the system, and its address tells of which.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if TESTED.load(Relaxed) && IS_TESTING.get() {
            // SAFETY: the caller's promise; one thread comes here.
            unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if Self::has(pointer) {
            // SAFETY: the caller's promise; one thread comes here.
            unsafe { (*self.0.get()).free(pointer, layout.size(), layout.align()) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // As the sandbox does it: a shorter block stays where it is, and a longer one is a copy.
        if Self::has(pointer) && size <= layout.size() {
            // SAFETY: the caller's promise; one thread comes here.
            return unsafe { (*self.0.get()).realloc(pointer, layout.size(), layout.align(), size) };
        }
        // SAFETY: the caller's promise; the blocks are distinct, and as large as what is copied.
        unsafe {
            let block = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !block.is_null() {
                block.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            block
        }
    }
}

/// Runs `operation` with what it allocates on the heap under test, up to `limit` bytes of it and `granted` requests for
/// pages from now on.
fn limited<T>(limit: usize, granted: usize, operation: impl FnOnce() -> T) -> T {
    LIMIT.store(limit, Relaxed);
    GRANTED.store(granted, Relaxed);
    TESTED.store(true, Relaxed);
    let result = operation();
    TESTED.store(false, Relaxed);
    result
}

const FREELY: usize = usize::MAX;

/// Begins with a heap that has no memory. Nothing of the former one may be left.
fn begin_anew() {
    TAKEN.store(0, Relaxed);
    // SAFETY: no block of the former heap is used any more, and one thread comes here.
    unsafe { *HEAP.0.get() = Dlmalloc::new_with_allocator(Pages) };
}

fn schema() -> Schema {
    let attribute = |name: String, ty, optional| Attribute { name, ty, optional, bounds: Bounds::Unbounded };
    let mut attributes = vec![
        attribute("s".into(), Type::String, true),
        attribute("i".into(), Type::Integer, true),
        attribute("f".into(), Type::Float, true),
        attribute("il".into(), Type::IntegerList, true),
    ];
    attributes.extend((0..40).map(|number| attribute(format!("b{number}"), Type::Boolean, number % 2 == 0)));
    attributes.extend((0..10).map(|number| attribute(format!("t{number}"), Type::String, true)));
    Schema::new(attributes).unwrap()
}

fn many(count: usize, by: &str, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(by)
}

/// Expressions that take much memory, each in its own way, `size` times as much.
fn adversaries(size: usize) -> Vec<String> {
    let list = |from: usize, count: usize| many(count, ", ", |number| (from + number).to_string());
    vec![
        many(20 * size, " or ", |number| format!("s = 'a string of more than twenty-six bytes {number}'")),
        many(20 * size, " or ", |number| format!("s = 'x{number}'")),
        many(8 * size, " and ", |number| format!("t{} <> 'y{number}'", number % 10)),
        many(8 * size, " or ", |number| {
            format!("(i = {number} and b{} and t{} = 'z{number}')", number % 40, number % 10)
        }),
        format!("i in ({}) and s in ({})", list(0, 10 * size), many(3 * size, ", ", |n| format!("'x{n}'"))),
        format!("il all of ({})", list(0, 30 * size)),
        format!("il one of ({})", list(1 << 40, 20 * size)),
        format!("{}b0{}", "not (".repeat(20 * size), ")".repeat(20 * size)),
        format!("{}i > 3{}", "(b1 and (i < 9 or ".repeat(4 * size), "))".repeat(4 * size)),
        many(10 * size, " or ", |number| format!("(b{} and not b{})", number % 40, (number * 7 + 1) % 40)),
        many(8 * size, " or ", |number| format!("(i > {number} and i < {} and f > {number}.5)", 2 * number + 9)),
    ]
}

fn small(random: &mut Random, number: usize) -> String {
    let value = random.below(60);
    match random.below(7) {
        0 => format!("s = 'x{value}' and i > {value}"),
        1 => format!("i > {value} and i <= {} and b{}", value + 5, value % 40),
        2 => format!("t{} in ('a{value}', 'b{number}') or f < {value}.25", value % 10),
        3 => format!("b{} and (b{} or not b{})", value % 40, (value + 3) % 40, (value + 17) % 40),
        4 => format!("il one of ({value}, {number}) and t1 = 'a{value}'"),
        5 => format!("s <> 'x{value}' and t{} = 'c{value}'", value % 10),
        _ => format!("f > {value}.5 and f < {}.5 and t2 = 'a{}'", value + 3, value % 3),
    }
}

/// All that an index tells of itself and of some events.
fn digest(index: &Index) -> Vec<u64> {
    index.validate().unwrap();
    let mut search = Search::default();
    search.reserve(index).unwrap();
    let mut digest = vec![index.len() as u64, index.info().predicates as u64, index.info().strings as u64];
    for event in 0..6 {
        let booleans = (0..40).map(|number| format!(r#""b{number}": {}"#, (number * 5 + event) % 3 == 0));
        let rest = format!(
            r#""s": "x{event}", "i": {}, "f": {event}.75, "il": [{event}, 9], "t1": "a{event}", "t2": "a1""#,
            event * 7
        );
        let json = format!("{{{}, {rest}}}", booleans.collect::<Vec<_>>().join(", "));
        search.open(index, Format::Json, json.as_bytes(), None::<std::iter::Empty<u64>>).unwrap();
        digest.extend(search.run(index).ids());
        digest.push(u64::MAX);
    }
    digest
}

fn insertion(id: u64, text: &str) -> Insertion<'_> {
    Insertion { id, text: text.as_bytes(), constants: vec![] }
}

/// Inserts `text` into an index at each limit between what it holds and what the insertion needs, and deletes it at the one at
/// which it is taken. Returns how many refused it.
fn insert_at_every_limit(index: &mut Index, id: u64, text: &str, by_requests: bool) -> usize {
    let before = digest(index);
    let held = TAKEN.load(Relaxed);
    let mut refusals = 0;
    for step in 0.. {
        // So many requests for pages are granted and all others refused, or so many pages are there.
        let (limit, granted) = if by_requests { (FREELY, step) } else { (held + step * PAGE, FREELY) };
        let inserted = limited(limit, granted, || index.insert(&insertion(id, text)));
        match inserted {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind, Kind::OutOfMemory, "{}", error.message),
        }
        assert_eq!(digest(index), before, "{step} {}", &text[..text.len().min(60)]);
        refusals += 1;
    }
    index.validate().unwrap();
    // Whatever is there can be deleted in what memory there is now.
    let limit = TAKEN.load(Relaxed);
    limited(limit, FREELY, || index.delete(id)).unwrap();
    assert_eq!(digest(index), before);
    refusals
}

#[test]
fn changes_succeed_or_are_refused_and_change_nothing() {
    IS_TESTING.set(true);
    let random = &mut Random::new(26);
    let mut refusals = 0;
    for texts in [0, 60] {
        for (number, adversary) in adversaries(60).iter().enumerate() {
            begin_anew();
            let mut index = limited(FREELY, FREELY, || Index::new(schema()));
            for id in 0..texts {
                let text = small(random, id as usize);
                limited(FREELY, FREELY, || index.insert(&insertion(id, &text))).unwrap();
            }
            refusals += insert_at_every_limit(&mut index, 1 << 40 | number as u64, adversary, number % 2 == 1);
            // Up to the limit, then all deleted.
            let limit = TAKEN.load(Relaxed);
            let mut held: Vec<u64> = (0..texts).collect();
            for id in texts..texts + 150 {
                let text = if id % 25 == 0 { adversaries(5)[number].clone() } else { small(random, id as usize) };
                match limited(limit, FREELY, || index.insert(&insertion(id, &text))) {
                    Ok(()) => held.push(id),
                    Err(error) => assert_eq!(error.kind, Kind::OutOfMemory),
                }
            }
            index.validate().unwrap();
            random.shuffle(&mut held);
            for (count, &id) in held.iter().enumerate() {
                limited(limit, FREELY, || index.delete(id)).unwrap();
                if count % 100 == 0 {
                    index.validate().unwrap();
                }
            }
            assert!(index.is_empty());
            index.validate().unwrap();
            limited(limit, FREELY, || drop(index));
        }
    }
    assert!(refusals > 100, "{refusals}");
}
