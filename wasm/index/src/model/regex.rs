//! Regular expressions by I-Regexp (RFC 9485), which match whole strings.
//!
//! The automaton is our own for two reasons. A search must match without allocating, and without a cache of states that a
//! trap could leave half changed. And the index needs the required literals of a pattern.
//!
//! A pattern becomes a nondeterministic automaton (Thompson 1968) of bounded size. A match follows all paths through it at
//! once, so its time is at most linear in the string times the automaton, for any pattern. It allocates nothing.
//!
//! A pattern has *required literals*: texts that every matching string contains, in this order. A search looks for them, and
//! runs the automaton of a pattern only if the string has one of them. If they are short or missing, the matches may still
//! start with one of a few prefixes, the pattern's *beginnings*, such as `GET` and `POST`. A search then looks for these.

use std::hash::{Hash, Hasher};

use crate::model::categories::{each_run, mask_of};
use crate::model::wildcard::{literals, ANY};
use crate::support::footprint::of_slice;
use crate::support::headroom::AROUND;
use crate::support::heap_sort::sort;

/// The maximum number of states of an automaton.
pub const MAX_STATES: usize = 1000;
/// The maximum number of character ranges in all classes of an automaton.
const MAX_RANGES: usize = 4000;
/// The maximum nesting of groups.
pub const MAX_NESTING: usize = 50;
/// The maximum number of bytes of required literals.
const MAX_REQUIRED_BYTES: usize = 256;
/// The length from which a required literal leads to the pattern, even if beginnings are longer: patterns with a common
/// beginning may have different literals.
const MIN_SELECTIVE_BYTES: usize = 4;
/// The maximum number of beginnings of a pattern, and of bytes of each. A search does one look-up for each length.
const MAX_BEGINNINGS: usize = 16;
const MAX_BEGINNING_BYTES: usize = 8;
/// The depth below which parts of a pattern have no beginnings. It bounds the memory of the analysis.
const MAX_BEGINNING_DEPTH: usize = 12;

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Regex {
    text: Box<[u8]>,
    states: Box<[State]>,
    /// The code points of all classes, as inclusive ranges.
    ranges: Box<[(u32, u32)]>,
    required: Box<[u8]>,
    /// The beginnings, if a search finds the pattern by them.
    beginnings: Box<[Box<[u8]>]>,
}

/// The texts by which a search finds the patterns that a string may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead<'a> {
    /// Every match begins with one of these texts, none of which is empty.
    Beginnings(&'a [Box<[u8]>]),
    /// Every match contains the [required literals](Regex::required).
    Required(&'a [u8]),
    Nothing,
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Regex {}

impl Hash for Regex {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// A fault of a pattern: its position and its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position in the pattern.
    pub at: usize,
    /// The fault and its remedy.
    pub message: String,
    /// The pattern is valid but too large.
    pub is_limit: bool,
}

/// A state of the automaton. Each `u16` is the number of a next state.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Takes this character.
    Character(char, u16),
    /// Takes any character but `\n` and `\r`.
    Any(u16),
    /// Takes a character of the ranges at the positions from `from` to before `to`. They are ascending and disjoint.
    Class {
        from: u32,
        to: u32,
        next: u16,
    },
    Split(u16, u16),
    Jump(u16),
    Match,
}

/// A part of a character class.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    /// Characters from the first to the second, both included.
    Range(char, char),
    /// Characters of the general categories in the bit mask, or of all others.
    Categories { mask: u32, is_negated: bool },
}

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Node {
    Character(char),
    Any,
    Class(Vec<(u32, u32)>),
    Concatenation(Vec<Node>),
    Alternatives(Vec<Node>),
    /// Repeats from `least` to `most` times, or without a limit.
    Repetition {
        node: Box<Node>,
        least: usize,
        most: Option<usize>,
    },
}

impl Regex {
    /// Parses a regular expression.
    ///
    /// ```
    /// use be_tree_index::model::regex::Regex;
    ///
    /// let regex = Regex::parse("GET /users/[0-9]+(/.*)?").unwrap();
    /// assert!(regex.matches(b"GET /users/42"));
    /// assert!(!regex.matches(b"GET /users/42?x"));
    /// assert_eq!(Regex::parse("a(b").unwrap_err().at, 1);
    /// ```
    ///
    /// # Errors
    ///
    /// The [`Fault`] has the position and the reason.
    pub fn parse(text: &str) -> Result<Regex, Fault> {
        let mut parser = Parser { text, at: 0, nesting: 0 };
        let node = parser.alternatives()?;
        if let Some(left) = parser.peek() {
            return Err(parser
                .fault(parser.at, format!("no `(` is open for this `{left}`; write `\\{left}` for the character")));
        }
        let mut compiler = Compiler { states: Vec::new(), ranges: Vec::new(), classes: Vec::new() };
        let is_small = compiler.node(&node) && compiler.push(State::Match);
        if !is_small {
            let message = format!(
                "the pattern takes more than {MAX_STATES} states or {MAX_RANGES} ranges of characters; shorten it, or repeat less"
            );
            return Err(Fault { at: 0, message, is_limit: true });
        }
        let required = required_of(&node).joined();
        let longest = literals(&required).map(|(_, literal)| literal.len()).max().unwrap_or(0);
        let mut beginnings = if longest < MIN_SELECTIVE_BYTES { beginnings(&node) } else { Vec::new() };
        beginnings = if beginnings.iter().all(|text| text.len() > longest) { beginnings } else { Vec::new() };
        let Compiler { states, ranges, .. } = compiler;
        Ok(Regex {
            text: text.as_bytes().into(),
            states: states.into(),
            ranges: ranges.into(),
            required,
            beginnings: beginnings.into(),
        })
    }

