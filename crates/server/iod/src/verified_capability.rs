//! A capability after its verification, prepared for use (I4).

use std::sync::Arc;

use braid_layout::{Layout, LayoutMap, PartSet};
use braid_store::{LAYOUT_BYTES_MAX, NewObject};
use braid_types::{
    Failure, FileIndex, IodId, MdsEpoch, ObjectId, PartIndex, SessionId, SizeGeneration, Status,
};
use braid_wire::{Capability, DataServerHandle, Rights, Secret, Wire};

/// What a verified capability allows on this daemon.
#[derive(Debug)]
pub struct VerifiedCapability {
    pub(crate) file: FileIndex,
    pub(crate) rights: Rights,
    pub(crate) session: SessionId,
    pub(crate) epoch: MdsEpoch,
    pub(crate) size_generation: SizeGeneration,
    pub(crate) map: LayoutMap,
    /// The file's parts that this daemon holds.
    pub(crate) parts: PartSet,
    /// The same in order, with their objects.
    pub(crate) local_parts: Vec<LocalPart>,
    owner: (u64, u64),
    layout: Arc<[u8]>,
}

/// One part of the file that this daemon holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalPart {
    pub(crate) object: ObjectId,
    /// Whether its absence is a loss (I11).
    pub(crate) recorded: bool,
}

impl VerifiedCapability {
    /// Checks the signature, and whether the layout has parts on `iod`.
    ///
    /// # Errors
    /// [`Status::BadCapability`] without a valid signature or a part here.
    pub(crate) fn verify(signed: &[u8], server_key: &Secret, iod: IodId) -> Result<Self, Failure> {
        let capability = Capability::verify(signed, server_key).ok_or_else(|| {
            Failure::new(Status::BadCapability, "the metadata server did not sign the capability")
        })?;
        let map = capability
            .layout
            .map()
            .map_err(|why| Failure::new(Status::BadCapability, why.to_string()))?;
        let local_parts: Vec<_> = local_parts(&capability, iod).collect();
        if local_parts.is_empty() {
            let detail = format!("no part of file {} is on I/O daemon {iod}", capability.file);
            return Err(Failure::new(Status::BadCapability, detail));
        }
        Ok(Self {
            file: capability.file,
            rights: capability.rights,
            session: capability.session,
            epoch: capability.epoch,
            size_generation: capability.size_generation,
            map,
            parts: local_parts.iter().map(|local_part| local_part.object.part).collect(),
            local_parts,
            owner: capability.owner,
            layout: capability.layout.to_bytes().into(),
        })
    }

    /// What the file handle of an NFS data server allows, and the offset at which its writes end.
    ///
    /// # Errors
    /// [`Status::BadCapability`] without a valid signature, or with a layout that cannot be.
    pub(crate) fn of_data_server_handle(
        signed: &[u8],
        server_key: &Secret,
        iod: IodId,
    ) -> Result<(Self, u64), Failure> {
        let handle = DataServerHandle::verify(signed, server_key).ok_or_else(|| {
            Failure::new(Status::BadCapability, "the metadata server did not sign the handle")
        })?;
        let map = handle
            .layout(iod)
            .map()
            .map_err(|why| Failure::new(Status::BadCapability, why.to_string()))?;
        let DataServerHandle { file, part, generation, .. } = handle;
        let object = ObjectId { file, part, generation };
        let capability = Self {
            file,
            rights: handle.rights,
            session: handle.session,
            epoch: handle.epoch,
            size_generation: handle.size_generation,
            map,
            parts: [part].into_iter().collect(),
            local_parts: vec![LocalPart { object, recorded: handle.recorded }],
            owner: handle.owner,
            // The handle does not name the other daemons.
            layout: Arc::default(),
        };
        Ok((capability, handle.write_end))
    }

    /// Refuses what the capability does not allow.
    pub(crate) fn check_rights(&self, wanted: Rights) -> Result<(), Failure> {
        if self.rights.allow(wanted) {
            return Ok(());
        }
        let what = if wanted == Rights::READ { "reading" } else { "writing" };
        Err(Failure::new(
            Status::BadCapability,
            format!("the capability does not allow {what} file {}", self.file),
        ))
    }

    /// Whether both are for the same file, size generation and layout.
    pub(crate) fn has_same_file_and_layout(&self, other: &Self) -> bool {
        self.file == other.file
            && self.size_generation == other.size_generation
            && self.layout == other.layout
    }

    /// The position of the part among the local parts.
    pub(crate) fn local_index(&self, part: PartIndex) -> Option<usize> {
        self.local_parts.binary_search_by_key(&part, |local_part| local_part.object.part).ok()
    }

    /// The local part of an object that the metadata server names.
    ///
    /// # Errors
    /// [`Status::BadCapability`] when the layout does not place this object here.
    pub(crate) fn local_part(&self, object: ObjectId) -> Result<&LocalPart, Failure> {
        let local_part = self.local_index(object.part).map(|slot| &self.local_parts[slot]);
        local_part.filter(|local_part| local_part.object == object).ok_or_else(|| {
            Failure::new(
                Status::BadCapability,
                format!("the capability's layout does not place object {object} here"),
            )
        })
    }

    /// The record of a new object. A layout that is too long for it (more than about 200 parts) is
    /// left out: it is only a copy for repair, and the metadata server has the layout itself.
    pub(crate) fn new_object(&self, object: ObjectId) -> NewObject {
        // The record has 32 bits for each, which fsck shows; a larger id is shown as nobody.
        let id32 = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
        NewObject {
            id: object,
            size_generation: self.size_generation,
            uid: id32(self.owner.0),
            gid: id32(self.owner.1),
            layout: if self.layout.len() <= LAYOUT_BYTES_MAX {
                self.layout.clone()
            } else {
                Arc::default()
            },
        }
    }

    /// Approximate memory in bytes, for the limit of a connection's handles.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.local_parts.len() * size_of::<LocalPart>() + 2 * self.layout.len()
    }
}

fn local_parts(capability: &Capability, iod: IodId) -> impl Iterator<Item = LocalPart> {
    let Layout { components, .. } = &capability.layout;
    let placements = components.iter().flat_map(|component| &component.parts);
    placements.enumerate().filter(move |(_, placement)| placement.iods.contains(&iod)).map(
        |(ordinal, placement)| {
            // `Layout::map` has limited the parts to PARTS_MAX.
            let part = PartIndex(ordinal as u16);
            let object = ObjectId { file: capability.file, part, generation: placement.generation };
            LocalPart { object, recorded: capability.is_recorded(part) }
        },
    )
}
