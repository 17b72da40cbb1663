//! The figures of one tenant on one day.
//!
//! An expression without statistics takes a slot of [`IdMap`], whose word is the number of its matches. The word of an expression
//! with statistics, or of one with more matches than fit, is the position of an [`Entry`], with a mark.
//!
//! Figures whose statistic is no longer declared stay until the day ends, in a table of their own (`retired`).

use std::sync::Arc;

use hashbrown::HashTable;

use crate::error::Error;
use crate::event::Event;
use crate::sketch::{growth, request};
use crate::statistics::declaration::{Declaration, Header};
use crate::statistics::declarations::Declarations;
use crate::statistics::figure::Figure;
use crate::statistics::id_map::IdMap;
use crate::statistics::work::Work;
use crate::support::hash::hash_of;
use crate::support::headroom::table_growth;

/// The mark of a word that is the position of an entry.
const ENTRY: u32 = 1 << 31;
/// The greatest number of matches in a word.
const MAX_MATCHES: u32 = ENTRY - 1;
/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// The figures of a day.
#[derive(Clone, Debug, Default)]
pub(super) struct Day {
    /// The day, in days since 1970 in UTC.
    pub day: i32,
    /// The events that were matched against the tenant's expressions.
    pub events: u64,
    /// The events that matched at least one expression.
    pub matched: u64,
    rows: IdMap,
    entries: Vec<Entry>,
    retired: HashTable<Retired>,
}

/// The figures of an expression.
#[derive(Clone, Debug)]
struct Entry {
    matches: u64,
    declaration: Option<Arc<Declaration>>,
    /// A figure for each statistic of the declaration.
    figures: Box<[Figure]>,
}

/// A figure whose statistic is no longer declared.
#[derive(Clone, Debug)]
struct Retired {
    id: u64,
    header: Arc<Header>,
    figure: Figure,
}

/// The figures of an expression in a blob.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub id: u64,
    pub matches: u64,
    pub figures: Vec<(Arc<Header>, Figure)>,
}

impl Entry {
    fn new(matches: u64, declaration: Option<&Arc<Declaration>>) -> Self {
        let stats = declaration.map_or(0, |declaration| declaration.stats.len());
        Entry { matches, declaration: declaration.cloned(), figures: (0..stats).map(|_| Figure::Nothing).collect() }
    }
}

/// Returns the bytes that the figures of an entry request.
fn figures_growth(declaration: Option<&Declaration>) -> usize {
    declaration.map_or(0, |declaration| request::<Figure>(declaration.stats.len()))
}

/// Returns the position of the entry in a word, or its matches.
#[inline]
fn unpacked(word: u32) -> Result<usize, u32> {
    match word & ENTRY {
        0 => Err(word),
        _ => Ok((word & !ENTRY) as usize),
    }
}

impl Day {
    pub fn new(day: i32) -> Self {
        Day { day, ..Day::default() }
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.events == 0 && self.rows.len() == 0 && self.retired.is_empty()
    }

