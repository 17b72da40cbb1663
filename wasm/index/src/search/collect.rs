//! Collection makes the result, as a list or a bitmap. Matches have slots, and ids ascend with ranks, except for the tail of the
//! ranks (`catalog/order.rs`). So the slots are turned into ranks first, and the ids of the tail are sorted at the end.

use super::batch;
use super::bitmap::Bitmap;
use super::matches::{Set, GROUP};
use super::pick::pick;
use super::progress::{Phase, Progress};
use super::{first_chunk_mut, Form, Search, STEP};
use crate::catalog::order::ALIGNMENT;
use crate::handles::{Member, Rank, IN_WORD};
use crate::index::Index;
use crate::support::bits::ones;

// No group has ranks of the tail and others.
const _: () = assert!(ALIGNMENT.is_multiple_of(GROUP as usize));

impl Search {
    /// Finds the ranks of the matches.
    #[inline(never)]
    pub(super) fn rank(&mut self, index: &Index, progress: &mut Progress) {
        let order = index.subscriptions().order();
        let Search { matches, ranks, .. } = self;
        let rest = matches.groups(progress.word, STEP as usize, |first, group| {
            let of = order.ranks(first);
            let mut given = 0;
            for (place, bits) in group.words() {
                let of = &of[place * IN_WORD as usize..];
                ones(u64::from(bits)).for_each(|bit| ranks.insert(of[bit]));
                given += bits.count_ones() as usize;
            }
            given
        });
        progress.word = rest.unwrap_or(0);
        if rest.is_none() {
            progress.phase = Phase::Collect;
        }
    }

    pub(super) fn collect(&mut self, index: &Index, progress: &mut Progress) {
        match progress.form {
            Form::Ids => self.collect_ids(index, progress),
            Form::Bitmap => self.collect_bitmap(index, progress),
        }
    }

    fn collect_ids(&mut self, index: &Index, progress: &mut Progress) {
        let order = index.subscriptions().order();
        let rest = if order.is_ranked() {
            self.collect_ranked_ids(index, progress)
        } else {
            self.collect_ids_by_slot(index, progress)
        };
        match rest {
            Some(group) => progress.word = group,
            None if order.is_ascending() || order.is_ranked() && progress.ascending == progress.ids => {
                progress.phase = progress.after_matches();
            }
            None => {
                self.sort.start(progress.ascending as usize, progress.ids as usize);
                progress.phase = Phase::Sort;
            }
        }
    }

    /// Collects ids. Returns the group of slots from which to continue.
    #[inline(never)]
    fn collect_ids_by_slot(&mut self, index: &Index, progress: &mut Progress) -> Option<u32> {
        let order = index.subscriptions().order();
        let list = &mut self.ids[progress.start as usize..];
        let mut ids = progress.ids as usize;
        let rest = self.matches.groups(progress.word, STEP as usize, |first, group| {
            let rows = order.rows(Rank::from_index(first.index()));
            let given = pick(group, rows, first_chunk_mut(&mut list[ids..]));
            ids += given;
            given
        });
        progress.ids = ids as u32;
        rest
    }

    /// Collects ids. Returns the group of ranks from which to continue.
    #[inline(never)]
    fn collect_ranked_ids(&mut self, index: &Index, progress: &mut Progress) -> Option<u32> {
        let order = index.subscriptions().order();
        let tail = order.tail();
        let list = &mut self.ids[progress.start as usize..];
        let mut ids = progress.ids as usize;
        let mut ascending = progress.ascending;
        let rest = self.ranks.groups(progress.word, STEP as usize, |first, group| {
            let given = pick(group, order.rows(first), first_chunk_mut(&mut list[ids..]));
            ids += given;
            if first < tail {
                ascending = ids as u32;
            }
            given
        });
        progress.ids = ids as u32;
        progress.ascending = ascending;
        rest
    }

    /// Sets the bits of the ids. A word is cleared when the greatest id so far reaches it.
    fn collect_bitmap(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let order = subscriptions.order();
        let most = batch::bitmap_words(subscriptions.capacity(), order.greatest());
        let mut bitmap = Bitmap {
            words: &mut self.ids[progress.start as usize..][..most],
            len: progress.ids as usize,
            too_large: progress.too_large,
        };
        let rest = if order.is_ranked() {
            set_bits(&self.ranks, progress.word, index, &mut bitmap)
        } else {
            set_bits(&self.matches, progress.word, index, &mut bitmap)
        };
        progress.ids = bitmap.len as u32;
        progress.too_large = bitmap.too_large;
        match rest {
            Some(group) => progress.word = group,
            None => progress.phase = Phase::Done,
        }
    }

    pub(super) fn sort(&mut self, progress: &mut Progress) {
        if self.sort.step(&mut self.ids[progress.start as usize..][..progress.ids as usize]) {
            progress.phase = progress.after_matches();
        }
    }
}

/// Inserts the ids of a set into a bitmap, from the group `from` on. Returns the group from which to continue.
#[inline(never)]
fn set_bits<M: Member>(set: &Set<M>, from: u32, index: &Index, bitmap: &mut Bitmap) -> Option<u32> {
    let order = index.subscriptions().order();
    set.groups(from, STEP as usize, |first, group| {
        let rows = order.rows(Rank::from_index(first.position()));
        let mut given = 0;
        for (place, bits) in group.words() {
            bitmap.insert_row(&rows[place], bits);
            given += bits.count_ones() as usize;
        }
        given
    })
}
