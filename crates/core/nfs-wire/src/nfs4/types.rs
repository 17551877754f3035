//! Basic types of the protocol. RFC 8881 3.2 and 3.3, RFC 7863.

use bytes::Bytes;

use super::Bitmap;
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError};
use crate::xdr::{xdr_enum, xdr_newtype, xdr_struct};

/// Limit of items that the protocol does not limit: the message is the limit. Only for opaque
/// data, which takes no memory of its own.
pub const MESSAGE_LIMITED: usize = usize::MAX;
/// `NFS4_FHSIZE`: maximum bytes of a file handle.
pub const FILE_HANDLE_BYTES_MAX: usize = 128;
/// `NFS4_OPAQUE_LIMIT`: maximum bytes of owners and scopes.
pub const OPAQUE_BYTES_MAX: usize = 1024;
/// Length that means "to the end of the file" in locks and layouts (`NFS4_UINT64_MAX`).
pub const LENGTH_TO_END: u64 = u64::MAX;

xdr_newtype! {
    /// `clientid4`.
    pub struct ClientId(u64);
    /// `sessionid4`.
    pub struct SessionId([u8; 16]);
    /// `sequenceid4`: sequence number of a slot or of CREATE_SESSION.
    pub struct SequenceId(u32);
    /// `slotid4`.
    pub struct SlotId(u32);
    /// `verifier4`: of a client instance, a write, a directory's cookies, or an exclusive create.
    pub struct Verifier([u8; 8]);
    /// `deviceid4`: a group of data servers.
    pub struct DeviceId([u8; 16]);
    /// `layouttype4`. Unknown types are accepted, since the server refuses them with a status of
    /// their own.
    pub struct LayoutType(u32);
    /// `data_content4`: what SEEK looks for. Unknown numbers are accepted, since the server
    /// refuses them with NFS4ERR_UNION_NOTSUPP (RFC 7862 15.11.3).
    pub struct ContentType(u32);
}

impl LayoutType {
    /// `LAYOUT4_NFSV4_1_FILES`.
    pub const FILES: Self = Self(1);
    /// `LAYOUT4_OSD2_OBJECTS`.
    pub const OBJECTS: Self = Self(2);
    /// `LAYOUT4_BLOCK_VOLUME`.
    pub const BLOCK: Self = Self(3);
    /// `LAYOUT4_FLEX_FILES`. RFC 8435 2.
    pub const FLEX_FILES: Self = Self(4);
    /// `LAYOUT4_SCSI`. RFC 8154 2.
    pub const SCSI: Self = Self(5);
}

impl ContentType {
    /// `NFS4_CONTENT_DATA`.
    pub const DATA: Self = Self(0);
    /// `NFS4_CONTENT_HOLE`.
    pub const HOLE: Self = Self(1);
}

xdr_struct! {
    /// `nfstime4`: time since 1970, in UTC.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct NfsTime {
        /// Seconds.
        pub seconds: i64,
        /// Nanoseconds; a server refuses 10^9 and more with NFS4ERR_INVAL.
        pub nanoseconds: u32,
    }

    /// `fsid4`: number of a file system.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct FsId {
        /// First half.
        pub major: u64,
        /// Second half.
        pub minor: u64,
    }

    /// `specdata4`: number of a device.
    #[derive(Copy, Hash, Default)]
    pub struct SpecData {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// `stateid4`.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct StateId {
        /// Version of the state.
        pub seqid: u32,
        /// The server's name of the state.
        pub other: [u8; 12],
    }

    /// `change_info4`: change numbers of a directory around an operation.
    #[derive(Copy, Default)]
    pub struct ChangeInfo {
        /// Whether no other change was made between the two numbers.
        pub atomic: bool,
        /// Change number before.
        pub before: u64,
        /// Change number after.
        pub after: u64,
    }

    /// `fattr4`: encoded attributes; [`Attributes`](super::Attributes) has their values.
    #[derive(Default)]
    pub struct EncodedAttributes {
        /// Which attributes.
        pub mask: Bitmap,
        /// Their values in ascending order of their numbers.
        pub values: Bytes [MESSAGE_LIMITED],
    }

    /// `client_owner4`: a client and its instance.
    pub struct ClientOwner {
        /// Changes when the client restarts.
        pub verifier: Verifier,
        /// The client's own name.
        pub owner_id: Bytes [OPAQUE_BYTES_MAX],
    }

    /// `server_owner4`. RFC 8881 2.10.5: for trunking.
    pub struct ServerOwner {
        /// Equal where one client id can share sessions.
        pub minor_id: u64,
        /// Equal where one server owns the client ids.
        pub major_id: Bytes [OPAQUE_BYTES_MAX],
    }

    /// `state_owner4`: owner of opens or locks.
    #[derive(Hash)]
    pub struct StateOwner {
        /// The client; NFSv4.1 servers ignore it (RFC 8881 18.16.3).
        pub client_id: ClientId,
        /// The client's own name of the owner.
        pub owner: Bytes [OPAQUE_BYTES_MAX],
    }

    /// `nfs_impl_id4`: name and date of an implementation.
    pub struct ImplementationId {
        /// DNS domain of its vendor.
        pub domain: Bytes [MESSAGE_LIMITED],
        /// Product and version.
        pub name: Bytes [MESSAGE_LIMITED],
        /// Build date.
        pub date: NfsTime,
    }

    /// `netaddr4`: address of a server, as text.
    #[derive(Hash)]
    pub struct NetAddress {
        /// Network id: `tcp` or `tcp6`. RFC 5665 5.2.3.
        pub network_id: Bytes [MESSAGE_LIMITED],
        /// Universal address. RFC 5665 5.2.3.3 and 5.2.3.4.
        pub address: Bytes [MESSAGE_LIMITED],
    }

    /// `mode_masked4`: mode bits to set or clear.
    #[derive(Copy)]
    pub struct MaskedMode {
        /// New values of the bits.
        pub value: u32,
        /// Bits that change.
        pub mask: u32,
    }

    /// `mode_umask4`. RFC 8275.
    #[derive(Copy)]
    pub struct ModeUmask {
        /// Mode before the umask.
        pub mode: u32,
        /// The umask, which a default ACL of the directory replaces.
        pub umask: u32,
    }
}

