//! One directory in the name cache.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use braid_client::{Attributes, FileIndex, FileKind};

use super::{
    change_marks::ChangeMark, dir_listing::DirListing, eviction_queue::Arrival,
    names_lease::NamesLease,
};

/// What a name leads to. `None`: nothing, a negative entry.
pub(super) type Target = Option<(FileIndex, FileKind)>;

#[derive(Debug)]
pub(super) struct CachedDirectory {
    /// Covers all of it.
    pub(super) lease: Arc<NamesLease>,
    pub(super) arrival: Arrival,
    pub(super) names: HashMap<Box<[u8]>, Target>,
    /// How many of the names lead somewhere.
    pub(super) present: u64,
    /// Attributes of files in it, but not of directories.
    pub(super) files: HashMap<FileIndex, Attributes>,
    /// Attributes of the directory itself.
    pub(super) own: Option<Attributes>,
    pub(super) listing: DirListing,
    /// The directory above, and the count of moves at that time.
    pub(super) above: Option<(FileIndex, u64)>,
    /// The last change of the directory by this mount whose reply did not bring its attributes.
    pub(super) own_unknown_since: ChangeMark,
    /// Files whose attributes were given out under this or an earlier lease.
    pub(super) given_out: HashSet<FileIndex>,
}

impl CachedDirectory {
    pub(super) fn new(
        lease: Arc<NamesLease>,
        arrival: Arrival,
        given_out: HashSet<FileIndex>,
    ) -> Self {
        Self {
            lease,
            arrival,
            names: HashMap::new(),
            present: 0,
            files: HashMap::new(),
            own: None,
            listing: DirListing::default(),
            above: None,
            own_unknown_since: ChangeMark::default(),
            given_out,
        }
    }

    /// Sets what a name leads to, and returns what it led to before. `None`: it was not cached.
    pub(super) fn set_name(&mut self, name: &[u8], target: Target) -> Option<Target> {
        let old = self.names.insert(name.into(), target);
        self.present += u64::from(target.is_some());
        self.present -= u64::from(old.is_some_and(|old| old.is_some()));
        old
    }

    /// Removes a name, and returns what it led to. `None`: it was not cached.
    pub(super) fn remove_name(&mut self, name: &[u8]) -> Option<Target> {
        let old = self.names.remove(name)?;
        self.present -= u64::from(old.is_some());
        Some(old)
    }

    /// Whether as many names are cached as the directory's attributes count.
    pub(super) fn has_all_names(&self) -> bool {
        self.own.as_ref().map(|own| own.bytes.0) == Some(self.present)
    }
}
