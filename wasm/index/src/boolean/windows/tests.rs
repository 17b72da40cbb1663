use std::array::from_fn;

use crate::boolean::windows::leaves::{gather, pick, Picked, Selection};
use crate::boolean::windows::*;
use crate::compile::normal::{normalise, NormalNode, Normalised};
use crate::compile::Step;
use crate::oracle::random::Random;
use crate::support::simd::{Fastest, Portable};

/// Returns the normal form of a random expression. Each of the `attributes` is a predicate.
fn normal(random: &mut Random, leaves: usize, attributes: usize) -> Normal {
    let mut steps = Vec::new();
    push(random, leaves, attributes, &mut steps);
    match normalise(&steps) {
        Normalised::Tree(normal) => normal,
        Normalised::Constant(_) => unreachable!("there are no constants"),
    }
}

fn push(random: &mut Random, leaves: usize, attributes: usize, steps: &mut Vec<Step>) {
    if leaves == 1 {
        steps.push(Step::Predicate(random.below(attributes) as u32));
    } else {
        let left = 1 + random.below(leaves - 1);
        push(random, left, attributes, steps);
        push(random, leaves - left, attributes, steps);
        steps.push(if random.chance(50) { Step::And } else { Step::Or });
    }
    if random.chance(12) {
        steps.push(Step::Not);
    }
}

/// Returns the value of `normal`. `holds` says which attributes are true. It is the oracle.
fn value(normal: &Normal, index: NodeIndex, holds: &dyn Fn(u32) -> bool) -> bool {
    let mut children = normal.children(index).map(|child| value(normal, child, holds));
    match normal.node(index) {
        NormalNode::Literal(literal) => holds(literal.predicate) != literal.negated,
        NormalNode::And => children.all(|value| value),
        NormalNode::Or => children.any(|value| value),
    }
}

/// Returns the formula of `normal`. An attribute's column is a multiple of `spread`; one of every `unread` attributes has no
/// column.
fn formula(normal: &Normal, spread: u16, unread: u32) -> Formula {
    Formula::new(normal, |index| {
        let literal = normal.literal(index)?;
        let column = literal.predicate as u16 * spread;
        let is_read = literal.predicate % unread != unread - 1;
        is_read.then_some(Leaf { column, negated: literal.negated, probability: 0.5 })
    })
}

fn bits(columns: impl Iterator<Item = usize>) -> Bits {
    let mut bits = Bits::default();
    columns.for_each(|column| bits.0.as_flattened_mut()[column / 8] |= 1 << (column % 8));
    bits
}

/// Checks the windows with each kind of vector.
fn check<const N: usize>(windows: &Windows, columns: usize, expected: bool, pages: &[Page; N]) {
    check_with::<Fastest, N>(windows, columns, expected, &vectors(pages));
    check_with::<Portable, N>(windows, columns, expected, &vectors(pages));
}

/// Checks each window of `windows` by itself, and all of them in a block. The windows read `columns` columns.
fn check_with<V: Vector, const N: usize>(windows: &Windows, columns: usize, expected: bool, pages: &[V; N]) {
    let is_picked = N == 1 || N <= 4 && columns <= usize::from(NO_COLUMN);
    let mut block = Block::default();
    block.put(5, windows.lane(Slot::from_index(77), ProgramId::default(), is_picked));
    let Decided { holds, open } = block.decide(pages);
    assert!(holds & !(1 << 5) == 0 && open & !(1 << 5) == 0, "other lanes are empty");
    assert!(open != 0 || (holds != 0) == expected);
    if let Some(wide) = &windows.wide {
        let wide = Wide::new(wide, Rest::Program(ProgramId::default()));
        let (holds, open) = wide.decide(pages);
        assert!(open == 1 || (holds == 1) == expected);
        if let Some(whole) = &windows.whole {
            assert_eq!(Whole::new(whole, is_picked).decide(pages), u64::from(expected));
            if N == 4 {
                assert_eq!(Whole::new(whole, false).decide(pages), u64::from(expected));
            }
        }
    } else {
        assert_eq!(open, 0);
    }
    let Decided { holds, open } = settle(&block, pages, u64::MAX);
    assert!(open != 0 || (holds != 0) == expected);
    assert!(open == 0 || !windows.decide());
}

