//! The names by which the opens of a lease were opened. MS-SMB2 3.3.1.12, Lease.Filename.
//!
//! A client may use the key of a lease for one file only. It takes a name for that file until it
//! learns that others have renamed, replaced or removed it.

use std::sync::Arc;

use braid_share::{FileIndex, Share};
use braid_smb_wire::smb2::create::LeaseState;

use super::{Blocked, LeaseName, Leases, Owner};
use crate::open::Place;

/// Most names of a lease that are looked at.
const NAMES_MAX: usize = 16;

/// A name by which a file was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedName {
    /// The root of the share.
    pub root: FileIndex,
    /// Where it was found.
    pub place: Place,
}

impl LeasedName {
    /// Whether a client means the same by both. Case does not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        let (one, other_path) = (&self.place.path, &other.place.path);
        self.root == other.root
            && (one == other_path || one.to_uppercase() == other_path.to_uppercase())
    }
}

impl<S: Share> Leases<S> {
    /// The file of a lease, and the names by which it was opened.
    pub fn names_of(&self, lease: LeaseName) -> Option<(FileIndex, Vec<Arc<LeasedName>>)> {
        self.look_at(lease, |file, entry| {
            let holder = entry.holders.iter().find(|one| one.owner == Owner::Lease(lease));
            let mut names: Vec<Arc<LeasedName>> = Vec::new();
            for name in
                holder.into_iter().flat_map(|one| &one.opens).filter_map(|one| one.name.as_ref())
            {
                if names.len() < NAMES_MAX && !names.contains(name) {
                    names.push(Arc::clone(name));
                }
            }
            (file, names)
        })
    }

    /// Takes back all that a lease of a file allows. Returns what to wait for until it is given up;
    /// `None` if nothing is cached.
    pub fn take_back(self: &Arc<Self>, file: FileIndex, lease: LeaseName) -> Option<Blocked> {
        let blocked = self.run(file, None, |entry, effects| {
            let holder = entry.holder(Owner::Lease(lease))?;
            holder.take_back(effects);
            let is_cached = holder.state != LeaseState::NONE;
            is_cached.then(|| entry.blocked())
        });
        blocked.flatten()
    }
}
