//! Open directories and their listings.

use std::{
    hash::BuildHasher,
    sync::{Mutex, PoisonError},
};

use braid_union::{DirectoryEntry, DirectoryListing, Found, NodeId, Union};
use rustix::io::Errno;

use super::{
    UnionFileSystem,
    attribute_demand::Demand,
    convert::entry,
    handles::Open,
    kernel_listings::{NAMES_MAX, Use},
    validity::{Asked, EntryValidity, SHORT},
};
use crate::kernel::{DirectoryBuffer, Header, Kind, Opened, abi};

/// Offsets of `.` and `..` in a listing.
const DOTS: u64 = 2;
/// The kinds of a [`DirectoryEntry`].
const DT_UNKNOWN: u8 = 0;
const DT_DIR: u8 = 4;

/// An open directory.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    demand: Demand,
    kernel: Use,
    /// `None`: it was not read yet.
    listed: Mutex<Option<Listed>>,
}

/// What the kernel is reading.
#[derive(Debug)]
struct Listed {
    listing: DirectoryListing,
    order: Order,
    /// Position of the file that is left out: see [`super::attribute_demand`].
    probe: Option<usize>,
    /// Before the directory was listed.
    asked: Asked,
    /// Whether the kernel was given all that is wanted, valid for long.
    all_given: bool,
}

/// The order of the entries, and the offset from which the listing continues after each.
#[derive(Debug)]
enum Order {
    /// As the branches have them: offsets are positions.
    Branches,
    /// In the order of their offsets, with their positions: see [`super::kernel_listings`].
    Offsets(Vec<(u64, usize)>),
}

impl Order {
    fn by_offsets(entries: &[DirectoryEntry], hasher: &impl BuildHasher) -> Self {
        // 31 bits: programs of 32 bits read offsets as signed numbers.
        let offset = |entry: &DirectoryEntry| (hasher.hash_one(&entry.name) >> 33).max(DOTS + 1);
        let mut sorted: Vec<(u64, usize)> =
            entries.iter().enumerate().map(|(at, entry)| (offset(entry), at)).collect();
        sorted.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| entries[one.1].name.cmp(&entries[other.1].name))
        });
        let mut last = 0;
        for (offset, _) in &mut sorted {
            *offset = (*offset).max(last + 1);
            last = *offset;
        }
        Self::Offsets(sorted)
    }

    /// Offsets and positions of the entries after an offset.
    fn after(&self, offset: u64, entries: usize) -> impl Iterator<Item = (u64, usize)> {
        let begin = match self {
            Self::Branches => usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(entries),
            Self::Offsets(sorted) => sorted.partition_point(|(at, _)| *at <= offset),
        };
        (begin..entries).map(move |place| match self {
            Self::Branches => (place as u64 + DOTS + 1, place),
            Self::Offsets(sorted) => sorted[place],
        })
    }
}

impl Listed {
    fn is_at_the_end(&self, offset: u64) -> bool {
        offset >= DOTS && self.order.after(offset, self.listing.entries.len()).next().is_none()
    }
}

impl UnionFileSystem {
    pub(super) fn open_directory(&self, header: &Header) -> (Opened, OpenDirectory) {
        let node = NodeId(header.node);
        let demand = self.attribute_demand.opens(header.pid, node);
        let (demand, kernel) = self.kernel_use(node, demand);
        // Without KEEP_CACHE the kernel would drop what it keeps for others.
        let flags = match kernel {
            Use::Read => abi::fopen::KEEP_CACHE,
            Use::ReadAndKeep => abi::fopen::CACHE_DIR,
            Use::Kept => abi::fopen::CACHE_DIR | abi::fopen::KEEP_CACHE,
        };
        let directory = OpenDirectory { demand, kernel, listed: Mutex::default() };
        (Opened { flags, ..Opened::default() }, directory)
    }

