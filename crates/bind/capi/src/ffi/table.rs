//! Descriptors: numbers for the clusters, files and directories that a program has open.
//!
//! They differ from POSIX descriptors in two ways. First, the numbers start above all kernel
//! descriptors. So a libbraid descriptor passed to `read(2)`, or a kernel descriptor passed to
//! libbraid, is EBADF. Second, the number of a closed descriptor is not reused soon: a late use of
//! it does not reach another file.

use std::{
    collections::{HashMap, hash_map},
    ffi::c_int,
    sync::{Arc, PoisonError, RwLock},
};

use super::{
    failure::{Failure, Outcome},
    process,
};
use crate::{cluster::Cluster, file::OpenFile, names::directory::Directory};

/// The first number.
pub(crate) const FIRST_DESCRIPTOR: c_int = 1 << 30;
/// Maximum of descriptors of one process (I9): the number of files that Linux allows
/// (`/proc/sys/fs/nr_open`).
const DESCRIPTORS_MAX: usize = 1 << 20;

/// What a descriptor names.
#[derive(Clone)]
pub(crate) enum DescriptorTarget {
    Cluster(Arc<Cluster>),
    File(Arc<OpenFile>),
    Directory(Arc<Directory>),
}

/// All descriptors of this process.
#[derive(Default)]
pub(crate) struct DescriptorTable {
    open: RwLock<HashMap<c_int, DescriptorTarget>>,
}

impl DescriptorTable {
    /// Adds a descriptor.
    pub(crate) fn add(&self, thing: DescriptorTarget) -> Outcome<c_int> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= DESCRIPTORS_MAX {
            return Err(Failure::new(
                libc::EMFILE,
                format!("opening: {DESCRIPTORS_MAX} descriptors are open; try: braid_close"),
            ));
        }
        loop {
            let number = process::next_number();
            if let hash_map::Entry::Vacant(place) = open.entry(number) {
                place.insert(thing);
                return Ok(number);
            }
        }
    }

    /// Removes a descriptor and returns what it named, if it is of the wanted kind.
    fn take<T>(
        &self,
        number: c_int,
        kind: &str,
        wanted: fn(&DescriptorTarget) -> Option<&Arc<T>>,
    ) -> Outcome<Arc<T>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let found =
            open.get(&number).and_then(wanted).cloned().ok_or_else(|| unknown(number, kind))?;
        open.remove(&number);
        Ok(found)
    }

    fn find<T>(
        &self,
        number: c_int,
        kind: &str,
        wanted: fn(&DescriptorTarget) -> Option<&Arc<T>>,
    ) -> Outcome<Arc<T>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&number).and_then(wanted).cloned().ok_or_else(|| unknown(number, kind))
    }

    /// What a descriptor names, of any kind.
    pub(crate) fn any(&self, number: c_int) -> Outcome<DescriptorTarget> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&number).cloned().ok_or_else(|| unknown(number, "anything that is open"))
    }
}

macro_rules! kinds {
    ($($find:ident, $take:ident, $kind:ident: $type:ty, $words:literal;)*) => {$(
        pub(crate) fn $find(number: c_int) -> Outcome<Arc<$type>> {
            process::table().find(number, $words, |open| match open {
                DescriptorTarget::$kind(found) => Some(found),
                _ => None,
            })
        }

        pub(crate) fn $take(number: c_int) -> Outcome<Arc<$type>> {
            process::table().take(number, $words, |open| match open {
                DescriptorTarget::$kind(found) => Some(found),
                _ => None,
            })
        }
    )*};
}
kinds! {
    cluster, take_cluster, Cluster: Cluster, "a cluster";
    file, take_file, File: OpenFile, "an open file";
    directory, take_directory, Directory: Directory, "an open directory";
}

fn unknown(number: c_int, kind: &str) -> Failure {
    let why = match process::is_inherited(number) {
        true => {
            "it was opened by the parent, before fork(); try: braid_connect in the child".to_owned()
        }
        false => format!("it does not name {kind}"),
    };
    Failure::new(libc::EBADF, format!("descriptor {number}: {why}"))
}
