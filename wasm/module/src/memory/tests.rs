use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::slice::from_raw_parts;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::allocator::ALLOCATOR;
use crate::arena::{tests::*, ARENA};
use crate::heap::HEAP;
use crate::linear::{self, FIRST, PAGE};
use crate::random::Random;

/// The word that fills blocks. No pointer or length of an allocator is this.
const SECRET: u64 = 0xa5b6_c7d8_e9fa_0b1c;

/// Returns a layout of a small size, or now and then of several pages.
fn random_layout(random: &mut Random) -> Layout {
    let most = [24, 200, 3_000, 200_000][random.below(4).min(random.below(4))];
    Layout::from_size_align(1 + random.below(most), 1 << random.below(7)).unwrap()
}

/// A block, and the seed of its content.
#[derive(Clone, Copy)]
struct Block {
    layout: Layout,
    seed: usize,
    of_search: bool,
}

/// The allocator, with a plain list of its blocks as the model.
struct Model {
    blocks: BTreeMap<usize, Block>,
    given: usize,
    is_searching: bool,
    _alone: MutexGuard<'static, ()>,
}

fn content(seed: usize, place: usize) -> u8 {
    SECRET.to_le_bytes()[(seed + place) % 8]
}

impl Model {
    /// Begins with an empty module. The lock runs one test at a time.
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        linear::renew();
        renew_arena();
        // SAFETY: this is the only test that uses the heap, and the last one has ended.
        unsafe { HEAP.renew() };
        Model { blocks: BTreeMap::new(), given: 0, is_searching: false, _alone: alone }
    }

    fn enter(&mut self, is_next: bool) {
        ARENA.enter(is_next);
        self.is_searching = true;
        if is_next {
            self.blocks.retain(|_, block| !block.of_search);
        }
    }

    fn leave(&mut self) {
        ARENA.leave();
        self.is_searching = false;
    }

    /// Checks a new block and fills it.
    fn add(&mut self, at: *mut u8, layout: Layout, of_search: bool) -> usize {
        let at = at as usize;
        let end = at + layout.size();
        assert_eq!(at % layout.align(), 0, "{layout:?} at {at:#x}");
        let inside = |start: usize, behind: usize| start <= at && end <= behind;
        assert!(inside(linear::address(FIRST), linear::end()) || of_search && is_in_first(at, end));
        let before = self.blocks.range(..end).next_back();
        assert!(before.is_none_or(|(start, block)| start + block.layout.size() <= at), "{layout:?} overlaps");
        self.given += 1;
        let block = Block { layout, seed: self.given, of_search };
        self.fill(at, &block, 0);
        self.blocks.insert(at, block);
        at
    }

    fn fill(&self, at: usize, block: &Block, from: usize) {
        for place in from..block.layout.size() {
            // SAFETY: the place is in the block.
            unsafe { (at as *mut u8).add(place).write(content(block.seed, place)) };
        }
    }

    fn check(&self, at: usize) {
        let block = self.blocks[&at];
        self.check_bytes(at, block.layout.size(), block.seed);
    }

    fn check_bytes(&self, at: usize, size: usize, seed: usize) {
        // SAFETY: the block has at least this size.
        let bytes = unsafe { from_raw_parts(at as *const u8, size) };
        assert!(bytes.iter().enumerate().all(|(place, byte)| *byte == content(seed, place)), "{at:#x} was changed");
    }

    fn check_all(&self) {
        self.blocks.keys().for_each(|at| self.check(*at));
    }

    /// Allocates. Returns `None` if memory is refused.
    fn alloc(&mut self, layout: Layout, zeroed: bool) -> Option<usize> {
        // SAFETY: the size is not 0.
        let at = unsafe {
            if zeroed {
                ALLOCATOR.alloc_zeroed(layout)
            } else {
                ALLOCATOR.alloc(layout)
            }
        };
        if at.is_null() {
            return None;
        }
        // SAFETY: the block has this size.
        let bytes = unsafe { from_raw_parts(at, layout.size()) };
        assert!(!zeroed || bytes.iter().all(|byte| *byte == 0));
        Some(self.add(at, layout, self.is_searching))
    }

    fn dealloc(&mut self, at: usize) {
        self.check(at);
        let block = self.blocks.remove(&at).unwrap();
        // SAFETY: the block was allocated with this layout.
        unsafe { ALLOCATOR.dealloc(at as *mut u8, block.layout) };
        // The arena reuses no memory before the next search, so the block stays listed.
        if block.of_search {
            self.blocks.insert(at, block);
        }
    }

    /// Reallocates. Returns `None` if memory is refused; the block is then as it was.
    fn realloc(&mut self, at: usize, size: usize) -> Option<usize> {
        self.check(at);
        let block = self.blocks[&at];
        // SAFETY: the block was allocated with this layout.
        let new = unsafe { ALLOCATOR.realloc(at as *mut u8, block.layout, size) };
        if new.is_null() {
            self.check(at);
            return None;
        }
        // A deletion shrinks tables in place.
        assert!(size > block.layout.size() || block.of_search || self.is_searching || new as usize == at);
        self.check_bytes(new as usize, size.min(block.layout.size()), block.seed);
        // The old block in the arena is left, not freed.
        if !block.of_search || new as usize == at {
            self.blocks.remove(&at);
        }
        let layout = Layout::from_size_align(size, block.layout.align()).unwrap();
        Some(self.add(new, layout, self.is_searching))
    }

    /// Returns one of the blocks.
    fn pick(&self, random: &mut Random, is_eligible: impl Fn(&Block) -> bool) -> Option<usize> {
        let eligible: Vec<usize> =
            self.blocks.iter().filter(|(_, block)| is_eligible(block)).map(|(at, _)| *at).collect();
        (!eligible.is_empty()).then(|| eligible[random.below(eligible.len())])
    }

    /// Runs a random operation of the module.
    fn step(&mut self, random: &mut Random) {
        let is_searching = self.is_searching;
        match random.below(20) {
            0 if is_searching => self.leave(),
            // Only a search that has begun continues.
            0 => self.enter(random.chance(70) || !ARENA.is_used()),
            1..=8 => {
                let zeroed = random.chance(30);
                self.alloc(random_layout(random), zeroed);
            }
            9..=14 => {
                // A search frees only blocks of searches. Everything else may also drop the result of one.
                if let Some(at) = self.pick(random, |block| block.of_search || !is_searching) {
                    self.dealloc(at);
                }
            }
            _ => {
                if let Some(at) = self.pick(random, |block| block.of_search || !is_searching) {
                    self.realloc(at, random_layout(random).size());
                }
            }
        }
    }

    /// Frees all blocks of the heap.
    fn free_all(&mut self) {
        let at: Vec<usize> = self.blocks.iter().filter(|(_, block)| !block.of_search).map(|(at, _)| *at).collect();
        at.into_iter().for_each(|at| self.dealloc(at));
    }
}

