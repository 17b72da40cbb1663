//! Room in the tables of searches.
//!
//! A search enlarges nothing that outlives it. So its tables get room for the whole index before the index grows. An
//! insertion that is refused this room changes nothing.

use crate::error::Error;

/// Room for nodes and slots, and for the words of a bitmap of ids, is made in multiples of this number.
const ROOM_STEP: usize = 32;

/// The sizes of an index on which the tables of a search depend.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub(crate) attributes: usize,
    pub(crate) nodes: usize,
    pub(crate) slots: usize,
    /// Predicates that programs share.
    pub(crate) predicates: usize,
    pub(crate) dense: usize,
    /// Patterns, of which an event may make all true.
    pub(crate) patterns: usize,
    /// Whether expressions read the lower case of strings.
    pub(crate) has_lowered: bool,
    /// An upper bound of all ids, if ids ascend with slots.
    pub(crate) greatest: Option<u64>,
    /// Whether searches return the reasons of subscriptions that do not match.
    pub(crate) has_reasons: bool,
}

impl Extent {
    /// Returns a slightly larger extent, so that not every insertion makes room again.
    pub(crate) fn rounded(self) -> Extent {
        Extent {
            nodes: self.nodes.next_multiple_of(ROOM_STEP),
            slots: self.slots.next_multiple_of(ROOM_STEP),
            greatest: self.greatest.map(|id| id | (64 * ROOM_STEP as u64 - 1)),
            ..self
        }
    }
}

/// The searches of an index. They always have room for it.
///
/// An insertion asks for room once its text is read, again when its places in the tree are known, and before each split. It rolls
/// back if room is refused, for whatever reason. So a refusal here also stops a change that takes too long.
///
/// ```
/// use be_tree_index::event::Format;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::search::Search;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// let mut search = Search::default();
/// search.reserve(&index)?;
/// let insertion = Insertion { id: 1, text: b"age > 30", constants: vec![] };
/// index.insert_all_for(&mut search, [Ok(insertion)]).map_err(|(_, error)| error)?;
/// // The insertion has made room, so the search needs no further memory.
/// search.open(&index, Format::Json, br#"{"age": 40}"#, None::<std::iter::Empty<u64>>)?;
/// assert_eq!(search.run(&index).ids(), [1]);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
pub trait Searches {
    /// Makes room for an index of this extent.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory); the earlier room remains then. An implementation may refuse with
    /// another kind, which the insertion returns.
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error>;

    /// Tells that the change can no longer roll back. From now on only a lack of memory is a reason to refuse room.
    fn commit(&mut self) {}
}

/// No search. A later search makes room for the index when it begins.
impl Searches for () {
    fn make_room(&mut self, _extent: &Extent) -> Result<(), Error> {
        Ok(())
    }
}

impl<A: Searches, B: Searches> Searches for (&mut A, &mut B) {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        self.0.make_room(extent)?;
        self.1.make_room(extent)
    }

    fn commit(&mut self) {
        self.0.commit();
        self.1.commit();
    }
}
