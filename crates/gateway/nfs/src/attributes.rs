//! Attributes: those of BraidFS as the attributes of RFC 8881 5, and those that clients set.

use braid_nfs_wire::nfs4::{
    AclSupport, Attributes as NfsAttributes, Bitmap, ChangeAttrType, EncodedAttributes, FileHandle,
    LayoutType, MdsThreshold, NfsFtype, NfsResult, NfsStatus, NfsTime, OpenArguments,
    SetTime as NfsSetTime, SpecData, ThresholdItem, Thresholds, attribute, open_argument,
};
use braid_share::nfs4_acl::Nfs4Acl;
use braid_share::{
    AttributeChanges, Attributes, ByteCount, FILE_BYTES_MAX, FileIndex, FileKind, SetTime, Share,
    ShareClient, StatFsReply, Status, Timestamp,
};
use bytes::Bytes;

use crate::acl;
use crate::compound::CompoundState;
use crate::export::{Export, ExportedFile, Node, PseudoNode};
use crate::names::{NameKind, Names};
use crate::ops::filehandle::handle_of;
use crate::status::nfs_status;

/// Bytes of a READ or WRITE. Linux cuts larger ones.
pub const IO_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a name, as in every Linux file system.
pub const NAME_BYTES_MAX: u32 = 255;
/// Names of one file.
const LINKS_MAX: u32 = 65_000;
/// Stripe unit that layouts prefer, in bytes.
const LAYOUT_BLOCK_BYTES: u32 = 1 << 20;

/// Permission bits of directories of the pseudo file system.
const PSEUDO_MODE: u16 = 0o555;

/// Attributes that this server never returns.
const UNSUPPORTED: Bitmap = Bitmap::of(&[
    attribute::QUOTA_AVAIL_HARD,
    attribute::QUOTA_AVAIL_SOFT,
    attribute::QUOTA_USED,
    attribute::LAYOUT_TYPES,
    attribute::LAYOUT_ALIGNMENT,
]);
/// Attributes of the file system's space, which cost a call of their own.
const SPACE: Bitmap = Bitmap::of(&[
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
]);
/// Attributes that only a layout needs.
const LAYOUT: Bitmap =
    Bitmap::of(&[attribute::FS_LAYOUT_TYPES, attribute::LAYOUT_BLKSIZE, attribute::MDSTHRESHOLD]);

/// RFC 9754: what OPEN accepts. Claims of an earlier instance of a client are refused, and nobody
/// gets delegated times.
const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    share_access: Bitmap::of(&[1, 2, 3]),
    share_deny: Bitmap::of(&[0, 1, 2, 3]),
    share_access_want: Bitmap::of(&[
        open_argument::WANT_ANY_DELEGATION,
        open_argument::WANT_NO_DELEGATION,
        open_argument::WANT_CANCEL,
    ]),
    open_claim: Bitmap::of(&[0, 1, 2, 4, 5]),
    create_mode: Bitmap::of(&[0, 1, 2, 3]),
};

/// The attributes that a file of an export has. `TIME_CREATE` can be read, not set.
pub fn supported(export: Option<&Export>) -> Bitmap {
    let all = attribute::ALL.without(UNSUPPORTED);
    if export.is_some_and(|export| export.config().pnfs) { all } else { all.without(LAYOUT) }
}

/// The attributes that an exclusive creation sets. The times hold the verifier.
fn exclusive_create(export: Option<&Export>) -> Bitmap {
    let times = Bitmap::of(&[attribute::TIME_ACCESS_SET, attribute::TIME_MODIFY_SET]);
    (supported(export) & attribute::SETTABLE).without(times)
}

/// The requested attributes of what the current file handle names.
pub async fn of_node<S: Share>(
    state: &CompoundState<'_, S>,
    node: &Node,
    requested: &Bitmap,
) -> NfsResult<EncodedAttributes> {
    match node {
        Node::Pseudo(node) => Ok(of_pseudo(state, *node, requested)),
        Node::File(file) => {
            let known = state.attributes_of(file.file).await?;
            let space = space_of(state, file, requested).await?;
            let handle = handle_of(state.server, node);
            let mut all = of_file(state, file, &known, space.as_ref(), handle);
            add_costly(state, &known, &mut all, requested).await?;
            Ok(all.to_encoded(requested))
        }
    }
}