impl StateId {
    /// RFC 8881 8.2.3: no state, for READ, WRITE and SETATTR.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// RFC 8881 8.2.3: as anonymous; READ also bypasses locks.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// RFC 8881 8.2.3: the state id that an earlier operation of the compound returned.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// RFC 8881 8.2.3: never valid.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    /// Whether `other` is reserved for special state ids: all zeros or all ones.
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

xdr_enum! {
    /// `nfs_ftype4`: type of an object.
    pub enum NfsFtype {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        Block = 3,
        /// Character device.
        Character = 4,
        /// Symbolic link.
        Link = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
        /// Directory of named attributes.
        AttributeDirectory = 8,
        /// Named attribute.
        NamedAttribute = 9,
    }

    /// `nfs_lock_type4`.
    pub enum LockType {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared; the client waits for it.
        ReadWaiting = 3,
        /// Exclusive; the client waits for it.
        WriteWaiting = 4,
    }

    /// `stable_how4`: what survives a server's crash when WRITE returns.
    pub enum StableHow {
        /// Nothing: a COMMIT follows.
        Unstable = 0,
        /// The data.
        DataSync = 1,
        /// The data and all metadata.
        FileSync = 2,
    }

    /// `layoutiomode4`.
    pub enum LayoutIoMode {
        /// Reads.
        Read = 1,
        /// Reads and writes.
        ReadWrite = 2,
        /// Both modes; only to return and recall layouts.
        Any = 3,
    }

    /// `change_attr_type4`: how the attribute `change` develops. RFC 7862 12.2.3.
    pub enum ChangeAttrType {
        /// It rises.
        MonotonicIncrement = 0,
        /// It counts each change.
        VersionCounter = 1,
        /// It counts each change, but not those through data servers.
        VersionCounterNoPnfs = 2,
        /// It is `time_metadata`.
        TimeMetadata = 3,
        /// Unknown.
        Undefined = 4,
    }
}

/// `nfs_fh4`: a file handle, at most [`FILE_HANDLE_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileHandle(pub Bytes);

impl Xdr for FileHandle {
    fn encode(&self, to: &mut Encoder) {
        debug_assert!(self.0.len() <= FILE_HANDLE_BYTES_MAX);
        to.opaque(&self.0);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        from.opaque(FILE_HANDLE_BYTES_MAX).map(Self)
    }
}

/// File data in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// These bytes.
    Bytes(Bytes),
    /// This many bytes, which the transport reads from a file itself. Only in encoders.
    External(usize),
}

impl Payload {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::External(length) => *length,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl XdrBounded for Payload {
    fn encode_bounded(&self, to: &mut Encoder) {
        match self {
            Self::Bytes(bytes) => to.payload(bytes.clone()),
            Self::External(length) => to.external(*length),
        }
    }
    fn decode_bounded(from: &mut Decoder, max: usize) -> Result<Self, XdrError> {
        from.opaque(max).map(Self::Bytes)
    }
}

/// `settime4`: a time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The server's present time.
    Server,
    /// This time.
    Client(NfsTime),
}

impl Xdr for SetTime {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Server => to.u32(0),
            Self::Client(time) => {
                to.u32(1);
                time.encode(to);
            }
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        match from.u32()? {
            0 => Ok(Self::Server),
            1 => NfsTime::decode(from).map(Self::Client),
            value => Err(XdrError::Invalid { what: "time_how4", value }),
        }
    }
}