/// Returns whether linear memory contains any content of blocks.
fn has_secret() -> bool {
    let (start, end) = (linear::address(0), linear::end());
    // SAFETY: all pages exist, and nothing writes to them meanwhile.
    let bytes = unsafe { from_raw_parts(start as *const u8, end - start) };
    let secret = SECRET.to_le_bytes();
    bytes.windows(secret.len()).any(|window| window == secret)
}

#[test]
fn blocks_are_aligned_apart_and_unchanged_until_they_are_freed() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let mut model = Model::new();
        for step in 0..3_000 {
            model.step(random);
            if step % 200 == 0 {
                model.check_all();
            }
        }
        model.check_all();
        assert!(model.blocks.len() > 50 && model.given > 1_000);
    }
}

#[test]
fn a_refusal_changes_nothing_and_frees_nothing() {
    let mut refused = 0;
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let mut model = Model::new();
        linear::limit(FIRST + random.below(30));
        for _ in 0..3_000 {
            let given = model.given;
            let pages = linear::pages();
            model.step(random);
            refused += usize::from(given == model.given && pages == linear::pages());
            // Now and then the system has more.
            if random.chance(1) {
                linear::limit(linear::pages() + random.below(4));
            }
        }
        model.check_all();
    }
    assert!(refused > 1_000);
}