    /// Returns the text of the pattern.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the required literals, as a pattern of [`wildcard`](crate::model::wildcard) that every matching string fits.
    /// It is empty if there are none.
    pub fn required(&self) -> &[u8] {
        &self.required
    }

    /// Returns the texts by which a search finds the pattern.
    pub(crate) fn lead(&self) -> Lead<'_> {
        match (&*self.beginnings, &*self.required) {
            ([], []) => Lead::Nothing,
            ([], required) => Lead::Required(required),
            (beginnings, _) => Lead::Beginnings(beginnings),
        }
    }

    /// Returns the bytes of memory that the expression takes.
    pub(crate) fn bytes(&self) -> usize {
        let tables = size_of_val(&*self.states) + size_of_val(&*self.ranges);
        let beginnings = self.beginnings.iter().map(|text| size_of_val(text) + text.len() + AROUND);
        tables + self.text.len() + self.required.len() + beginnings.sum::<usize>()
    }

    /// Returns the heap bytes of the expression.
    pub(crate) fn heap_bytes(&self) -> usize {
        let Regex { text, states, ranges, required, beginnings } = self;
        let beginning_texts = beginnings.iter().map(|text| of_slice(text));
        let tables = of_slice(text) + of_slice(states) + of_slice(ranges) + of_slice(required);
        tables + of_slice(beginnings) + beginning_texts.sum::<usize>()
    }

    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Returns whether the whole string matches. Each invalid sequence of UTF-8 counts as one U+FFFD.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        // Most automata are small, and clearing the sets of the largest ones takes longer than most matches.
        match self.states.len() {
            0..=MAX_SMALL_STATES => self.follow(
                bytes,
                &mut [0; MAX_SMALL_STATES],
                &mut [0; MAX_SMALL_STATES],
                &mut [0; open(MAX_SMALL_STATES)],
            ),
            _ => self.follow(bytes, &mut [0; MAX_STATES], &mut [0; MAX_STATES], &mut [0; open(MAX_STATES)]),
        }
    }

    /// [`Regex::matches`] with memory for two sets of states, and for a stack of states to enter.
    fn follow(&self, bytes: &[u8], one: &mut [u16], other: &mut [u16], open: &mut [u16]) -> bool {
        let mut now = Set::new(one);
        let mut next = Set::new(other);
        self.enter(0, &mut now, open);
        for chunk in bytes.utf8_chunks() {
            let faulty = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            for character in chunk.valid().chars().chain(faulty) {
                next.clear();
                for &state in now.states() {
                    if let Some(to) = self.step(self.states[usize::from(state)], character) {
                        self.enter(to, &mut next, open);
                    }
                }
                if next.states().is_empty() {
                    return false;
                }
                std::mem::swap(&mut now, &mut next);
            }
        }
        now.states().iter().any(|&state| matches!(self.states[usize::from(state)], State::Match))
    }

    fn step(&self, state: State, character: char) -> Option<u16> {
        match state {
            State::Character(wanted, next) => (wanted == character).then_some(next),
            State::Any(next) => (!matches!(character, '\n' | '\r')).then_some(next),
            State::Class { from, to, next } => {
                let ranges = &self.ranges[from as usize..to as usize];
                let code = u32::from(character);
                let behind = ranges.partition_point(|&(first, _)| first <= code);
                behind.checked_sub(1).is_some_and(|at| code <= ranges[at].1).then_some(next)
            }
            State::Split(..) | State::Jump(_) | State::Match => None,
        }
    }

    /// Adds a state and its closure: all states that it leads to without taking a character.
    fn enter(&self, first: u16, set: &mut Set, open: &mut [u16]) {
        open[0] = first;
        let mut len = 1;
        while len > 0 {
            len -= 1;
            let state = open[len];
            if !set.insert(state) {
                continue;
            }
            match self.states[usize::from(state)] {
                State::Split(one, other) => {
                    open[len] = other;
                    open[len + 1] = one;
                    len += 2;
                }
                State::Jump(to) => {
                    open[len] = to;
                    len += 1;
                }
                _ => {}
            }
        }
    }
}