#[test]
fn windows_decide_nothing_wrongly_whatever_the_event() {
    let mut random = Random::new(1);
    let mut decided = 0;
    for round in 0..300 {
        let attributes = 1 + random.below(8);
        let most = [1, 6, 16, 40, 80][round % 5];
        let leaves = 1 + random.below(most);
        let normal = normal(&mut random, leaves, attributes);
        // One page, four pages, all pages; now and then with leaves that windows cannot read.
        let (spread, unread) = ([1, 70, 255][random.below(3)], [u32::MAX, 3][random.below(2)]);
        let windows = Windows::of(formula(&normal, spread, unread));
        decided += usize::from(windows.decide());
        for event in 0..1_u32 << attributes {
            let holds = |attribute| event >> attribute & 1 == 1;
            let expected = value(&normal, normal.root(), &holds);
            let bits = bits((0..attributes).filter(|&a| holds(a as u32)).map(|a| a * usize::from(spread)));
            let columns = attributes * usize::from(spread);
            check(&windows, columns, expected, &bits.0);
            if spread == 1 {
                check::<1>(&windows, columns, expected, bits.0.first_chunk().unwrap());
            }
            if spread <= 70 {
                check::<4>(&windows, columns, expected, bits.0.first_chunk().unwrap());
            }
        }
    }
    assert!((50..300).contains(&decided));
}

#[test]
fn windows_of_large_expressions_decide_most_events() {
    let mut random = Random::new(2);
    let (mut narrow, mut wide, mut events) = (0, 0, 0);
    for leaves in (50..300).step_by(5).chain([2000, 20_000]) {
        let normal = normal(&mut random, leaves, 128);
        let windows = Windows::of(formula(&normal, 1, u32::MAX));
        assert_eq!(windows.decide(), leaves <= 300);
        for _ in 0..50 {
            let event: Vec<bool> = (0..128).map(|_| random.chance(50)).collect();
            let expected = value(&normal, normal.root(), &|attribute| event[attribute as usize]);
            let bits = bits((0..128).filter(|&column| event[column]));
            check::<1>(&windows, 128, expected, bits.0.first_chunk().unwrap());
            narrow += windows.lane(Slot::default(), ProgramId::default(), true).open(&bits);
            let wide_window = Wide::new(windows.wide.as_ref().unwrap(), Rest::Program(ProgramId::default()));
            wide += wide_window.decide(&vectors::<Fastest, _>(&bits.0)).1;
            events += 1;
        }
    }
    // With other seeds, 18 to 25 % stay open, then 3 to 7 %.
    assert!(narrow * 3 < events && wide * 10 < events, "of {events}: {narrow} left open, then {wide}");
}

impl Lane {
    fn open(self, bits: &Bits) -> u64 {
        let mut block = Block::default();
        block.put(0, self);
        block.decide(&vectors::<Fastest, _>(&bits.0)).open
    }
}

/// Returns a bit of an event, or zero behind the last page.
fn bit(pages: &[Page], byte: usize, mask: u8) -> bool {
    pages.as_flattened().get(byte).is_some_and(|byte| byte & mask != 0)
}

fn random_pages<const N: usize>(random: &mut Random) -> [Page; N] {
    from_fn(|_| from_fn(|_| random.below(256) as u8))
}

#[test]
fn leaves_are_gathered_from_all_pages() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let selections = from_fn(|_| {
            from_fn(|_| Selection {
                bytes: from_fn(|_| random.below(256) as u8),
                masks: from_fn(|_| [0, 1 << random.below(8)][random.below(2)]),
            })
        });
        let pages = random_pages(&mut random);
        assert_gathered::<1>(&pages, &selections);
        assert_gathered::<4>(&pages, &selections);
        assert_gathered::<PAGES>(&pages, &selections);
    }
}

