//! Indexes that an operator declares.

use std::sync::Arc;

use super::{NotSynced, Store};
use crate::runtime::{Kind, Text};

/// An index of a store: its objects by keys of the operator's choice. Clones share it.
///
/// ```
/// # use mainstay::operator::kinds::Pod;
/// # use mainstay::runtime::Store;
/// let pods = Store::<Pod>::new();
/// let by_node = pods.index_by(|pod| [pod.spec.node_name.clone()]);
/// assert!(by_node.get("node-1").is_err(), "not synced yet");
/// ```
pub struct IndexedBy<K> {
    store: Store<K>,
    /// Its number in `store`.
    number: usize,
}

impl<K> Clone for IndexedBy<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            number: self.number,
        }
    }
}

impl<K: Kind> Store<K> {
    /// Declares an index: an object is found under each of its keys, from now on and for as long as
    /// the store lives. `keys` must depend on nothing but the object, and must not panic; it is asked
    /// at each change of an object, under the store's lock. What the store already holds is indexed
    /// now, which holds up others for that long: declare indexes before the list-watch starts.
    pub fn index_by<I: IntoIterator<Item = Text>>(
        &self,
        keys: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> IndexedBy<K> {
        let keys = move |object: &K, found: &mut Vec<Text>| found.extend(keys(object));
        IndexedBy {
            number: self.write().declare(Box::new(keys)),
            store: self.clone(),
        }
    }
}

impl<K: Kind> IndexedBy<K> {
    /// The objects with that key, ordered by their own. Costs the matches.
    ///
    /// # Errors
    /// [`NotSynced`] before the first list is complete.
    pub fn get(&self, key: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        self.store.check_synced()?;
        Ok(self.store.read().declared(self.number, key))
    }
}
