//! The hash table of the runtime's hot paths.

use std::collections::HashMap;

/// A table for keys of a few dozen bytes, hashed in a few nanoseconds. The seed is the process's own;
/// names in a cluster are chosen by those who may create objects in it, so that a flood of colliding
/// ones, which would cost more objects than a cluster holds, is not what std's slower hash is needed for.
pub(super) type Map<K, V> = HashMap<K, V, State>;

/// Its hasher.
pub(super) type State = foldhash::fast::RandomState;
