//! Dense expressions, eight at a time.
//!
//! An expression over boolean attributes alone that no gate holds back is looked at by every search. Its tests are
//! cheap, and what they cost is the processor's wrong guesses of where each leads. So they are run without a guess:
//! a test reads its attribute's mask, which is all ones where the test jumps and zero where it does not, and adds the
//! masked distance to its position. Eight chains of expressions, the lanes, take a test each in turn, so that eight
//! reads are under way at once; whether an expression came to its end, and how, makes no difference to the course.
//!
//! A lane is a chain of words. A test has its literal in the lower half and the distance of its jump in the upper. An
//! expression is its tests, then a word that marks it as true, then its slot; where it is false, its tests lead behind
//! that. The last word of a lane leads to itself.

use crate::event::Value;
use crate::expression::order::{Target, Test};
use crate::predicates::{PredicateId, Predicates, RecordKind};
use crate::schema::AttributeId;
use crate::subscriptions::Slot;

/// How many expressions are in flight.
pub(crate) const LANES: usize = 8;

/// Tests that each lane takes in a step of a search.
const ROUNDS: usize = 128;
/// Marks that a step may make.
const MARKS: usize = ROUNDS * LANES;

/// Literals that are none: one that always jumps, and the mark of a true expression.
const ALWAYS: u32 = 0;
const ACCEPT: u32 = 1;
const LITERALS: u32 = 2;
/// How many literals there can be, a power of two.
pub(crate) const MAX_LITERALS: usize = 4096;
const MAX_ATTRIBUTE: AttributeId = (MAX_LITERALS as u32 - LITERALS) / 2 - 1;
/// An expression has fewer words than this; longer ones run as programs.
pub(crate) const MAX_WORDS: usize = 512;
/// The end of a lane leads one word back from the next.
const END: u32 = ALWAYS | 0xffff << 16;

/// Where an expression is: its lane and its first word there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePlace {
    lane: u16,
    /// How many words it has there.
    words: u16,
    start: u32,
}

/// How far each lane has come in a search.
pub(crate) type Positions = [u32; LANES];

#[derive(Clone, Debug)]
struct Lane {
    words: Vec<u32>,
    /// The first word of each expression, ascending, and whether it is still there.
    members: Vec<(u32, bool)>,
    /// Words of expressions that are no longer there.
    dead: usize,
}

/// The lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    lanes: [Lane; LANES],
    expressions: usize,
}

impl Default for Lane {
    fn default() -> Self {
        Lane { words: vec![END], members: Vec::new(), dead: 0 }
    }
}

/// Expressions that moved, by slot, and where they are now.
pub(crate) type Moved = Vec<(Slot, LanePlace)>;

impl Lanes {
    /// How many expressions there are.
    pub fn len(&self) -> usize {
        self.expressions
    }

    /// The attributes of `tests`, if they can run here: if all test booleans, and are not too many.
    pub fn attributes(tests: &[Test], predicates: &Predicates) -> Option<Vec<AttributeId>> {
        if tests.len() + 2 >= MAX_WORDS {
            return None;
        }
        tests.iter().map(|test| boolean(test.literal.predicate, predicates)).collect()
    }

    /// Appends the expression `slot` to the shortest lane; `attributes` are those of its tests.
    pub fn insert(&mut self, slot: Slot, tests: &[Test], attributes: &[AttributeId]) -> LanePlace {
        let lane = (0..LANES).min_by_key(|&lane| self.lanes[lane].words.len() - self.lanes[lane].dead).unwrap_or(0);
        let held = &mut self.lanes[lane];
        held.words.pop();
        let start = held.words.len() as u32;
        let accept = tests.len();
        let words = accept + 2;
        for (position, (test, attribute)) in tests.iter().zip(attributes).enumerate() {
            let target = match test.target {
                Target::Test(next) => next as usize,
                Target::Done(true) => accept,
                Target::Done(false) => accept + 2,
            };
            // Behind the last test stands the mark, so that one jumps where the expression is false.
            let is_last = position + 1 == tests.len();
            let on = (test.on != test.literal.negated) != is_last;
            let target = if is_last { accept + 2 } else { target };
            let literal = LITERALS + 2 * attribute + u32::from(on);
            held.words.push(literal | ((target - position - 1) as u32) << 16);
        }
        held.words.extend([ACCEPT | 1 << 16, slot, END]);
        held.members.push((start, true));
        self.expressions += 1;
        LanePlace { lane: lane as u16, words: words as u16, start }
    }

