//! What an instance holds: an index, or the shard of many tenants.

use be_tree_index::error::{Error, Kind};
use be_tree_index::index::Index;
use be_tree_index::search::Search;
use be_tree_index::shard::Shard;

/// An index or a shard, once there is a schema.
#[derive(Default)]
#[allow(clippy::large_enum_variant)] // An instance holds one of them.
pub(super) enum Contents {
    #[default]
    Nothing,
    Index(Index),
    Shard(Shard),
}

impl Contents {
    /// # Errors
    ///
    /// [`Kind::NotFound`] if the instance has no index.
    pub fn index(&self) -> Result<&Index, Error> {
        match self {
            Contents::Index(index) => Ok(index),
            Contents::Nothing => Err(no_schema()),
            Contents::Shard(_) => Err(other("a shard of tenants", "operations of tenants")),
        }
    }

    /// # Errors
    ///
    /// [`Kind::NotFound`] if the instance has no index.
    pub fn index_mut(&mut self) -> Result<&mut Index, Error> {
        match self {
            Contents::Index(index) => Ok(index),
            other => Err(other.index().expect_err("it is no index")),
        }
    }

    /// # Errors
    ///
    /// [`Kind::NotFound`] if the instance has no shard.
    pub fn shard(&self) -> Result<&Shard, Error> {
        match self {
            Contents::Shard(shard) => Ok(shard),
            Contents::Nothing => Err(no_schema()),
            Contents::Index(_) => Err(other("a single index", "operations of an index")),
        }
    }

    /// # Errors
    ///
    /// [`Kind::NotFound`] if the instance has no shard.
    pub fn shard_mut(&mut self) -> Result<&mut Shard, Error> {
        match self {
            Contents::Shard(shard) => Ok(shard),
            other => Err(other.shard().expect_err("it is no shard")),
        }
    }

    /// Makes room in `search` for every search.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfMemory`].
    pub fn reserve(&self, search: &mut Search) -> Result<(), Error> {
        match self {
            Contents::Nothing => Ok(()),
            Contents::Index(index) => {
                search.reserve(index)?;
                search.reserve_event(index)
            }
            Contents::Shard(shard) => {
                shard.tenants().try_for_each(|tenant| search.reserve(tenant.index()))?;
                search.reserve_event_of(shard.schema())
            }
        }
    }
}

fn no_schema() -> Error {
    Error::new(Kind::NotFound, "there is no schema yet; give one first")
}

fn other(held: &str, operations: &str) -> Error {
    Error::new(Kind::NotFound, format!("the instance holds {held}; use the {operations}"))
}