/// Returns the ranges of code points of a class, ascending and disjoint.
fn ranges_of(items: &[Item], is_negated: bool) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    for &item in items {
        match item {
            Item::Range(first, last) => ranges.push((u32::from(first), u32::from(last))),
            Item::Categories { mask, is_negated } => {
                let mask = if is_negated { !mask } else { mask };
                each_run(mask, |first, last| ranges.push((first, last)));
            }
        }
    }
    sort(&mut ranges, |a, b| a < b);
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1 + 1;
        kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
        joins
    });
    if !is_negated {
        return ranges;
    }
    let mut others = Vec::new();
    let mut next = 0;
    for (first, last) in ranges {
        if next < first {
            others.push((next, first - 1));
        }
        next = last + 1;
    }
    if next <= u32::from(char::MAX) {
        others.push((next, u32::from(char::MAX)));
    }
    others
}

/// The maximum number of states of a small automaton.
const MAX_SMALL_STATES: usize = 64;

/// Returns the maximum size of the stack of states to enter: each state pushes at most two, once.
const fn open(states: usize) -> usize {
    2 * states + 2
}

/// A set of states, in the order in which they were inserted.
struct Set<'a> {
    states: &'a mut [u16],
    len: usize,
    has: [u64; MAX_STATES.div_ceil(64)],
}

impl<'a> Set<'a> {
    fn new(states: &'a mut [u16]) -> Self {
        Set { states, len: 0, has: [0; MAX_STATES.div_ceil(64)] }
    }

    fn states(&self) -> &[u16] {
        &self.states[..self.len]
    }

    fn clear(&mut self) {
        for &state in &self.states[..self.len] {
            self.has[usize::from(state / 64)] = 0;
        }
        self.len = 0;
    }

    fn insert(&mut self, state: u16) -> bool {
        let word = &mut self.has[usize::from(state / 64)];
        let bit = 1 << (state % 64);
        let is_new = *word & bit == 0;
        if is_new {
            *word |= bit;
            self.states[self.len] = state;
            self.len += 1;
        }
        is_new
    }
}