    /// Whether the kernel may keep the listing of a directory, and what else the program needs. The
    /// kernel keeps no attributes with a listing. It has them for long where direct changes are
    /// noticed; otherwise only listings of names are kept, and of no directory with subdirectories,
    /// whose attributes are needed too.
    fn kernel_use(&self, node: NodeId, demand: Demand) -> (Demand, Use) {
        let unchanged = self.union.unchanged_listing(node).filter(|_| self.can_notice());
        let demand = match unchanged {
            Some(id) if self.known_attributes.suffice(node, id, demand) => Demand::Nothing,
            _ => demand,
        };
        if let (Demand::Nothing, Some(id)) = (demand, unchanged)
            && self.kernel_listings.has(node, id)
        {
            return (demand, self.kernel_listings.open(node, id));
        }
        if demand == Demand::Attributes && !(self.can_notice() && self.union.notices_names(node)) {
            return (demand, Use::Read);
        }
        // An error is given to the reader.
        let Ok(listing) = self.union.list(node) else { return (demand, Use::Read) };
        let Some(id) = listing.id.filter(|_| listing.entries.len() <= NAMES_MAX) else {
            return (demand, Use::Read);
        };
        let names_suffice = match demand {
            Demand::Nothing => true,
            Demand::Names => is_leaf(&listing),
            Demand::Attributes => false,
        };
        let noticed = self.union.unchanged_listing(node) == Some(id);
        let has = || self.kernel_listings.has(node, id);
        if names_suffice || noticed && self.can_notice() && !has() {
            return (demand, self.kernel_listings.open(node, id));
        }
        (demand, Use::Read)
    }

    pub(super) fn close_directory(&self, handle: u64, node: NodeId) {
        if let Some(Open::Directory(directory)) = self.handles.remove(handle)
            && directory.kernel != Use::Read
        {
            self.kernel_listings.close(node);
        }
    }

    /// A part of a listing, and the nodes whose lookups it counts.
    pub(super) fn read_directory(
        &self,
        header: &Header,
        handle: u64,
        offset: u64,
        (size, plus): (u32, bool),
    ) -> Result<(DirectoryBuffer, Vec<NodeId>), Errno> {
        let node = NodeId(header.node);
        let directory = self.handles.directory(handle)?;
        let mut listed = directory.listed.lock().unwrap_or_else(PoisonError::into_inner);
        // Offset 0 again: rewinddir(3) sees what was created since the first read.
        let listed = match listed.take().filter(|_| offset > 0) {
            Some(read) => listed.insert(read),
            None => listed.insert(self.begin_listing(header, &directory, plus)?),
        };
        if let Some(error) = listed.listing.failed
            && listed.is_at_the_end(offset)
        {
            return Err(error);
        }
        let filled = self.fill(node, &directory, listed, offset, (size, plus));
        if let (true, true, Some(id)) = (filled.2, listed.all_given, listed.listing.id)
            && directory.demand != Demand::Nothing
        {
            self.known_attributes.given(node, id, directory.demand);
        }
        Ok((filled.0, filled.1))
    }

    fn begin_listing(
        &self,
        header: &Header,
        directory: &OpenDirectory,
        plus: bool,
    ) -> Result<Listed, Errno> {
        let node = NodeId(header.node);
        let asked = self.answers.begin();
        let listing = self.union.list(node)?;
        let order = match directory.kernel {
            Use::Read => Order::Branches,
            Use::ReadAndKeep | Use::Kept => Order::by_offsets(&listing.entries, &self.hasher),
        };
        if directory.kernel != Use::Read {
            self.kernel_listings.read(node, listing.id);
        }
        let probes = plus && directory.demand == Demand::Attributes && is_leaf(&listing);
        let first = if probes { first_visible(&listing.entries) } else { None };
        let probe = first.filter(|at| {
            let name = &listing.entries[*at].name;
            self.attribute_demand.leaves_out(header.pid, node, name)
        });
        Ok(Listed { listing, order, probe, asked, all_given: true })
    }