#[test]
fn freed_blocks_are_one_again() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let mut model = Model::new();
        for _ in 0..2_000 {
            match random.below(3) {
                0 => _ = model.alloc(random_layout(random), false),
                1 => _ = model.pick(random, |_| true).map(|at| model.realloc(at, random_layout(random).size())),
                _ => model.pick(random, |_| true).into_iter().for_each(|at| model.dealloc(at)),
            }
        }
        model.free_all();
        let pages = linear::pages();
        assert!(pages > FIRST + 5);
        // The allocator has some words of its own.
        let size = (pages - FIRST) * PAGE - 1024;
        assert!(model.alloc(Layout::from_size_align(size, 16).unwrap(), false).is_some());
        assert_eq!(linear::pages(), pages);
    }
}

#[test]
fn nothing_is_left_of_freed_blocks_nor_of_searches_that_are_wiped() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let mut model = Model::new();
        (0..2_000).for_each(|_| model.step(random));
        assert!(has_secret());
        if model.is_searching {
            model.leave();
        }
        model.free_all();
        ARENA.wipe();
        assert!(!has_secret());
        assert!(!first_has(|byte| byte != 0));
        assert!(!ARENA.is_used());
        // The next search has the same chunks.
        model.blocks.clear();
        let pages = linear::pages();
        model.enter(true);
        for _ in chunks() {
            model.alloc(Layout::from_size_align(PAGE / 2, 8).unwrap(), true).unwrap();
        }
        assert_eq!(linear::pages(), pages);
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

#[test]
fn each_search_has_the_memory_of_the_last_one() {
    let mut model = Model::new();
    let mut first = Vec::new();
    for search in 0..5 {
        model.enter(true);
        let blocks: Vec<usize> = [100, 40_000, 300_000, 8].map(|size| model.alloc(layout(size), false).unwrap()).into();
        model.leave();
        if search == 0 {
            first = blocks;
        } else {
            assert_eq!(blocks, first);
        }
    }
    // A search that continues keeps its blocks.
    model.enter(false);
    let more = model.alloc(layout(100), false).unwrap();
    assert!(!first.contains(&more));
    model.check_all();
}

#[test]
fn the_last_block_of_a_search_grows_in_place() {
    let mut model = Model::new();
    model.enter(true);
    let at = model.alloc(layout(100), false).unwrap();
    assert_eq!(model.realloc(at, 20_000), Some(at));
    let behind = model.alloc(layout(8), false).unwrap();
    assert!(behind >= at + 20_000);
    let moved = model.realloc(at, 20_008).unwrap();
    assert!(moved > behind);
    // Beyond the end of the chunk.
    assert_ne!(model.realloc(moved, 200_000), Some(moved));
}

#[test]
fn a_search_takes_what_it_needs_if_twice_as_much_is_refused() {
    let mut model = Model::new();
    model.enter(true);
    model.alloc(layout(10 * PAGE), false).unwrap();
    linear::limit(linear::pages() + 2);
    model.alloc(layout(PAGE), false).unwrap();
    assert_eq!(model.alloc(layout(10 * PAGE), false), None);
    // The chunks still have room for small blocks.
    let pages = linear::pages();
    model.alloc(layout(100), false).unwrap();
    assert_eq!(linear::pages(), pages);
    model.check_all();
}

#[test]
fn a_chunk_that_was_made_before_a_trap_is_used_once() {
    let mut model = Model::new();
    model.enter(true);
    model.alloc(layout(100), false).unwrap();
    let before = chunks().len();
    for _ in 0..2 {
        // Memory has grown, and the trap came before the chunk was listed, or before that was recorded.
        let page = if chunks().len() == before { linear::grow(4).unwrap() } else { linear::pages() - 4 };
        set_grown_from(page);
        model.enter(false);
        assert_eq!(chunks().len(), before + 1);
    }
    model.alloc(layout(3 * PAGE), false).unwrap();
    assert_eq!(linear::pages(), FIRST + 4);
    model.check_all();
    // Memory has not grown yet.
    set_grown_from(linear::pages());
    model.enter(false);
    assert_eq!(chunks().len(), before + 1);
}