    /// Finds the rows of these ids, and reads the values that their statistics count. Returns an upper bound of the bytes that
    /// [`Day::count`] requests. Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn prepare(
        &self,
        ids: &[u64],
        declarations: &Declarations,
        event: &Event,
        work: &mut Work,
    ) -> Result<usize, Error> {
        let (mut new_rows, mut new_entries, mut bytes) = (0, 0, 0);
        for &id in ids {
            let slot = self.rows.find(id);
            work.rows.push(slot.map_or(NO_SLOT, |slot| slot as u32));
            match slot.map(|slot| unpacked(self.rows.word(slot))) {
                None => {
                    new_rows += 1;
                    if let Some(declaration) = declarations.of(id) {
                        new_entries += 1;
                        bytes += figures_growth(Some(declaration));
                        for stat in &declaration.stats {
                            work.read(stat.attribute, event)?;
                            let elements = work.elements(stat.attribute, event);
                            bytes += Figure::Nothing.growth(stat.header.kind, elements);
                        }
                    }
                }
                Some(Err(matches)) => new_entries += usize::from(matches == MAX_MATCHES),
                Some(Ok(position)) => {
                    let Entry { declaration, figures, .. } = &self.entries[position];
                    let Some(declaration) = declaration else { continue };
                    for (stat, figure) in declaration.stats.iter().zip(figures) {
                        work.read(stat.attribute, event)?;
                        bytes += figure.growth(stat.header.kind, work.elements(stat.attribute, event));
                    }
                }
            }
        }
        if new_rows > 0 {
            bytes += self.rows.growth(new_rows);
        }
        if new_entries > 0 {
            bytes += growth(&self.entries, new_entries);
        }
        work.new_rows = new_rows;
        work.new_entries = new_entries;
        Ok(bytes)
    }

    /// Counts an event that matched these ids, after [`Day::prepare`] with the same ones.
    pub fn count(&mut self, ids: &[u64], declarations: &Declarations, event: &Event, work: &Work) {
        self.events = self.events.saturating_add(1);
        if ids.is_empty() {
            return;
        }
        self.matched = self.matched.saturating_add(1);
        let moves = work.new_rows > 0 && self.rows.growth(work.new_rows) > 0;
        if work.new_rows > 0 {
            self.rows.reserve(work.new_rows);
        }
        if work.new_entries > 0 {
            self.entries.reserve(work.new_entries);
        }
        for (&id, &slot) in ids.iter().zip(&work.rows) {
            let slot = match slot {
                slot if slot != NO_SLOT && !moves => Some(slot as usize),
                _ => self.rows.find(id),
            };
            let position = match slot {
                None => match declarations.of(id) {
                    None => {
                        self.rows.insert(id, 1);
                        continue;
                    }
                    declaration => {
                        self.rows.insert(id, ENTRY | self.entries.len() as u32);
                        self.entries.push(Entry::new(0, declaration));
                        self.entries.len() - 1
                    }
                },
                Some(slot) => match unpacked(self.rows.word(slot)) {
                    Err(matches) if matches < MAX_MATCHES => {
                        self.rows.set(slot, matches + 1);
                        continue;
                    }
                    Err(matches) => self.add_entry(slot, matches.into(), None),
                    Ok(position) => position,
                },
            };
            let Entry { matches, declaration, figures } = &mut self.entries[position];
            *matches = matches.saturating_add(1);
            let stats = declaration.as_deref().map_or(&[][..], |declaration| &declaration.stats);
            for (stat, figure) in stats.iter().zip(figures) {
                figure.count(stat.header.kind, work.elements(stat.attribute, event));
            }
        }
    }

    /// Makes an entry of a row. Returns its position.
    fn add_entry(&mut self, slot: usize, matches: u64, declaration: Option<&Arc<Declaration>>) -> usize {
        let position = self.entries.len();
        self.entries.push(Entry::new(matches, declaration));
        self.rows.set(slot, ENTRY | position as u32);
        position
    }

    /// Returns the number of expressions.
    pub fn rows_len(&self) -> usize {
        self.rows.len()
    }

    /// Requests memory for this number of entries at once.
    pub fn reserve_entries(&mut self, more: usize) {
        self.entries.reserve(more);
    }

    /// Returns the ids of all expressions.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows.slots().map(|(_, id)| id)
    }

    /// Returns the entries that [`Day::redeclare`] adds for these ids, each with its new declaration, and an upper bound of the bytes
    /// that it requests besides.
    pub fn redeclare_growth<'a>(&self, ids: impl Iterator<Item = (u64, Option<&'a Declaration>)>) -> (usize, usize) {
        let (mut entries, mut retired, mut bytes) = (0, 0, 0);
        for (id, declaration) in ids {
            let Some(slot) = self.rows.find(id) else { continue };
            bytes += figures_growth(declaration);
            let Ok(position) = unpacked(self.rows.word(slot)) else {
                entries += usize::from(declaration.is_some_and(|declaration| !declaration.stats.is_empty()));
                continue;
            };
            for (header, figure) in self.figures(&self.entries[position]) {
                retired += 1;
                bytes += Figure::Nothing.merge_growth(figure);
                bytes += self.retired(id, header).map_or(0, |present| present.figure.merge_growth(figure));
            }
        }
        (entries, bytes + self.retired_growth(retired))
    }

    /// Returns the bytes that [`Day::reserve_entries`] requests.
    pub fn entries_growth(&self, more: usize) -> usize {
        match more {
            0 => 0,
            _ => growth(&self.entries, more),
        }
    }

    /// Replaces the declaration of an expression. Figures whose statistic is declared anew go on.
    pub fn redeclare(&mut self, id: u64, declaration: Option<&Arc<Declaration>>) {
        let Some(slot) = self.rows.find(id) else { return };
        let position = match (unpacked(self.rows.word(slot)), declaration) {
            (Err(_), None) => return,
            (Err(matches), Some(_)) => {
                self.add_entry(slot, matches.into(), declaration);
                return;
            }
            (Ok(position), _) => position,
        };
        let before = &mut self.entries[position];
        if before.declaration.as_ref() == declaration {
            return;
        }
        let entry = Entry::new(before.matches, declaration);
        let before = std::mem::replace(before, entry);
        let stats = before.declaration.iter().flat_map(|declaration| &declaration.stats);
        for (stat, figure) in stats.zip(before.figures) {
            match figure_of(&mut self.entries[position], &stat.header) {
                Some(place) => *place = figure,
                None => self.retire(id, &stat.header, &figure),
            }
        }
    }

    /// Returns the figures of an entry that have counted something, each with its description.
    fn figures<'a>(&self, entry: &'a Entry) -> impl Iterator<Item = (&'a Arc<Header>, &'a Figure)> + 'a {
        let stats = entry.declaration.iter().flat_map(|declaration| &declaration.stats);
        let figures = stats.map(|stat| &stat.header).zip(&*entry.figures);
        figures.filter(|(_, figure)| !matches!(figure, Figure::Nothing))
    }

    fn retired(&self, id: u64, header: &Header) -> Option<&Retired> {
        self.retired.find(hash_of(&id), |retired| retired.id == id && retired.header.merges_with(header))
    }

    fn retired_growth(&self, more: usize) -> usize {
        match more {
            0 => 0,
            _ => table_growth(&self.retired, more) + request::<u8>(0),
        }
    }

    /// Adds a figure to those whose statistic is not declared.
    fn retire(&mut self, id: u64, header: &Arc<Header>, figure: &Figure) {
        let is_same = |retired: &Retired| retired.id == id && retired.header.merges_with(header);
        if let Some(present) = self.retired.find_mut(hash_of(&id), is_same) {
            present.figure.merge(figure);
        } else if !matches!(figure, Figure::Nothing) {
            let retired = Retired { id, header: header.clone(), figure: figure.clone() };
            self.retired.insert_unique(hash_of(&id), retired, |retired| hash_of(&retired.id));
        }
    }

    /// Returns an upper bound of the bytes that [`Day::absorb`] requests for these rows.
    pub fn absorb_growth(&self, rows: &[Row], declarations: &Declarations) -> usize {
        let (mut entries, mut retired, mut bytes) = (0, 0, 0);
        for row in rows {
            let declaration = declarations.of(row.id);
            let slot = self.rows.find(row.id);
            let entry = slot.and_then(|slot| unpacked(self.rows.word(slot)).ok()).map(|at| &self.entries[at]);
            if entry.is_none() {
                entries += 1;
                bytes += figures_growth(declaration.map(|declaration| &**declaration));
            }
            for (header, figure) in &row.figures {
                let mut present = entry.into_iter().flat_map(|entry| self.figures(entry));
                let declared = present.find(|(known, _)| known.merges_with(header)).map(|(_, present)| present);
                let present = declared.or_else(|| self.retired(row.id, header).map(|retired| &retired.figure));
                retired += usize::from(!declares(declaration, header));
                bytes += Figure::Nothing.merge_growth(figure);
                bytes += present.map_or(0, |present| present.merge_growth(figure));
            }
        }
        if entries > 0 {
            bytes += growth(&self.entries, entries);
        }
        bytes + self.rows.growth(rows.len()) + self.retired_growth(retired)
    }

    /// Adds the counts of a blob.
    pub fn absorb(&mut self, events: u64, matched: u64, rows: &[Row], declarations: &Declarations) {
        self.events = self.events.saturating_add(events);
        self.matched = self.matched.saturating_add(matched);
        self.rows.reserve(rows.len());
        let undeclared = |row: &Row| {
            let declaration = declarations.of(row.id);
            row.figures.iter().filter(|(header, _)| !declares(declaration, header)).count()
        };
        let retired = rows.iter().map(undeclared).sum();
        self.retired.reserve(retired, |retired| hash_of(&retired.id));
        for row in rows {
            self.absorb_row(row, declarations);
        }
    }

    fn absorb_row(&mut self, row: &Row, declarations: &Declarations) {
        let declaration = declarations.of(row.id);
        let slot = self.rows.find(row.id);
        let present = slot.map_or(Err(0), |slot| unpacked(self.rows.word(slot)));
        let inline = present.err().and_then(|matches| u64::from(matches).checked_add(row.matches));
        let inline = inline.filter(|&matches| (1..=MAX_MATCHES.into()).contains(&matches) && declaration.is_none());
        match (inline, slot, present) {
            (Some(matches), Some(slot), _) => self.rows.set(slot, matches as u32),
            (Some(matches), None, _) => self.rows.insert(row.id, matches as u32),
            (None, _, Ok(position)) => {
                let entry = &mut self.entries[position];
                entry.matches = entry.matches.saturating_add(row.matches);
            }
            (None, Some(slot), Err(matches)) => {
                self.add_entry(slot, row.matches.saturating_add(matches.into()), declaration);
            }
            (None, None, Err(_)) if row.matches == 0 && declaration.is_none() => {}
            (None, None, Err(_)) => {
                self.rows.insert(row.id, ENTRY | self.entries.len() as u32);
                self.entries.push(Entry::new(row.matches, declaration));
            }
        }
        for (header, figure) in &row.figures {
            let slot = self.rows.find(row.id);
            let position = slot.and_then(|slot| unpacked(self.rows.word(slot)).ok());
            match position.and_then(|position| figure_of(&mut self.entries[position], header)) {
                Some(declared) => declared.merge(figure),
                None => self.retire(row.id, header, figure),
            }
        }
    }

    /// Returns the number of parts: expressions, and retired figures.
    pub fn parts(&self) -> usize {
        self.rows.len() + self.retired.len()
    }

    /// Passes each expression with its matches and its figures, and then each retired figure, with no matches, to `pass`.
    pub fn each_part<'a>(&'a self, mut pass: impl FnMut(Part<'a>)) {
        for (slot, id) in self.rows.slots() {
            pass(match unpacked(self.rows.word(slot)) {
                Err(matches) => Part { id, matches: matches.into(), figures: Figures::None },
                Ok(position) => {
                    let entry = &self.entries[position];
                    Part { id, matches: entry.matches, figures: Figures::Declared(position) }
                }
            });
        }
        for Retired { id, header, figure } in &self.retired {
            pass(Part { id: *id, matches: 0, figures: Figures::Retired(header, figure) });
        }
    }

    /// Returns the figures of a part that have counted something, each with its description.
    pub fn figures_of<'a>(&'a self, part: Part<'a>) -> impl Iterator<Item = (&'a Arc<Header>, &'a Figure)> + 'a {
        let (declared, retired) = match part.figures {
            Figures::None => (None, None),
            Figures::Declared(position) => (Some(self.figures(&self.entries[position])), None),
            Figures::Retired(header, figure) => (None, Some((header, figure))),
        };
        declared.into_iter().flatten().chain(retired)
    }

    /// Returns the bytes of all figures.
    pub fn bytes(&self) -> usize {
        let figures = |entry: &Entry| {
            let tables: usize = entry.figures.iter().map(Figure::bytes).sum();
            size_of_val(&*entry.figures) + tables
        };
        self.rows.bytes()
            + self.entries.capacity() * size_of::<Entry>()
            + self.entries.iter().map(figures).sum::<usize>()
            + self.retired.allocation_size()
            + self.retired.iter().map(|retired| retired.figure.bytes()).sum::<usize>()
    }
}

/// Returns whether a declaration has a statistic with this description.
fn declares(declaration: Option<&Arc<Declaration>>, header: &Header) -> bool {
    declaration.is_some_and(|declaration| declaration.stats.iter().any(|stat| stat.header.merges_with(header)))
}

/// Returns the figure of a declared statistic.
fn figure_of<'a>(entry: &'a mut Entry, header: &Header) -> Option<&'a mut Figure> {
    let stats = &entry.declaration.as_ref()?.stats;
    let position = stats.iter().position(|stat| stat.header.merges_with(header))?;
    Some(&mut entry.figures[position])
}

/// A part of a day: an expression, or a retired figure of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub id: u64,
    pub matches: u64,
    figures: Figures<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Figures<'a> {
    None,
    /// Those of the entry at this position.
    Declared(usize),
    Retired(&'a Arc<Header>, &'a Figure),
}