/// Adds the requested attributes that may cost a call or a lookup of their own: the access control
/// list, and names in place of numbers.
pub async fn add_costly<S: Share>(
    state: &CompoundState<'_, S>,
    known: &Attributes,
    all: &mut NfsAttributes,
    requested: &Bitmap,
) -> NfsResult<()> {
    if requested.has(attribute::ACL) {
        all.acl = acl::of_file(state, known).await?;
    }
    let names = &state.server.names;
    if names.sends_names() {
        if requested.has(attribute::OWNER) {
            all.owner = Some(names.text(NameKind::User, known.uid).await);
        }
        if requested.has(attribute::OWNER_GROUP) {
            all.owner_group = Some(names.text(NameKind::Group, known.gid).await);
        }
    }
    Ok(())
}

/// Free space, if an attribute of it is requested.
pub async fn space_of<S: Share>(
    state: &CompoundState<'_, S>,
    file: &ExportedFile,
    requested: &Bitmap,
) -> NfsResult<Option<StatFsReply>> {
    if (*requested & SPACE).is_empty() {
        return Ok(None);
    }
    let space = state.share_client()?.statfs(state.who(), file.file).await;
    space.map(Some).map_err(|error| nfs_status(error.status()))
}

/// All attributes of a file, without those of [`add_costly`]; owners are numbers.
pub fn of_file<S: Share>(
    state: &CompoundState<'_, S>,
    file: &ExportedFile,
    known: &Attributes,
    space: Option<&StatFsReply>,
    handle: FileHandle,
) -> NfsAttributes {
    let export = &file.export;
    let is_root = state.server.exports.is_known_root(export, file.file);
    let device = SpecData { major: (known.device >> 32) as u32, minor: known.device as u32 };
    let mut all = NfsAttributes {
        file_type: Some(file_type(known.kind)),
        change: Some(known.change),
        size: Some(known.bytes.0),
        fsid: Some(export.fsid()),
        filehandle: Some(handle),
        fileid: Some(known.file.0),
        mode: Some(known.mode & 0o7777),
        numlinks: Some(known.links),
        owner: Some(number(known.uid)),
        owner_group: Some(number(known.gid)),
        rawdev: Some(device),
        space_used: Some(known.bytes_used.0),
        time_access: Some(time(known.atime)),
        time_create: Some(time(known.btime)),
        time_metadata: Some(time(known.ctime)),
        time_modify: Some(time(known.mtime)),
        // RFC 8881 5.8.2.23: at the root of an export, the directory that the client would see
        // without it.
        mounted_on_fileid: Some(if is_root {
            state.server.exports.pseudo(export.node()).number
        } else {
            known.file.0
        }),
        ..common(state, Some(export))
    };
    if let Some(space) = space {
        // BraidFS limits files by quota only.
        let files_max = space.files_max.unwrap_or(u64::from(u32::MAX));
        all.files_total = Some(files_max);
        all.files_free = Some(files_max.saturating_sub(space.files));
        all.files_avail = all.files_free;
        all.space_total = Some(space.total.0);
        all.space_free = Some(space.free.0);
        all.space_avail = Some(space.available.0);
    }
    if export.config().pnfs {
        let gives = state.gives_layouts(export);
        all.fs_layout_types = Some(if gives { vec![LayoutType::FILES] } else { Vec::new() });
        all.layout_blksize = Some(LAYOUT_BLOCK_BYTES);
        all.mdsthreshold = threshold(export, known.kind);
    }
    all
}

/// RFC 8881 5.12.4: which files a client accesses through this server although it has a layout.
/// Linux asks for it in OPEN, and compares with the size that it knows.
fn threshold(export: &Export, kind: FileKind) -> Option<MdsThreshold> {
    let bytes = export.config().pnfs_threshold;
    (kind == FileKind::File && bytes > 0).then(|| {
        // No thresholds for requests: with both, Linux uses this server while both are below.
        let all =
            Thresholds { read_size: Some(bytes), write_size: Some(bytes), ..Thresholds::default() };
        MdsThreshold { hints: vec![ThresholdItem::new(LayoutType::FILES, &all)] }
    })
}