#[test]
fn a_trap_between_two_chunks_loses_no_block() {
    let mut model = Model::new();
    model.enter(true);
    model.alloc(layout(30_000), false).unwrap();
    let large = model.alloc(layout(100_000), false).unwrap();
    assert_eq!(chunks().len(), 2);
    model.enter(true);
    model.alloc(layout(100), false).unwrap();
    let [first, second] = chunks()[..] else { unreachable!("there are two chunks") };
    // The first free address is already that of the next chunk.
    set_between(first, second);
    model.enter(false);
    assert_eq!(model.alloc(layout(100_000), false), Some(large));
    model.alloc(layout(100), false).unwrap();
    model.check_all();
}

#[test]
fn the_heap_borrows_the_memory_of_searches_if_there_is_no_other() {
    let mut model = Model::new();
    model.enter(true);
    model.alloc(layout(5 * PAGE), false).unwrap();
    model.leave();
    let chunk = chunks()[1];
    linear::limit(linear::pages());
    assert_eq!(model.alloc(layout(4 * PAGE), false), None);
    ARENA.lend(true);
    // No search is in progress, so its blocks are dead.
    model.blocks.clear();
    let lent = model.alloc(layout(4 * PAGE), true).unwrap();
    assert!(lent > chunk && lent + 4 * PAGE <= linear::end());
    assert_eq!(chunks().len(), 1);
    assert_eq!(model.alloc(layout(4 * PAGE), false), None);
    // The next search has only its first chunk.
    model.leave();
    model.enter(true);
    model.alloc(layout(20_000), false).unwrap();
    assert_eq!(model.alloc(layout(5 * PAGE), false), None);
    model.leave();
    model.check_all();
    // It is lent for one change only.
    linear::limit(usize::MAX);
    model.enter(true);
    model.alloc(layout(5 * PAGE), false).unwrap();
    model.leave();
    linear::limit(linear::pages());
    while model.alloc(layout(1000), false).is_some() {}
    assert_eq!(chunks().len(), 2);
}

#[test]
fn a_large_heap_grows_by_large_pages_while_it_may() {
    const LARGE: usize = 32;
    let mut model = Model::new();
    model.alloc(layout(100), false).unwrap();
    assert!(linear::pages() < FIRST + LARGE);
    let most = Layout::from_size_align(16 * LARGE * PAGE, 16).unwrap();
    // SAFETY: the size is not 0, and the block is freed as it was allocated.
    unsafe {
        let block = HEAP.alloc(most);
        assert!(!block.is_null());
        let pages = linear::pages();
        assert!(pages >= 16 * LARGE);
        let small = HEAP.alloc(layout(40 * PAGE));
        assert!(!small.is_null() && linear::pages() > pages);
        assert_eq!(linear::pages() % LARGE, 0);
        // If a whole large page is refused, the heap takes a part of it.
        linear::limit(linear::pages() + LARGE - 1);
        let last = HEAP.alloc(layout((LARGE - 4) * PAGE));
        assert!(!last.is_null() && !linear::pages().is_multiple_of(LARGE));
        HEAP.dealloc(last, layout((LARGE - 4) * PAGE));
        HEAP.dealloc(small, layout(40 * PAGE));
        HEAP.dealloc(block, most);
    }
    model.check_all();
}

#[test]
fn what_was_allocated_since_a_mark_is_allocated_again() {
    let mut model = Model::new();
    model.enter(true);
    let before = model.alloc(layout(1_000), false).unwrap();
    let mark = ARENA.mark();
    let first = taken(layout(500));
    // Beyond the first chunk, and the next one.
    let far = taken(layout(3 * PAGE));
    assert!(far > first);
    ARENA.back_to(mark);
    assert_eq!(taken(layout(500)), first);
    assert_eq!(taken(layout(3 * PAGE)), far);
    model.check(before);
    model.leave();
}

/// Allocates a block that the model does not know, and returns its address.
fn taken(layout: Layout) -> usize {
    // SAFETY: the size of the layout is not 0.
    unsafe { ALLOCATOR.alloc(layout) as usize }
}