fn assert_gathered<const N: usize>(pages: &[Page; PAGES], selections: &[[Selection; 4]; 3]) {
    let pages: &[Page; N] = pages.first_chunk().unwrap();
    let expected = selections.map(|four| {
        four.map(|Selection { bytes, masks }| {
            let is_set = |place: usize| masks[place] == 0 || bit(pages, usize::from(bytes[place]), masks[place]);
            (0..BYTES).fold(0, |word, place| word | u16::from(is_set(place)) << place)
        })
    });
    assert_eq!(gather::<Portable, N, 3>(&vectors(pages), selections), expected);
    assert_eq!(gather::<Fastest, N, 3>(&vectors(pages), selections), expected);
}

#[test]
fn leaves_are_picked_from_all_pages() {
    let mut random = Random::new(5);
    for _ in 0..200 {
        let picked = from_fn(|_| from_fn(|_| random.below(256) as u8));
        let pages = random_pages(&mut random);
        assert_picked::<1>(&pages, &picked);
        assert_picked::<2>(&pages, &picked);
        assert_picked::<PAGES>(&pages, &picked);
    }
    assert_picked::<1>(&[[u8::MAX; BYTES]; PAGES], &[[NO_COLUMN; BYTES]; 4]);
}

fn assert_picked<const N: usize>(pages: &[Page; PAGES], picked: &[Picked; 4]) {
    let pages: &[Page; N] = pages.first_chunk().unwrap();
    let expected = picked.map(|columns| {
        let is_set = |column: u8| bit(pages, usize::from(column / 8), 1 << (column % 8));
        (0..BYTES).fold(0, |word, place| word | u16::from(is_set(columns[place])) << place)
    });
    assert_eq!(pick::<Portable, N>(&vectors(pages), picked), expected);
    assert_eq!(pick::<Fastest, N>(&vectors(pages), picked), expected);
}

#[test]
fn expressions_come_and_go_and_the_others_stay() {
    let mut random = Random::new(4);
    let mut dense = Dense { columns: Columns((0..20).map(AttributeId::from_index).collect()), ..Dense::default() };
    let forms: Vec<Normal> = (0..40).map(|leaves| normal(&mut random, 1 + leaves, 20)).collect();
    let windows: Vec<Windows> = forms.iter().map(|normal| Windows::of(formula(normal, 1, u32::MAX))).collect();
    // The position of each slot, if it has one.
    let mut places: Vec<Option<DensePosition>> = vec![None; 5000];
    for round in 0..3 {
        for (slot, place) in places.iter_mut().enumerate() {
            place
                .get_or_insert_with(|| dense.insert(Slot::from_index(slot), ProgramId::default(), &windows[slot % 40]));
        }
        if round == 0 {
            assert!(dense.parts.iter().flatten().all(|block| block.run().is_some()), "slots follow one another");
        }
        let (kept, stays) = ([3000, 70, 0][round], [60, 1, 0][round]);
        while dense.len() > kept {
            let slot = random.below(5000);
            let Some(position) = places[slot].filter(|_| !random.chance(stays)) else { continue };
            places[slot] = None;
            if let Some(moved) = dense.remove(position) {
                places[moved.index()] = Some(position);
            }
        }
        let held: Vec<(Slot, DensePosition)> =
            (0..).map(Slot::from_index).zip(&places).filter_map(|(slot, place)| Some((slot, (*place)?))).collect();
        dense.validate(&held).unwrap();
        let event: Vec<bool> = (0..20).map(|_| random.chance(50)).collect();
        let bits = bits((0..20).filter(|&column| event[column]));
        let holds = |slot: Slot| {
            let normal = &forms[slot.index() % 40];
            value(normal, normal.root(), &|attribute| event[attribute as usize])
        };
        let mut found = Vec::new();
        let mut visited = 0;
        for part in 0..dense.parts() {
            visited += dense.decide(part, &bits, |block, decided| {
                found.extend(ones(decided.holds).map(|lane| block.slot(lane)));
                assert_eq!(decided.open, 0);
            });
        }
        found.sort_unstable();
        let expected: Vec<Slot> = held.iter().map(|&(slot, _)| slot).filter(|&slot| holds(slot)).collect();
        assert_eq!((found, visited), (expected, held.len()));
        for (slot, position) in held {
            assert_eq!(dense.holds(position, &bits), Some(holds(slot)));
        }
    }
}