/// Reads the grammar of RFC 9485. It recurses at most [`MAX_NESTING`] times.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    nesting: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn fault(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into(), is_limit: false }
    }

    fn alternatives(&mut self) -> Result<Node, Fault> {
        let mut branches = vec![self.branch()?];
        while self.take_if('|') {
            branches.push(self.branch()?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternatives(branches) })
    }

    /// Reads an alternative. A `^` at its start and a `$` at its end are plain characters in RFC 9485. Users nearly always
    /// mean anchors, and the pattern would then match nothing.
    fn branch(&mut self) -> Result<Node, Fault> {
        if self.peek() == Some('^') {
            return Err(self.anchor(
                "leave the `^` out, and write `.*` at the end if more may follow; write `\\^` for the character",
            ));
        }
        let mut pieces = Vec::new();
        while let Some(next) = self.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            if next == '$' && matches!(self.text[self.at + 1..].chars().next(), None | Some('|' | ')')) {
                return Err(self.anchor("leave the `$` out, and write `.*` at the start if more may come before; write `[$]` for the character"));
            }
            let atom = self.atom()?;
            pieces.push(self.quantified(atom)?);
        }
        Ok(Node::Concatenation(pieces))
    }

    fn anchor(&self, mend: &str) -> Fault {
        self.fault(self.at, format!("there are no anchors, because a match is the whole string: {mend}"))
    }

    fn quantified(&mut self, node: Node) -> Result<Node, Fault> {
        let at = self.at;
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.take();
                let least = self.count()?;
                let most = match self.take_if(',') {
                    true if self.peek() == Some('}') => None,
                    true => Some(self.count()?),
                    false => Some(least),
                };
                if self.peek() != Some('}') {
                    return Err(self.fault(
                        at,
                        "this `{` has no `}` behind its one or two numbers; write `\\{` for the character",
                    ));
                }
                if most.is_some_and(|most| most < least) {
                    return Err(self.fault(at, "the second number is less than the first; exchange them"));
                }
                (least, most)
            }
            _ => return Ok(node),
        };
        self.take();
        if let Some(again @ ('*' | '+' | '?' | '{')) = self.peek() {
            let message = format!("`{again}` follows a quantifier; put parentheses around the part that it repeats");
            return Err(self.fault(self.at, message));
        }
        Ok(Node::Repetition { node: Box::new(node), least, most })
    }

    fn count(&mut self) -> Result<usize, Fault> {
        let at = self.at;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.take();
        }
        match self.text[at..self.at].parse() {
            Ok(count) if count <= MAX_STATES => Ok(count),
            Ok(_) => Err(Fault { at, message: format!("write a number of at most {MAX_STATES}"), is_limit: true }),
            Err(_) if at == self.at => {
                Err(self.fault(at, "a number belongs here; write `\\{` for the character before it"))
            }
            Err(_) => Err(Fault { at, message: format!("write a number of at most {MAX_STATES}"), is_limit: true }),
        }
    }

    fn atom(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        match self.take() {
            Some('(') => {
                self.nesting += 1;
                if self.nesting > MAX_NESTING {
                    let message = format!("groups are nested more than {MAX_NESTING} deep; take some out");
                    return Err(Fault { at, message, is_limit: true });
                }
                let node = self.alternatives()?;
                self.nesting -= 1;
                if !self.take_if(')') {
                    return Err(self.fault(at, "this `(` has no `)`; add it, or write `\\(` for the character"));
                }
                Ok(node)
            }
            Some('.') => Ok(Node::Any),
            Some('[') => self.class(at),
            Some('\\') => Ok(match self.escape(at)? {
                Item::Range(character, _) => Node::Character(character),
                categories => Node::Class(ranges_of(&[categories], false)),
            }),
            Some(quantifier @ ('*' | '+' | '?' | '{')) => {
                let message = format!(
                    "nothing is in front of `{quantifier}` to repeat; write `\\{quantifier}` for the character"
                );
                Err(self.fault(at, message))
            }
            Some(other @ (']' | '}')) => Err(self.fault(at, format!("write `\\{other}` for the character"))),
            Some(character) => Ok(Node::Character(character)),
            None => Err(self.fault(at, "the pattern ends here")),
        }
    }

    /// Reads the rest of the escape whose `\` is at `at`.
    fn escape(&mut self, at: usize) -> Result<Item, Fault> {
        let one = |character| Ok(Item::Range(character, character));
        match self.take() {
            Some('n') => one('\n'),
            Some('r') => one('\r'),
            Some('t') => one('\t'),
            // RFC 9485 has no `\$`, but other dialects need it for the character.
            Some(character @ ('$' | '('..='+' | '-' | '.' | '?' | '['..='^' | '{'..='}')) => one(character),
            Some(kind @ ('p' | 'P')) => {
                let rest = &self.text[self.at..];
                let name = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
                let Some(mask) = name.and_then(mask_of) else {
                    let message = format!("write `\\{kind}{{L}}` or another general category of Unicode");
                    return Err(self.fault(at, message));
                };
                self.at += name.map_or(0, |name| name.len() + 2);
                Ok(Item::Categories { mask, is_negated: kind == 'P' })
            }
            _ => Err(self.fault(
                at,
                "a `\\` comes before one of `$ ( ) * + - . ? [ \\ ] ^ { | }`, `n`, `r`, `t` or `p{..}`; for digits write `[0-9]`",
            )),
        }
    }

    /// Reads the class whose `[` is at `at`.
    fn class(&mut self, at: usize) -> Result<Node, Fault> {
        let is_negated = self.take_if('^');
        let mut items = Vec::new();
        if self.take_if('-') {
            items.push(Item::Range('-', '-'));
        }
        loop {
            let start = self.at;
            let first = match self.take() {
                None => return Err(self.fault(at, "this `[` has no `]`; add it, or write `\\[` for the character")),
                Some(']') if items.is_empty() => {
                    return Err(self.fault(start, "a class has at least one character; write `\\]` for the character"))
                }
                Some(']') => break,
                Some('-') if self.peek() == Some(']') => Item::Range('-', '-'),
                Some(other @ ('[' | '-')) => {
                    return Err(self.fault(start, format!("write `\\{other}` for the character in a class")))
                }
                Some('\\') => self.escape(start)?,
                Some(character) => Item::Range(character, character),
            };
            let is_range = self.peek() == Some('-') && !self.text[self.at + 1..].starts_with(']');
            let item = match first {
                Item::Range(low, _) if is_range => {
                    self.take();
                    let start = self.at;
                    let high = match self.take() {
                        Some('\\') => self.escape(start)?,
                        Some(character) if !matches!(character, '[' | '-') => Item::Range(character, character),
                        _ => {
                            return Err(
                                self.fault(start, "a range of characters ends here; write `\\-` for the `-` itself")
                            )
                        }
                    };
                    match high {
                        Item::Range(high, _) if low <= high => Item::Range(low, high),
                        Item::Range(..) => {
                            return Err(self.fault(start, "the range ends before it begins; exchange its ends"))
                        }
                        Item::Categories { .. } => {
                            return Err(self.fault(start, "a category cannot end a range; write `\\-` for the `-`"))
                        }
                    }
                }
                other => other,
            };
            items.push(item);
        }
        Ok(Node::Class(ranges_of(&items, is_negated)))
    }
}

/// Compiles a pattern into states. The methods return `false` if there are too many.
struct Compiler {
    states: Vec<State>,
    ranges: Vec<(u32, u32)>,
    /// The ranges of each class.
    classes: Vec<(u32, u32)>,
}

impl Compiler {
    fn next(&self) -> u16 {
        self.states.len() as u16 + 1
    }

    fn push(&mut self, state: State) -> bool {
        self.states.push(state);
        self.states.len() <= MAX_STATES
    }