    /// Takes out the expression at `place`. Where its lane is half dead it closes up, and tells what moved.
    pub fn remove(&mut self, place: LanePlace) -> Moved {
        self.expressions -= 1;
        let lane = &mut self.lanes[place.lane as usize];
        let member = lane.member(place);
        lane.members[member].1 = false;
        let len = lane.end_of(member) - place.start as usize;
        lane.dead += len;
        lane.words[place.start as usize] = ALWAYS | (len as u32 - 1) << 16;
        if 2 * lane.dead > lane.words.len() {
            lane.close_up(place.lane)
        } else {
            Moved::new()
        }
    }

    /// The words of the expression at `place`: its tests, then the two that mark it as true.
    #[inline]
    pub fn words(&self, place: LanePlace) -> &[u32] {
        &self.lanes[place.lane as usize].words[place.start as usize..][..place.words as usize]
    }

    /// Moves every lane on by some tests from `positions`, marks the expressions that are true, and tells whether all
    /// lanes are at their ends.
    pub fn run(&self, positions: &mut Positions, masks: &Masks, marks: &mut Marks) -> bool {
        let lanes: [&[u32]; LANES] = std::array::from_fn(|lane| &*self.lanes[lane].words);
        let mut at: [usize; LANES] = positions.map(|position| position as usize);
        let mut count = 0;
        let mut at_end = false;
        let mut rounds = 0;
        while rounds < ROUNDS && !at_end {
            // Whether the lanes are at their ends is asked now and then, as it takes as long as a round.
            for _ in 0..8 {
                for lane in 0..LANES {
                    let word = lanes[lane][at[lane]];
                    let mask = masks.0[word as usize % MAX_LITERALS];
                    // Written always, and counted where it is a mark.
                    marks.list[count % MARKS] = (at[lane] * LANES + lane) as u32;
                    count += (mask >> 31) as usize;
                    at[lane] = at[lane].wrapping_add_signed(1 + isize::from((word >> 16 & mask) as u16 as i16));
                }
            }
            rounds += 8;
            at_end = (0..LANES).all(|lane| at[lane] + 1 == lanes[lane].len());
        }
        *positions = at.map(|at| at as u32);
        marks.count = count;
        at_end
    }

    /// Whether the expression at `place` is true, by itself.
    pub fn holds(&self, place: LanePlace, masks: &Masks) -> bool {
        let lane = &self.lanes[place.lane as usize];
        let words = &lane.words[..lane.end_of(lane.member(place))];
        let mut at = place.start as usize;
        // An expression that is false leads behind its end.
        while let Some(&word) = words.get(at) {
            if word as usize % MAX_LITERALS == ACCEPT as usize {
                return true;
            }
            at += 1 + (word >> 16 & masks.0[word as usize % MAX_LITERALS]) as usize;
        }
        false
    }

    /// Checks that the expressions are those at `places`; for tests.
    pub fn validate(&self, places: &[(Slot, LanePlace)]) -> Result<(), String> {
        if places.len() != self.expressions {
            return Err(format!("{} dense expressions are homes of {} subscriptions", self.expressions, places.len()));
        }
        for (slot, place) in places {
            let lane = &self.lanes[place.lane as usize];
            let member = lane.member(*place);
            if !lane.members[member].1 || lane.words[lane.end_of(member) - 1] != *slot {
                return Err(format!("slot {slot} is not at {place:?}"));
            }
        }
        Ok(())
    }

    /// The slots of the expressions that are marked.
    pub fn marked<'a>(&'a self, marks: &'a Marks) -> impl Iterator<Item = Slot> + 'a {
        let places = marks.list[..marks.count].iter().map(|&mark| mark as usize);
        places.map(|mark| self.lanes[mark % LANES].words[mark / LANES + 1])
    }

    /// Bytes that another expression may take to enlarge a lane.
    pub fn growth(&self) -> usize {
        let longest = self.lanes.iter().map(|lane| lane.words.capacity()).max().unwrap_or(0);
        2 * longest * size_of::<u32>()
    }
}

impl Lane {
    fn member(&self, place: LanePlace) -> usize {
        match self.members.binary_search_by_key(&place.start, |member| member.0) {
            Ok(member) => member,
            Err(_) => unreachable!("an expression of a lane is one of its members"),
        }
    }

    /// Where the words of a member end.
    fn end_of(&self, member: usize) -> usize {
        self.members.get(member + 1).map_or(self.words.len() - 1, |next| next.0 as usize)
    }