/// The requested attributes of a directory of the pseudo file system.
pub fn of_pseudo<S: Share>(
    state: &CompoundState<'_, S>,
    node: PseudoNode,
    requested: &Bitmap,
) -> EncodedAttributes {
    let directory = state.server.exports.pseudo(node);
    let scope = state.server.scope.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let epoch = NfsTime { seconds: 0, nanoseconds: 0 };
    let all = NfsAttributes {
        file_type: Some(NfsFtype::Directory),
        // It changes with the configuration, and so with a restart only.
        change: Some(u64::from(state.server.epoch)),
        size: Some(4096),
        fsid: Some(braid_nfs_wire::nfs4::FsId { major: scope, minor: 0 }),
        filehandle: Some(handle_of(state.server, &Node::Pseudo(node))),
        fileid: Some(directory.number),
        mode: Some(PSEUDO_MODE.into()),
        acl: Some(acl::of_pseudo(PSEUDO_MODE)),
        numlinks: Some(2 + directory.len() as u32),
        owner: Some(number(0)),
        owner_group: Some(number(0)),
        rawdev: Some(SpecData { major: 0, minor: 0 }),
        space_used: Some(0),
        time_access: Some(epoch),
        time_metadata: Some(epoch),
        time_modify: Some(epoch),
        mounted_on_fileid: Some(directory.number),
        files_avail: Some(0),
        files_free: Some(0),
        files_total: Some(directory.len() as u64),
        space_avail: Some(0),
        space_free: Some(0),
        space_total: Some(0),
        ..common(state, None)
    };
    all.to_encoded(requested)
}

/// Attributes that are the same for all files.
fn common<S: Share>(state: &CompoundState<'_, S>, export: Option<&Export>) -> NfsAttributes {
    NfsAttributes {
        supported_attrs: Some(supported(export)),
        // RFC 8881 5.8.1.3: FH4_PERSISTENT.
        fh_expire_type: Some(0),
        link_support: Some(true),
        symlink_support: Some(true),
        named_attr: Some(false),
        unique_handles: Some(false),
        lease_time: Some(state.server.config.lease.as_secs() as u32),
        rdattr_error: Some(NfsStatus::Ok),
        aclsupport: Some(AclSupport::ALLOW | AclSupport::DENY),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        homogeneous: Some(true),
        maxfilesize: Some(FILE_BYTES_MAX),
        maxlink: Some(LINKS_MAX),
        maxname: Some(NAME_BYTES_MAX),
        maxread: Some(IO_BYTES_MAX),
        maxwrite: Some(IO_BYTES_MAX),
        no_trunc: Some(true),
        time_delta: Some(NfsTime { seconds: 0, nanoseconds: 1 }),
        suppattr_exclcreat: Some(exclusive_create(export)),
        // RFC 8881 14.4: names are any bytes.
        fs_charset_cap: Some(0),
        clone_blksize: Some(1),
        change_attr_type: Some(ChangeAttrType::MonotonicIncrement),
        xattr_support: Some(export.is_some()),
        open_arguments: Some(OPEN_ARGUMENTS),
        ..NfsAttributes::default()
    }
}

/// The type of an object.
pub fn file_type(kind: FileKind) -> NfsFtype {
    match kind {
        FileKind::File => NfsFtype::Regular,
        FileKind::Directory => NfsFtype::Directory,
        FileKind::Symlink => NfsFtype::Link,
        FileKind::Fifo => NfsFtype::Fifo,
        FileKind::Socket => NfsFtype::Socket,
        FileKind::CharDevice => NfsFtype::Character,
        FileKind::BlockDevice => NfsFtype::Block,
        // RFC 8881 5.8.1.2: a kind that a newer server has.
        _ => NfsFtype::NamedAttribute,
    }
}

fn time(time: Timestamp) -> NfsTime {
    NfsTime { seconds: time.seconds, nanoseconds: time.nanos }
}

/// RFC 8881 5.9: an owner as a decimal number, which clients with AUTH_SYS expect.
fn number(id: u64) -> Bytes {
    id.to_string().into()
}

/// Attributes that a client sets.
#[derive(Clone, Debug)]
pub struct WantedAttributes {
    /// The changes.
    pub changes: AttributeChanges,
    /// The attributes that were named.
    pub mask: Bitmap,
    /// The mode of a new file, if it was given.
    pub mode: Option<u32>,
    /// The access control list.
    pub acl: Option<Nfs4Acl>,
}