    /// Appends the states of `node`. They lead to the state after them.
    fn node(&mut self, node: &Node) -> bool {
        match node {
            Node::Character(character) => self.push(State::Character(*character, self.next())),
            Node::Any => self.push(State::Any(self.next())),
            Node::Class(ranges) => {
                // Equal classes share their ranges.
                let is_known = |&(from, to): &(u32, u32)| self.ranges[from as usize..to as usize] == ranges[..];
                let (from, to) = match self.classes.iter().copied().find(is_known) {
                    Some(known) => known,
                    None => {
                        let from = self.ranges.len() as u32;
                        self.ranges.extend(ranges);
                        self.classes.push((from, self.ranges.len() as u32));
                        (from, self.ranges.len() as u32)
                    }
                };
                self.ranges.len() <= MAX_RANGES && self.push(State::Class { from, to, next: self.next() })
            }
            Node::Concatenation(nodes) => nodes.iter().all(|node| self.node(node)),
            Node::Alternatives(nodes) => self.alternatives(nodes),
            Node::Repetition { node, least, most } => self.repetition(node, *least, *most),
        }
    }

    fn alternatives(&mut self, nodes: &[Node]) -> bool {
        let Some((last, others)) = nodes.split_last() else { return true };
        let mut jumps = Vec::new();
        for node in others {
            let split = self.states.len();
            if !self.push(State::Jump(0)) || !self.node(node) {
                return false;
            }
            jumps.push(self.states.len());
            if !self.push(State::Jump(0)) {
                return false;
            }
            self.states[split] = State::Split(split as u16 + 1, self.states.len() as u16);
        }
        if !self.node(last) {
            return false;
        }
        let end = self.states.len() as u16;
        jumps.into_iter().for_each(|jump| self.states[jump] = State::Jump(end));
        true
    }

    fn repetition(&mut self, node: &Node, least: usize, most: Option<usize>) -> bool {
        for _ in 0..least {
            let before = self.states.len();
            if !self.node(node) {
                return false;
            }
            if self.states.len() == before {
                // The node matches only the empty string, so repeating it adds nothing.
                return true;
            }
        }
        match most {
            None => {
                let split = self.states.len();
                let is_small = self.push(State::Jump(0)) && self.node(node) && self.push(State::Jump(split as u16));
                if is_small {
                    self.states[split] = State::Split(split as u16 + 1, self.states.len() as u16);
                }
                is_small
            }
            Some(most) => {
                let mut splits = Vec::new();
                for _ in least..most {
                    splits.push(self.states.len());
                    if !self.push(State::Jump(0)) || !self.node(node) {
                        return false;
                    }
                }
                let end = self.states.len() as u16;
                splits.into_iter().for_each(|split| self.states[split] = State::Split(split as u16 + 1, end));
                true
            }
        }
    }
}

/// The literals that every match of a part contains.
enum Required {
    /// The part matches this text alone.
    Exactly(Vec<u8>),
    /// Each match contains these, one after the other.
    Within(Vec<Vec<u8>>),
}

impl Required {
    fn literals(self) -> Vec<Vec<u8>> {
        match self {
            Required::Exactly(text) => vec![text],
            Required::Within(literals) => literals,
        }
    }

    /// Returns the literals as a pattern, which is empty if there are none.
    fn joined(self) -> Box<[u8]> {
        let mut joined = Vec::new();
        for literal in self.literals().iter().filter(|literal| !literal.is_empty()) {
            joined.push(ANY);
            joined.extend(&literal[..literal.len().min(MAX_REQUIRED_BYTES)]);
            if joined.len() >= MAX_REQUIRED_BYTES {
                break;
            }
        }
        if !joined.is_empty() {
            joined.push(ANY);
        }
        joined.into()
    }
}

fn required_of(node: &Node) -> Required {
    match node {
        // Invalid UTF-8 counts as this character, so its bytes are not known.
        Node::Character(char::REPLACEMENT_CHARACTER) => Required::Within(Vec::new()),
        Node::Character(character) => Required::Exactly(character.to_string().into_bytes()),
        Node::Any | Node::Class(_) => Required::Within(Vec::new()),
        Node::Concatenation(nodes) => {
            let mut literals = Vec::new();
            // The literal so far, which the next part may extend.
            let mut run = Vec::new();
            for node in nodes {
                match required_of(node) {
                    Required::Exactly(text) => run.extend(text),
                    Required::Within(within) => {
                        literals.push(std::mem::take(&mut run));
                        literals.extend(within);
                    }
                }
            }
            if literals.is_empty() {
                return Required::Exactly(run);
            }
            literals.push(run);
            Required::Within(literals)
        }
        Node::Alternatives(nodes) => {
            let mut all = nodes.iter().map(|node| required_of(node).literals());
            let mut common = all.next().unwrap_or_default();
            for others in all {
                let is_within = |literal: &Vec<u8>| others.iter().any(|other| contains(other, literal));
                common.retain(is_within);
            }
            // Alternatives may have them in different orders, so only one is required.
            let longest = common.into_iter().max_by_key(Vec::len);
            Required::Within(longest.into_iter().collect())
        }
        Node::Repetition { least: 0, .. } => Required::Within(Vec::new()),
        Node::Repetition { node, least, most } => match required_of(node) {
            Required::Exactly(text) if *most == Some(*least) && text.len() * least <= MAX_REQUIRED_BYTES => {
                Required::Exactly(text.repeat(*least))
            }
            required => Required::Within(required.literals()),
        },
    }
}