    /// Drops what is dead, and tells what moved.
    fn close_up(&mut self, lane: u16) -> Moved {
        let mut closed = Lane { words: Vec::with_capacity(self.words.len() - self.dead), ..Lane::default() };
        let mut moved = Moved::new();
        for member in 0..self.members.len() {
            let (start, is_there) = self.members[member];
            if is_there {
                let words = &self.words[start as usize..self.end_of(member)];
                let place = LanePlace { lane, words: words.len() as u16, start: closed.words.len() as u32 };
                closed.members.push((place.start, true));
                closed.words.extend_from_slice(words);
                moved.push((words[words.len() - 1], place));
            }
        }
        closed.words.push(END);
        *self = closed;
        moved
    }
}

/// For each literal the mask of its jump.
#[derive(Clone, Debug)]
pub(crate) struct Masks(Box<[u32; MAX_LITERALS]>);

impl Default for Masks {
    fn default() -> Self {
        let mut masks = Box::new([0; MAX_LITERALS]);
        masks[ALWAYS as usize] = 0xffff;
        // Over the slot behind the mark, and the bit that counts.
        masks[ACCEPT as usize] = 1 << 31 | 1;
        Masks(masks)
    }
}

impl Masks {
    /// Sets the masks for the values of an event.
    pub fn set(&mut self, values: &[Value]) {
        let pairs = self.0[LITERALS as usize..].chunks_exact_mut(2);
        for (pair, value) in pairs.zip(values) {
            let holds = *value == Value::Boolean(true);
            pair[0] = if holds { 0 } else { 0xffff };
            pair[1] = if holds { 0xffff } else { 0 };
        }
    }
}

/// Where a step found true expressions.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    list: Box<[u32; MARKS]>,
    count: usize,
}

impl Default for Marks {
    fn default() -> Self {
        Marks { list: Box::new([0; MARKS]), count: 0 }
    }
}

/// How many literals there are over so many attributes: behind some that are none, two for each attribute, of which one
/// jumps where it is not true and one where it is.
pub(crate) fn literals(attributes: usize) -> usize {
    MAX_LITERALS.min(LITERALS as usize + 2 * attributes)
}

/// The literal of a test.
#[inline]
pub(crate) fn literal(word: u32) -> usize {
    word as usize % MAX_LITERALS
}

/// By how many words a test jumps, beyond the next.
#[inline]
pub(crate) fn distance(word: u32) -> usize {
    (word >> 16) as usize
}

fn boolean(predicate: PredicateId, predicates: &Predicates) -> Option<AttributeId> {
    let record = predicates.record(predicate);
    (record.kind == RecordKind::True && record.attribute <= MAX_ATTRIBUTE).then_some(record.attribute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Literal;

    /// `a0 and a1`, as far as the first and the second attribute named are these.
    fn both(first: u32, second: u32) -> (Vec<Test>, Vec<AttributeId>) {
        let literal = |predicate| Literal { predicate, negated: false };
        let tests = vec![
            Test { literal: literal(0), on: false, target: Target::Done(false) },
            Test { literal: literal(1), on: true, target: Target::Done(true) },
        ];
        (tests, vec![first, second])
    }

    fn matching(lanes: &Lanes, values: &[Value]) -> Vec<Slot> {
        let mut masks = Masks::default();
        masks.set(values);
        let mut marks = Marks::default();
        let mut positions = Positions::default();
        let mut slots = Vec::new();
        loop {
            let at_end = lanes.run(&mut positions, &masks, &mut marks);
            slots.extend(lanes.marked(&marks));
            if at_end {
                slots.sort_unstable();
                return slots;
            }
        }
    }

    #[test]
    fn expressions_come_and_go_and_the_others_stay() {
        let mut lanes = Lanes::default();
        let mut places = Vec::new();
        for slot in 0..3000 {
            let (tests, attributes) = both(slot % 2, 2 + slot % 3);
            places.push(lanes.insert(slot, &tests, &attributes));
        }
        let values = [true, false, true, true, false].map(Value::Boolean);
        let expected = |slot: &Slot| slot.is_multiple_of(2) && slot % 3 != 2;
        assert_eq!(matching(&lanes, &values), (0..3000).filter(expected).collect::<Vec<_>>());
        for slot in (0..3000).filter(|slot| slot % 5 != 1) {
            for (moved, place) in lanes.remove(places[slot as usize]) {
                places[moved as usize] = place;
            }
        }
        let left: Vec<Slot> = (0..3000).filter(|slot| slot % 5 == 1).collect();
        assert_eq!(lanes.len(), left.len());
        let expected: Vec<Slot> = left.iter().copied().filter(expected).collect();
        assert_eq!(matching(&lanes, &values), expected);
        let mut masks = Masks::default();
        masks.set(&values);
        let alone: Vec<Slot> = left.into_iter().filter(|&slot| lanes.holds(places[slot as usize], &masks)).collect();
        assert_eq!(alone, expected);
    }
}