impl WantedAttributes {
    /// Reads attributes of SETATTR, CREATE or OPEN.
    ///
    /// # Errors
    /// `ATTRNOTSUPP`; `INVAL` for one that can only be read, or a value that cannot be; `BADXDR`;
    /// those of [`Names::number`] and [`acl::from_wire`].
    pub async fn read(names: &Names, encoded: &EncodedAttributes) -> NfsResult<Self> {
        let mask = encoded.mask;
        let read = NfsAttributes::from_encoded(encoded).map_err(|error| error.status())?;
        if !mask.without(supported(None) | attribute::SETTABLE).is_empty() {
            return Err(NfsStatus::AttrNotSupp);
        }
        // RFC 8881 5.5: an attribute that is read only. A time of creation is one.
        if !mask.without(attribute::SETTABLE).is_empty() || read.time_create.is_some() {
            return Err(NfsStatus::Inval);
        }
        let masked = read.mode_set_masked;
        if masked.is_some() && read.mode.is_some() {
            return Err(NfsStatus::Inval);
        }
        // RFC 8275 6: the mode before the umask, for a directory without default list.
        let umasked = read.mode_umask.map(|both| both.mode & !both.umask);
        let mode = read.mode.or(umasked).or(masked.map(|masked| masked.value & masked.mask));
        if mode.is_some_and(|mode| mode & !0o7777 != 0) {
            return Err(NfsStatus::Inval);
        }
        let number = async |kind, text: &Option<Bytes>| match text {
            Some(text) => names.number(kind, text).await.map(Some),
            None => Ok(None),
        };
        let acl = match &read.acl {
            Some(aces) => Some(acl::from_wire(names, aces).await?),
            None => None,
        };
        let changes = AttributeChanges {
            mode,
            uid: number(NameKind::User, &read.owner).await?,
            gid: number(NameKind::Group, &read.owner_group).await?,
            bytes: read.size.map(ByteCount),
            atime: read.time_access_set.map(set_time).transpose()?,
            mtime: read.time_modify_set.map(set_time).transpose()?,
            ..AttributeChanges::none()
        };
        Ok(Self { changes, mask, mode, acl })
    }

    /// The mode with which a file is created. One with a list is open to nobody before it has the
    /// list, which decides the permission bits.
    pub fn initial_mode(&self, default: u32) -> u32 {
        let mode = self.mode.unwrap_or(default);
        if self.acl.is_some() { mode & 0o7000 } else { mode }
    }

    /// Sets what is left after a creation with the mode; `None` if that is nothing.
    ///
    /// # Errors
    /// As [`set`].
    pub async fn set_rest<S: Share>(
        &self,
        state: &CompoundState<'_, S>,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> NfsResult<Option<Attributes>> {
        if changes == AttributeChanges::none() && self.acl.is_none() {
            return Ok(None);
        }
        set(state, file, changes, self.acl.as_ref()).await.map(Some)
    }
}

/// Changes attributes and the list of a file, all or none, in one call.
///
/// # Errors
/// Those of the share; `ATTRNOTSUPP` for a list of a symbolic link.
pub async fn set<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
    changes: AttributeChanges,
    list: Option<&Nfs4Acl>,
) -> NfsResult<Attributes> {
    let client = state.share_client()?;
    let set = match list {
        Some(list) => client.set_attributes_and_acl(state.who(), file, changes, list).await,
        None => client.set_attributes(state.who(), file, changes).await,
    };
    set.map_err(|error| match error.status() {
        // RFC 8881 6.2: the list is an attribute that this object does not have.
        Status::Unsupported if list.is_some() => NfsStatus::AttrNotSupp,
        status => nfs_status(status),
    })
}

fn set_time(time: NfsSetTime) -> NfsResult<SetTime> {
    match time {
        NfsSetTime::Server => Ok(SetTime { time: None }),
        // RFC 8881 3.3.1: fewer than a second.
        NfsSetTime::Client(time) if time.nanoseconds >= 1_000_000_000 => Err(NfsStatus::Inval),
        NfsSetTime::Client(time) => {
            Ok(SetTime { time: Some(Timestamp { seconds: time.seconds, nanos: time.nanoseconds }) })
        }
    }
}