/// A possible prefix of the matches of a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Beginning {
    text: Vec<u8>,
    /// The prefix is a whole match, so that the next part can extend it.
    is_whole: bool,
}

impl Beginning {
    /// Returns the prefix of a part that matches `character` alone.
    fn of(character: char) -> Beginning {
        Beginning { text: character.to_string().into_bytes(), is_whole: true }
    }

    /// Returns the empty prefix: a whole empty match, or the prefix of an unknown match.
    fn empty(is_whole: bool) -> Beginning {
        Beginning { text: Vec::new(), is_whole }
    }

    fn partly(self, is_whole: bool) -> Beginning {
        Beginning { is_whole: self.is_whole && is_whole, ..self }
    }

    /// Appends a character to a prefix that is a whole match.
    fn extend(&mut self, character: char) {
        if self.is_whole {
            self.text.extend(character.encode_utf8(&mut [0; 4]).bytes());
            self.is_whole = self.text.len() <= MAX_BEGINNING_BYTES;
            self.text.truncate(MAX_BEGINNING_BYTES);
        }
    }

    fn then(&self, next: &Beginning) -> Beginning {
        let mut text = [&self.text[..], &next.text].concat();
        let is_whole = next.is_whole && text.len() <= MAX_BEGINNING_BYTES;
        text.truncate(MAX_BEGINNING_BYTES);
        Beginning { text, is_whole }
    }
}

/// Returns the beginnings of a pattern. Returns none if there are too many, or if one is empty.
fn beginnings(node: &Node) -> Vec<Box<[u8]>> {
    let mut all: Vec<Vec<u8>> =
        beginnings_of(node, MAX_BEGINNING_DEPTH).into_iter().map(|beginning| beginning.text).collect();
    sort(&mut all, |a, b| a < b);
    // A text is redundant if another one is a prefix of it.
    all.dedup_by(|next, kept| next.starts_with(kept));
    match all.first() {
        Some(first) if !first.is_empty() => all.into_iter().map(Vec::into_boxed_slice).collect(),
        _ => Vec::new(),
    }
}

/// Returns at most [`MAX_BEGINNINGS`] texts, such that each match of a part begins with one of them. `depth` is the number of
/// levels that are analyzed.
fn beginnings_of(node: &Node, depth: usize) -> Vec<Beginning> {
    let any = || vec![Beginning::empty(false)];
    let Some(below) = depth.checked_sub(1) else { return any() };
    match node {
        // Invalid UTF-8 counts as this character, so its bytes are not known.
        Node::Character(char::REPLACEMENT_CHARACTER) | Node::Any => any(),
        Node::Character(character) => vec![Beginning::of(*character)],
        Node::Class(ranges) => {
            let faulty = u32::from(char::REPLACEMENT_CHARACTER);
            let count = ranges.iter().map(|(first, last)| (last - first) as usize + 1).sum::<usize>();
            if count > MAX_BEGINNINGS || ranges.iter().any(|&(first, last)| (first..=last).contains(&faulty)) {
                return any();
            }
            let codes = ranges.iter().flat_map(|&(first, last)| first..=last);
            codes.filter_map(char::from_u32).map(Beginning::of).collect()
        }
        Node::Concatenation(nodes) => {
            let mut all = vec![Beginning::empty(true)];
            for node in nodes {
                match node {
                    // Most parts are characters. They are appended in place, without a table.
                    Node::Character(character) if *character != char::REPLACEMENT_CHARACTER => {
                        all.iter_mut().for_each(|beginning| beginning.extend(*character));
                    }
                    node => all = one_by_one(all, || beginnings_of(node, below)),
                }
            }
            all
        }
        Node::Alternatives(nodes) => few(nodes.iter().flat_map(|node| beginnings_of(node, below))),
        Node::Repetition { node, least: 0, most } => {
            let repeated = if *most == Some(0) { Vec::new() } else { beginnings_of(node, below) };
            let is_once = *most == Some(1);
            let some = repeated.into_iter().map(|beginning| beginning.partly(is_once));
            few(std::iter::once(Beginning::empty(true)).chain(some))
        }
        Node::Repetition { node, least, most } => {
            let of_one = beginnings_of(node, below);
            // Each repetition adds a byte or matches nothing, so more than [`MAX_BEGINNING_BYTES`] of them make no prefix longer.
            let times = (*least).min(MAX_BEGINNING_BYTES);
            let all = (0..times).fold(vec![Beginning::empty(true)], |before, _| one_by_one(before, || of_one.clone()));
            let is_whole = times == *least && *most == Some(*least);
            all.into_iter().map(|beginning| beginning.partly(is_whole)).collect()
        }
    }
}

/// Returns the prefixes, or the empty one for any match if there are too many.
fn few(all: impl Iterator<Item = Beginning>) -> Vec<Beginning> {
    let all: Vec<Beginning> = all.take(MAX_BEGINNINGS + 1).collect();
    if all.len() > MAX_BEGINNINGS {
        vec![Beginning::empty(false)]
    } else {
        all
    }
}

