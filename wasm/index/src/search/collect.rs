//! Collection makes the result, as a list or a bitmap. Ids ascend with slots, except for the tail of the slots
//! (`catalog/order.rs`), whose ids are sorted at the end.

use super::batch;
use super::bitmap::Bitmap;
use super::matches::GROUP;
use super::pick::pick;
use super::progress::{Phase, Progress};
use super::{first_chunk_mut, Form, Search, STEP};
use crate::index::Index;

impl Search {
    pub(super) fn collect(&mut self, index: &Index, progress: &mut Progress) {
        match progress.form {
            Form::Ids | Form::CountedIds if index.subscriptions().order().is_ascending() => {
                self.collect_ids(index, progress)
            }
            Form::Ids | Form::CountedIds => self.collect_ids_and_tail(index, progress),
            Form::Bitmap | Form::CountedBitmap => self.collect_bitmap(index, progress),
        }
    }

    /// Collects ids that ascend with slots.
    #[inline(never)]
    fn collect_ids(&mut self, index: &Index, progress: &mut Progress) {
        let order = index.subscriptions().order();
        let list = &mut self.ids[progress.start as usize..];
        let mut ids = progress.ids as usize;
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let given = pick(group, order.rows(group.first), first_chunk_mut(&mut list[ids..]));
            ids += given;
            given
        });
        progress.ids = ids as u32;
        match rest {
            Some(group) => progress.word = group,
            None => progress.phase = progress.after_matches(),
        }
    }

    /// Collects ids that ascend, and then those of the tail.
    #[inline(never)]
    fn collect_ids_and_tail(&mut self, index: &Index, progress: &mut Progress) {
        let order = index.subscriptions().order();
        let tail = order.tail();
        let list = &mut self.ids[progress.start as usize..];
        let (mut ids, mut ascending) = (progress.ids as usize, progress.ascending);
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let given = pick(group, order.rows(group.first), first_chunk_mut(&mut list[ids..]));
            if group.first.index() + GROUP as usize <= tail.index() {
                ascending = (ids + given) as u32;
            } else if group.first < tail {
                ascending = ids as u32 + group.count_below(tail);
            }
            ids += given;
            given
        });
        (progress.ids, progress.ascending) = (ids as u32, ascending);
        match rest {
            Some(group) => progress.word = group,
            None if ascending == progress.ids => progress.phase = progress.after_matches(),
            None => {
                self.sort.start(ascending as usize, ids);
                progress.phase = Phase::Sort;
            }
        }
    }

    /// Sets the bits of the ids. A word is cleared when the greatest id so far reaches it.
    #[inline(never)]
    fn collect_bitmap(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let order = subscriptions.order();
        let most = batch::bitmap_words(subscriptions.capacity(), order.greatest());
        let mut bitmap = Bitmap {
            words: &mut self.ids[progress.start as usize..][..most],
            len: progress.ids as usize,
            too_large: progress.too_large,
        };
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let rows = order.rows(group.first);
            let mut given = 0;
            for (place, bits) in group.words() {
                bitmap.insert_row(&rows[place], bits);
                given += bits.count_ones() as usize;
            }
            given
        });
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