    fn fill(
        &self,
        node: NodeId,
        directory: &OpenDirectory,
        listed: &mut Listed,
        offset: u64,
        (size, plus): (u32, bool),
    ) -> (DirectoryBuffer, Vec<NodeId>, bool) {
        let mut buffer = DirectoryBuffer::new(size);
        let mut entered = Vec::new();
        let dots: [&[u8]; 2] = [b".", b".."];
        for (at, name) in (1..).zip(dots).skip_while(|(at, _)| *at <= offset) {
            let fits = match plus {
                true => buffer.push_plus(None, node.0, at, Kind::Directory, name),
                false => buffer.push(node.0, at, Kind::Directory, name),
            };
            if !fits {
                return (buffer, entered, false);
            }
        }
        let entries = &listed.listing.entries;
        let mut is_whole = true;
        for (at, position) in listed.order.after(offset, entries.len()) {
            let entry = &entries[position];
            let wanted = match directory.demand {
                Demand::Attributes => listed.probe != Some(position),
                Demand::Names => may_be_directory(entry),
                Demand::Nothing => false,
            };
            let fits = if plus {
                let looked_up =
                    if wanted { self.look_up_listed(node, listed, entry) } else { None };
                listed.all_given &= !wanted || looked_up.is_some_and(|(_, valid)| valid.is_long());
                push_plus(looked_up, entry, at, &mut buffer, &mut entered, &self.union)
            } else {
                listed.all_given &= !wanted;
                buffer.push(entry.index, at, kind(entry), &entry.name)
            };
            if !fits {
                is_whole = false;
                break;
            }
        }
        (buffer, entered, is_whole)
    }

    /// `None`: a name that is gone by now has no attributes; the kernel looks it up.
    fn look_up_listed(
        &self,
        directory: NodeId,
        listed: &Listed,
        entry: &DirectoryEntry,
    ) -> Option<(Found, EntryValidity)> {
        // Whether the branches that had the name are still those that have it.
        let asked = self.answers.begin();
        let is_current = asked.has_same_names(listed.asked);
        let found = match is_current || !self.union.notices_names(directory) {
            true => self.union.look_up_listed(directory, &listed.listing, entry),
            false => self.union.look_up(directory, &entry.name),
        };
        let found = found.ok()?;
        // What the listing did not see is older by its age.
        let short = SHORT.saturating_sub(listed.listing.age());
        Some((found, self.entry_validity(asked, directory, &found, short)))
    }
}

/// Adds a name, and the file that was looked up if its attributes are wanted.
fn push_plus(
    looked_up: Option<(Found, EntryValidity)>,
    listed: &DirectoryEntry,
    offset: u64,
    buffer: &mut DirectoryBuffer,
    entered: &mut Vec<NodeId>,
    union: &Union,
) -> bool {
    let fits = buffer.push_plus(
        looked_up.map(|(found, valid)| entry(&found, valid)).as_ref(),
        looked_up.map_or(listed.index, |(found, _)| found.attributes.index),
        offset,
        kind(listed),
        &listed.name,
    );
    match looked_up {
        Some((found, _)) if fits => entered.push(found.node),
        Some((found, _)) => union.forget(found.node, 1),
        None => {}
    }
    fits
}

fn kind(entry: &DirectoryEntry) -> Kind {
    Kind::of_mode(u32::from(entry.kind) << 12)
}

/// Some file systems do not say.
fn may_be_directory(entry: &DirectoryEntry) -> bool {
    matches!(entry.kind, DT_DIR | DT_UNKNOWN)
}

fn is_leaf(listing: &DirectoryListing) -> bool {
    !listing.entries.iter().any(may_be_directory)
}

/// A file whose attributes `ls -l` shows.
fn first_visible(entries: &[DirectoryEntry]) -> Option<usize> {
    entries.iter().position(|entry| !entry.name.starts_with(b"."))
}