/// Concatenates the possible prefixes of two consecutive parts.
fn one_by_one(before: Vec<Beginning>, next: impl FnOnce() -> Vec<Beginning>) -> Vec<Beginning> {
    let (whole, mut all): (Vec<_>, Vec<_>) = before.into_iter().partition(|beginning| beginning.is_whole);
    if whole.is_empty() {
        return all;
    }
    let next = next();
    if all.len() + whole.len() * next.len() > MAX_BEGINNINGS {
        all.extend(whole.into_iter().map(|beginning| beginning.partly(false)));
        return all;
    }
    all.extend(whole.iter().flat_map(|beginning| next.iter().map(|next| beginning.then(next))));
    all
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    /// Returns the ends of the matches of a part that begins at `at`, by the definition of the grammar.
    fn ends(node: &Node, string: &[char], at: usize) -> Vec<usize> {
        let all = |starts: Vec<usize>, node: &Node| {
            let mut all: Vec<usize> = starts.into_iter().flat_map(|start| ends(node, string, start)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let one = |holds: bool| if holds { vec![at + 1] } else { vec![] };
        match node {
            Node::Character(wanted) => one(string.get(at) == Some(wanted)),
            Node::Any => one(string.get(at).is_some_and(|character| !matches!(character, '\n' | '\r'))),
            Node::Class(ranges) => one(string.get(at).is_some_and(|&character| {
                ranges.iter().any(|&(first, last)| (first..=last).contains(&u32::from(character)))
            })),
            Node::Concatenation(nodes) => nodes.iter().fold(vec![at], all),
            Node::Alternatives(nodes) => {
                let mut all: Vec<usize> = nodes.iter().flat_map(|node| ends(node, string, at)).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
            Node::Repetition { node, least, most } => {
                let mut reached = (0..*least).fold(vec![at], |starts, _| all(starts, node));
                let mut last = reached.clone();
                for _ in 0..most.map_or(string.len() + 1, |most| most - least) {
                    last = all(last, node);
                    reached.extend(&last);
                    reached.sort_unstable();
                    reached.dedup();
                }
                reached
            }
        }
    }

    fn pattern(random: &mut Random, depth: usize) -> String {
        if depth == 0 || random.chance(30) {
            let atoms = [
                "a",
                "b",
                "é",
                ".",
                "[ab]",
                "[^a]",
                "[b-é]",
                r"\p{Lu}",
                r"\P{L}",
                r"[\p{Nd}a-]",
                r"\.",
                "ab",
                "",
                "\u{FFFD}",
            ];
            return random.pick(&atoms).into();
        }
        let (one, other) = (pattern(random, depth - 1), pattern(random, depth - 1));
        match random.below(4) {
            0 => format!("({one}|{other})"),
            1 => format!("({one}){}", random.pick(&["*", "+", "?", "{2}", "{1,2}", "{0}", "{2,}"])),
            _ => one + &other,
        }
    }

    #[test]
    fn strings_match_as_the_grammar_means() {
        let mut random = Random::new(1);
        let (mut matched, mut begun) = (0, 0);
        for _ in 0..20_000 {
            let text = pattern(&mut random, 4);
            let regex = match Regex::parse(&text) {
                Ok(regex) => regex,
                Err(fault) => panic!("{text}: {fault:?}"),
            };
            let node = Parser { text: &text, at: 0, nesting: 0 }.alternatives().unwrap();
            let beginnings = beginnings(&node);
            for _ in 0..8 {
                let letters = ['a', 'a', 'b', 'é', 'Ä', '7', '.', '\n', '-', char::REPLACEMENT_CHARACTER];
                let string = random.several(6, |random| random.pick(&letters));
                let expected = ends(&node, &string, 0).contains(&string.len());
                let bytes: String = string.iter().collect();
                assert_eq!(regex.matches(bytes.as_bytes()), expected, "{text} {bytes:?}");
                // An invalid byte must match like U+FFFD itself.
                let faulty: Vec<u8> = bytes.replace(char::REPLACEMENT_CHARACTER, "\0").into_bytes();
                let faulty: Vec<u8> = faulty.into_iter().map(|byte| if byte == 0 { 0xff } else { byte }).collect();
                assert_eq!(regex.matches(&faulty), expected, "{text} {bytes:?}");
                if expected {
                    matched += 1;
                    for (_, literal) in literals(regex.required()) {
                        assert!(contains(&faulty, literal), "{text} {bytes:?} {literal:?}");
                    }
                    let begins = beginnings.iter().any(|text| faulty.starts_with(text));
                    assert!(begins || beginnings.is_empty(), "{text} {bytes:?} {beginnings:?}");
                    begun += usize::from(begins);
                }
            }
        }
        assert!(matched > 10_000 && begun > 500, "{matched} {begun}");
    }

    #[test]
    fn beginnings_lead_where_required_literals_are_short() {
        let begins = |text: &str| match Regex::parse(text).unwrap().lead() {
            Lead::Beginnings(texts) => texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
            _ => Vec::new(),
        };
        assert_eq!(begins("(kora|temi)[a-z ]*(ko|te)[0-9a-z ]+"), ["kora", "temi"]);
        assert_eq!(begins("(GET|POST) .*"), ["GET ", "POST "]);
        assert_eq!(begins("(GET|POST) /(users|all)/[0-9]+"), ["GET /all", "GET /use", "POST /al", "POST /us"]);
        assert_eq!(begins("(GET|POST) /users/.*"), [""; 0]);
        assert_eq!(begins("[ab]?(x|y)+z*"), ["ax", "ay", "bx", "by", "x", "y"]);
        assert_eq!(begins("(ab){3}(c|d)[0-9]*"), [""; 0]);
        assert_eq!(begins("(a|b){2}(c|d)[0-9]*"), ["aac", "aad", "abc", "abd", "bac", "bad", "bbc", "bbd"]);
        assert_eq!(begins("[a-z]+(x|y)"), [""; 0]);
        assert_eq!(begins("(abc|a|b)+"), ["a", "b"]);
        assert_eq!(begins("(a|)(b|)"), [""; 0]);
        assert_eq!(begins("[\u{FFFD}a]b*"), [""; 0]);
    }

    #[test]
    fn required_literals_are_found_in_groups_and_alternatives() {
        let required = |text: &str| {
            let regex = Regex::parse(text).unwrap();
            literals(regex.required())
                .map(|(_, literal)| String::from_utf8_lossy(literal).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(required("abc[0-9]+def"), ["abc", "def"]);
        assert_eq!(required("a(bc)d.*"), ["abcd"]);
        assert_eq!(required("(GET|POST) /(users|all-users)/[0-9]+"), [" /", "users", "/"]);
        assert_eq!(required("(ab){2}c{3}d*"), ["ababccc"]);
        assert_eq!(required("(ab)+c"), ["ab", "c"]);
        assert_eq!(required("(a|b)*|c"), [""; 0]);
    }

    #[test]
    fn faults_name_their_place() {
        for (text, at, saying) in [
            ("a(b", 1, "has no `)`"),
            ("a)", 1, "no `(` is open"),
            ("*a", 0, "nothing is in front"),
            ("a**", 2, "follows a quantifier"),
            ("a{2", 1, "has no `}`"),
            ("a{,2}", 2, "a number belongs here"),
            ("a{3,2}", 1, "exchange them"),
            ("é{1001}", 3, "at most 1000"),
            ("[]", 1, "at least one character"),
            ("[a", 0, "has no `]`"),
            ("[b-a]", 3, "exchange its ends"),
            (r"[a-\p{L}]", 3, "cannot end a range"),
            (r"\d", 0, "write `[0-9]`"),
            (r"\p{Xx}", 0, "general category"),
            ("a]", 1, r"write `\]`"),
            ("a^]", 2, r"write `\]`"),
        ] {
            let fault = Regex::parse(text).expect_err(text);
            assert!(fault.at == at && fault.message.contains(saying), "{text}: {fault:?}");
        }
        for (text, at, character) in [
            ("^hello$", 0, "`^` out"),
            ("hello$", 5, "`$` out"),
            ("a|^b", 2, "`^` out"),
            ("é$|b", 2, "`$` out"),
            ("(^a)b", 1, "`^` out"),
            ("a(b$)", 3, "`$` out"),
            ("a(b|$)", 4, "`$` out"),
            ("^", 0, "`^` out"),
            ("$", 0, "`$` out"),
            ("^*a", 0, "`^` out"),
            ("", 0, ""),
        ] {
            if let Err(fault) = Regex::parse(text) {
                assert!(fault.at == at && fault.message.contains(character) && !fault.is_limit, "{text}: {fault:?}");
            } else {
                assert_eq!(text, "");
            }
        }
        for (text, string) in [
            (r"\^a", "^a"),
            (r"a\$", "a$"),
            ("a[$]", "a$"),
            ("[$^]+", "^$"),
            (r"a\$|b", "a$"),
            ("a^b$c", "a^b$c"),
            ("[^^]", "a"),
            (r"[\$]", "$"),
        ] {
            assert!(Regex::parse(text).unwrap().matches(string.as_bytes()), "{text}");
        }
        for text in ["((a{100}){100}){100}", "(\\p{L}\\P{L}){900}", "(a|b){999}"] {
            assert!(Regex::parse(text).is_err_and(|fault| fault.is_limit), "{text}");
        }
        assert!(Regex::parse(&format!("{}a{}", "(".repeat(60), ")".repeat(60))).is_err_and(|fault| fault.is_limit));
        for text in ["(((){1000}){1000}){1000}a", r"[\-\]\[\\^]", "[-a-]", "((a*)*)*b", ""] {
            Regex::parse(text).unwrap();
        }
    }

    #[test]
    fn no_pattern_takes_more_than_linear_time() {
        let regex = Regex::parse("(a|a)*(a|aa)*((a*)*)*b").unwrap();
        assert!(!regex.matches("a".repeat(20_000).as_bytes()));
    }
}
