//! The declarations of a tenant: one for all expressions, and those of single expressions. Equal declarations are stored once.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::sketch::request;
use crate::statistics::declaration::Declaration;
use crate::support::hash::{hash_bytes, hash_of};
use crate::support::headroom::table_growth;

/// All declarations of a tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    /// For expressions without their own, `None` if it is empty.
    default: Option<Arc<Declaration>>,
    own: HashTable<Own>,
    distinct: HashTable<Distinct>,
}

/// The declaration of an expression, `None` if it is empty.
#[derive(Clone, Debug)]
struct Own {
    id: u64,
    declaration: Option<Arc<Declaration>>,
}

/// A declaration, and the number of expressions that have it.
#[derive(Clone, Debug)]
struct Distinct {
    declaration: Arc<Declaration>,
    ids: usize,
}

impl Declarations {
    /// Returns the declaration for an expression, `None` if it is empty.
    #[inline]
    pub fn of(&self, id: u64) -> Option<&Arc<Declaration>> {
        match self.own(id) {
            Some(own) => own.declaration.as_ref(),
            None => self.default.as_ref(),
        }
    }

    /// Returns whether an expression has its own declaration.
    pub fn has_own(&self, id: u64) -> bool {
        self.own(id).is_some()
    }

    /// Returns the declaration for expressions without their own, `None` if it is empty.
    pub fn of_others(&self) -> Option<&Arc<Declaration>> {
        self.default.as_ref()
    }

    fn own(&self, id: u64) -> Option<&Own> {
        match self.own.is_empty() {
            true => None,
            false => self.own.find(hash_of(&id), |own| own.id == id),
        }
    }

    /// Returns an upper bound of the bytes that [`Declarations::set`] requests for this number of declarations.
    pub fn growth(&self, more: usize) -> usize {
        match more {
            0 => 0,
            _ => {
                let rehashes = 2 * request::<u8>(0);
                table_growth(&self.own, more)
                    + table_growth(&self.distinct, more)
                    + rehashes
                    + more * request::<Declaration>(1)
            }
        }
    }

    /// Requests memory for this number of declarations at once.
    pub fn reserve(&mut self, more: usize) {
        self.own.reserve(more, |own| hash_of(&own.id));
        self.distinct.reserve(more, |distinct| hash(&distinct.declaration));
    }

    /// Sets the declaration for expressions without their own.
    pub fn set_default(&mut self, declaration: Declaration) {
        self.default = (!declaration.stats.is_empty()).then(|| Arc::new(declaration));
    }

    /// Sets the declaration of an expression, or removes it.
    pub fn set(&mut self, id: u64, declaration: Option<Declaration>) {
        if let Ok(found) = self.own.find_entry(hash_of(&id), |own| own.id == id) {
            let (own, _) = found.remove();
            self.release(own);
        }
        if let Some(declaration) = declaration {
            let declaration = (!declaration.stats.is_empty()).then(|| self.shared(declaration));
            self.own.insert_unique(hash_of(&id), Own { id, declaration }, |own| hash_of(&own.id));
        }
    }

    /// Returns the stored declaration that equals `declaration`.
    fn shared(&mut self, declaration: Declaration) -> Arc<Declaration> {
        let hash_of_it = hash(&declaration);
        if let Some(known) = self.distinct.find_mut(hash_of_it, |known| *known.declaration == declaration) {
            known.ids += 1;
            return known.declaration.clone();
        }
        let shared = Arc::new(declaration);
        let distinct = Distinct { declaration: shared.clone(), ids: 1 };
        self.distinct.insert_unique(hash_of_it, distinct, |distinct| hash(&distinct.declaration));
        shared
    }

    fn release(&mut self, own: Own) {
        let Some(declaration) = own.declaration else { return };
        let found = self.distinct.find_entry(hash(&declaration), |known| Arc::ptr_eq(&known.declaration, &declaration));
        if let Ok(mut known) = found {
            known.get_mut().ids -= 1;
            if known.get().ids == 0 {
                known.remove();
            }
        }
    }

    /// Returns the bytes of all declarations.
    pub fn bytes(&self) -> usize {
        let default = self.default.iter().map(|declaration| bytes(declaration)).sum::<usize>();
        let distinct = self.distinct.iter().map(|distinct| bytes(&distinct.declaration)).sum::<usize>();
        self.own.allocation_size() + self.distinct.allocation_size() + default + distinct
    }
}

fn hash(declaration: &Declaration) -> u64 {
    declaration
        .stats
        .iter()
        .fold(0, |hash, stat| hash_of(&(hash, hash_bytes(&stat.header.name), stat.attribute.word())))
}

fn bytes(declaration: &Declaration) -> usize {
    declaration.stats.iter().map(super::declaration::Stat::bytes).sum::<usize>() + size_of::<Declaration>()
}
