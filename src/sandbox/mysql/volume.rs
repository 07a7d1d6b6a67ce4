//! Disks, as what outlives the instances that use them.

use super::{Mysqls, process::DiskId};

/// A modelled disk: a data directory, the manager's term, binary logs kept aside. It survives the
/// instances that use it. Clones are one and the same.
#[derive(Clone)]
pub struct Volume {
    pub(super) mysqls: Mysqls,
    pub(super) disk: DiskId,
}

impl Volume {
    /// An empty one.
    #[must_use]
    pub fn new(mysqls: &Mysqls) -> Self {
        let disk = mysqls.change(|network, _| {
            let disk = DiskId(network.id());
            network.disks.entry(disk).or_default();
            disk
        });
        Self {
            mysqls: mysqls.clone(),
            disk,
        }
    }

    /// Removes all that is on it: the volume is deleted.
    pub fn erase(&self) {
        self.mysqls
            .change(|network, _| network.disks.remove(&self.disk));
    }

    /// Whether there is a complete data directory.
    #[must_use]
    pub fn has_data(&self) -> bool {
        let disk = self.disk;
        self.mysqls
            .look(|network| network.disks.get(&disk).is_some_and(|it| it.data.is_some()))
    }
}

impl PartialEq for Volume {
    fn eq(&self, other: &Self) -> bool {
        self.disk == other.disk && self.mysqls.is(&other.mysqls)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume {}", self.disk.0)
    }
}
