//! A shard holds the indexes of many tenants over one schema.
//!
//! Tenants share the schema and the tables of searches, and nothing else. So the results, the errors and the cost of a tenant's search
//! depend on no other tenant. Each tenant has an index and the statistics of its matches.

mod tenant;

pub use tenant::{count, Change, Put, Tenant};

use crate::error::{Error, Kind};
use crate::index::Index;
use crate::model::schema::Schema;
use crate::room::Searches;
use crate::support::hash::out_of_memory;
use crate::support::headroom::ensure;

/// The most tenants of a shard. Their numbers are below it.
pub const MAX_TENANTS: usize = 65_536;

/// More memory than a new tenant takes.
const NEW_TENANT_BYTES: usize = 16 * 1024;

/// The tenants of one schema.
///
/// ```
/// use be_tree_index::event::Format;
/// use be_tree_index::index::Insertion;
/// use be_tree_index::search::Search;
/// use be_tree_index::shard::{count, Change, Put, Shard};
/// use be_tree_index::statistics::Work;
/// # use be_tree_index::error::Error;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer)])?;
///
/// let (mut shard, mut search, mut work) = (Shard::new(schema), Search::default(), Work::default());
/// let texts: [&[u8]; 2] = [b"age > 30", b"age > 40"];
/// for (number, text) in texts.into_iter().enumerate() {
///     let put = Put { insertion: Insertion { id: 1, text, constants: vec![] }, declaration: None };
///     let change = Change { day: 20_000, declaration: None, deleted: vec![], puts: vec![put] };
///     shard.change(&mut search, number, change).map_err(|(_position, error)| error)?;
/// }
///
/// let (index, statistics) = shard.tenant_mut(0)?.to_count()?;
/// search.open(index, Format::Json, br#"{"age": 35}"#, None::<std::iter::Empty<u64>>)?;
/// assert_eq!(search.run(index).ids(), [1]);
/// count(statistics, &mut work, 20_000, &search)?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Shard {
    /// An index without subscriptions, whose siblings are the tenants' indexes.
    empty: Index,
    /// The tenants by number.
    tenants: Vec<Option<Box<Tenant>>>,
}

impl Shard {
    /// Returns a shard without tenants.
    pub fn new(schema: Schema) -> Self {
        Shard { empty: Index::new(schema), tenants: Vec::new() }
    }

    /// Returns the attributes that the expressions of all tenants read.
    pub fn schema(&self) -> &Schema {
        self.empty.schema()
    }

    /// Returns the tenants.
    pub fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().flatten().map(Box::as_ref)
    }

    /// Returns the tenant with this number.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`].
    pub fn tenant(&self, number: usize) -> Result<&Tenant, Error> {
        self.tenants.get(number).and_then(Option::as_deref).ok_or_else(|| absent(number))
    }

    /// Like [`Shard::tenant`], to change the tenant.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`].
    pub fn tenant_mut(&mut self, number: usize) -> Result<&mut Tenant, Error> {
        self.tenants.get_mut(number).and_then(Option::as_deref_mut).ok_or_else(|| absent(number))
    }

    /// Changes the tenant with this number, which is created if it is absent. Makes room in `searches`.
    ///
    /// # Errors
    ///
    /// Those of [`Tenant::change`], and nothing is changed or created then; [`Kind::OutOfBounds`] for a number that is too great.
    pub fn change(
        &mut self,
        searches: &mut impl Searches,
        number: usize,
        change: Change,
    ) -> Result<&Tenant, (Option<usize>, Error)> {
        let is_new = self.tenant(number).is_err();
        if is_new {
            self.create(searches, number, change.day).map_err(|error| (None, error))?;
        }
        let tenant = self.tenants[number].as_mut().expect("the tenant is there");
        if let Err(refused) = tenant.change(searches, change) {
            if is_new {
                self.tenants[number] = None;
            }
            return Err(refused);
        }
        Ok(self.tenants[number].as_ref().expect("the tenant is there"))
    }

    fn create(&mut self, searches: &mut impl Searches, number: usize, day: i32) -> Result<(), Error> {
        if number >= MAX_TENANTS {
            let message =
                format!("the tenant {number} is out of bounds; the numbers of tenants are below {MAX_TENANTS}");
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        ensure(NEW_TENANT_BYTES)?;
        let missing = (number + 1).saturating_sub(self.tenants.len());
        self.tenants.try_reserve(missing).map_err(out_of_memory)?;
        if missing > 0 {
            self.tenants.resize_with(number + 1, || None);
        }
        let tenant = Tenant::new(self.empty.sibling(), day);
        searches.make_room(&tenant.index().extent())?;
        self.tenants[number] = Some(Box::new(tenant));
        Ok(())
    }

    /// Forgets the tenant with this number.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`].
    pub fn drop_tenant(&mut self, number: usize) -> Result<(), Error> {
        let tenant = self.tenants.get_mut(number).and_then(Option::take);
        tenant.map(drop).ok_or_else(|| absent(number))
    }
}

fn absent(number: usize) -> Error {
    Error::new(Kind::NotFound, format!("the shard has no tenant {number}; change the tenant first"))
}
