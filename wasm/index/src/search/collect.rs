//! Collection makes the result, as a list or a bitmap. A list is sorted if ids do not ascend with slots.

use super::batch;
use super::bitmap::Bitmap;
use super::pick::pick;
use super::progress::{Phase, Progress};
use super::{first_chunk_mut, Form, Search, STEP};
use crate::index::Index;

impl Search {
    pub(super) fn collect(&mut self, index: &Index, progress: &mut Progress) {
        match progress.form {
            Form::Ids => self.collect_ids(index, progress),
            Form::Bitmap => self.collect_bitmap(index, progress),
        }
    }

    #[inline(never)]
    pub(super) fn collect_ids(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let list = &mut self.ids[progress.start as usize..];
        let mut ids = progress.ids as usize;
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let rows = subscriptions.ids(group.first);
            let given = pick(group, rows, first_chunk_mut(&mut list[ids..]));
            ids += given;
            given
        });
        progress.ids = ids as u32;
        match rest {
            Some(group) => progress.word = group,
            None if subscriptions.is_ascending() => progress.phase = progress.after_matches(),
            None => {
                self.sort.start(progress.ids as usize);
                progress.phase = Phase::Sort;
            }
        }
    }

    /// Sets the bits of the ids. A word is cleared when the greatest id so far reaches it.
    #[inline(never)]
    pub(super) fn collect_bitmap(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let most = batch::bitmap_words(subscriptions.capacity(), subscriptions.greatest());
        let mut bitmap = Bitmap {
            words: &mut self.ids[progress.start as usize..][..most],
            len: progress.ids as usize,
            too_large: progress.too_large,
        };
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let rows = subscriptions.ids(group.first);
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
