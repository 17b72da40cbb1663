//! Misfit values: refused, or counted as undefined where the schema or the call forgives them.
//!
//! In terms the first defined value of a name counts, so a misfit value is decided at once. In JSON the last value
//! counts, so a misfit value is only marked, by [`Value::Unfit`] with its place, and a later value of the name
//! overwrites the mark. The marks left at the end of the event, or of an object in a list, are decided then: the first
//! value that is not forgiven is read once more, for its error. So events without misfits cost nothing more.

use crate::error::Error;
use crate::event::errors::{about, is_of_value};
use crate::event::filler::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::Value;
use crate::model::fields::FieldId;
use crate::model::schema::AttributeId;

impl<S: Source> Filler<'_, S> {
    /// Records that the value of attribute `id`, at `start`, is a misfit, and skips it. Returns `error` if it is
    /// refused at once.
    #[cold]
    #[inline(never)]
    pub fn unfit(&mut self, id: AttributeId, start: usize, error: Box<Error>) -> Read<()> {
        let field = FieldId::from_index(id.index());
        if !is_of_value(&error) || !(S::LAST_COUNTS || self.forgives(field)) {
            return Err(about(self.schema.attribute(id), *error).into());
        }
        self.source.back_to(start);
        self.source.skip()?;
        if S::LAST_COUNTS {
            self.set(id, Value::Unfit(start as u32));
            self.any_unfit = true;
        } else {
            self.forgive(id);
        }
        Ok(())
    }

    /// Returns whether a misfit value of `field` counts as undefined.
    pub fn forgives(&self, field: FieldId) -> bool {
        self.schema.fields().forgives(field, self.forgiving)
    }

    /// Counts a misfit value of attribute `id` as undefined.
    fn forgive(&mut self, id: AttributeId) {
        self.set(id, Value::Undefined);
        self.event.mismatches += 1;
    }

    /// Decides the remaining marks at the end of the event, or of an object.
    #[inline]
    pub fn settle_unfit(&mut self) -> Read<()> {
        if S::LAST_COUNTS && self.any_unfit {
            self.settle_marks()?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn settle_marks(&mut self) -> Read<()> {
        self.any_unfit = false;
        let mut refused: Option<(u32, FieldId)> = None;
        let mut refuse = |place, field| {
            if refused.is_none_or(|(first, _)| place < first) {
                refused = Some((place, field));
            }
        };
        for id in self.schema.ids() {
            let Value::Unfit(place) = self.event.values[self.base + id.index()] else { continue };
            let field = FieldId::from_index(id.index());
            match self.forgives(field) {
                true => self.forgive(id),
                false => refuse(place, field),
            }
        }
        for (map, place) in self.maps.iter().flat_map(|maps| maps.unfit(self.schema.fields())) {
            match self.forgives(map) {
                true => self.event.mismatches += 1,
                false => refuse(place, map),
            }
        }
        refused.map_or(Ok(()), |(place, field)| Err(self.refusal(place, field)))
    }

    /// Returns the error of the value of `field` at `place`.
    fn refusal(&mut self, place: u32, field: FieldId) -> Box<Error> {
        self.source.back_to(place as usize);
        let Some(id) = self.schema.fields().attribute(field) else { return self.no_map(field) };
        let read = match self.schema.fields().plain(field) {
            Some(ty) => self.value(id, ty),
            None => self.converted(id),
        };
        match read {
            Err(error) => about(self.schema.attribute(id), *error).into(),
            Ok(()) => unreachable!("the value did not fit before"),
        }
    }
}
