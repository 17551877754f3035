//! Operations of IOCTL, their input and their output. MS-SMB2 2.2.31 and 2.2.32, MS-FSCC 2.3.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use bytes::Bytes;

use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16, utf16};
use crate::fscc::fields::structure;
use crate::fscc::{Entries, Information, ListWriter};

/// The number of an operation. MS-FSCC 2.3, MS-SMB2 2.2.31.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ControlCode(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal,)*) => {
        impl ControlCode {
            $(#[doc = concat!("FSCTL_", stringify!($name), ".")]
            pub const $name: Self = Self($number);)*
        }

        const NAMES: &[(u32, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

codes! {
    DFS_GET_REFERRALS = 0x0006_0194,
    DFS_GET_REFERRALS_EX = 0x0006_01b0,
    IS_PATHNAME_VALID = 0x0009_002c,
    GET_COMPRESSION = 0x0009_003c,
    SET_COMPRESSION = 0x0009_c040,
    FILESYSTEM_GET_STATISTICS = 0x0009_0060,
    GET_NTFS_VOLUME_DATA = 0x0009_0064,
    SET_OBJECT_ID = 0x0009_0098,
    GET_OBJECT_ID = 0x0009_009c,
    DELETE_OBJECT_ID = 0x0009_00a0,
    SET_REPARSE_POINT = 0x0009_00a4,
    GET_REPARSE_POINT = 0x0009_00a8,
    DELETE_REPARSE_POINT = 0x0009_00ac,
    CREATE_OR_GET_OBJECT_ID = 0x0009_00c0,
    SET_SPARSE = 0x0009_00c4,
    SET_ZERO_DATA = 0x0009_80c8,
    QUERY_ALLOCATED_RANGES = 0x0009_40cf,
    READ_FILE_USN_DATA = 0x0009_00eb,
    FILE_LEVEL_TRIM = 0x0009_8208,
    GET_INTEGRITY_INFORMATION = 0x0009_027c,
    SET_INTEGRITY_INFORMATION = 0x0009_c280,
    QUERY_FILE_REGIONS = 0x0009_0284,
    OFFLOAD_READ = 0x0009_4264,
    OFFLOAD_WRITE = 0x0009_8268,
    DUPLICATE_EXTENTS_TO_FILE = 0x0009_8344,
    DUPLICATE_EXTENTS_TO_FILE_EX = 0x0009_83e8,
    PIPE_PEEK = 0x0011_400c,
    PIPE_WAIT = 0x0011_0018,
    PIPE_TRANSCEIVE = 0x0011_c017,
    SRV_ENUMERATE_SNAPSHOTS = 0x0014_4064,
    SRV_REQUEST_RESUME_KEY = 0x0014_0078,
    SRV_COPYCHUNK = 0x0014_40f2,
    SRV_COPYCHUNK_WRITE = 0x0014_80f2,
    SRV_READ_HASH = 0x0014_41bb,
    LMR_REQUEST_RESILIENCY = 0x0014_01d4,
    QUERY_NETWORK_INTERFACE_INFO = 0x0014_01fc,
    VALIDATE_NEGOTIATE_INFO = 0x0014_0204,
}

impl std::fmt::Debug for ControlCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match NAMES.iter().find(|(value, _)| *value == self.0) {
            Some((_, name)) => write!(f, "FSCTL_{name}"),
            None => write!(f, "FSCTL {:#010x}", self.0),
        }
    }
}

/// Dialects that a client names.
const DIALECTS_MAX: usize = 64;
/// Chunks of one copy that are read; a server allows fewer (MS-SMB2 3.3.3: 256).
const CHUNKS_MAX: usize = 1024;
/// Bytes of a chunk.
const CHUNK_BYTES: usize = 24;
/// Bytes of a [`FileRange`].
const RANGE_BYTES: usize = 16;
/// Ranges, interfaces and the like of one message.
const LIST_MAX: usize = 65_536;

structure! {
    /// The output of `VALIDATE_NEGOTIATE_INFO`. MS-SMB2 2.2.32.6.
    pub struct ValidateNegotiateResponse {
        /// Capabilities of the server.
        capabilities: u32;
        /// Names the server.
        guid: [u8; 16];
        /// Whether it signs.
        security_mode: u16;
        /// The dialect that it chose.
        dialect: u16;
    }

    /// The output of `SRV_COPYCHUNK`. MS-SMB2 2.2.32.1. With `INVALID_PARAMETER` it has the
    /// server's limits: chunks, bytes of a chunk, bytes of all.
    pub struct CopyChunkResponse {
        /// Chunks that were written.
        chunks: u32;
        /// Bytes of the last chunk, if it was written in part.
        chunk_bytes: u32;
        /// Bytes that were written.
        total_bytes: u32;
    }

    /// The output of `SRV_REQUEST_RESUME_KEY`: names an open file as the source of a copy.
    /// MS-SMB2 2.2.32.3. The length of a context and the context, which must be 0, are reserved.
    pub struct ResumeKey {
        /// Opaque.
        key: [u8; 24], + 8;
    }

    /// A chunk of a copy. MS-SMB2 2.2.31.1.1.
    pub struct CopyChunk {
        /// Its first byte in the source.
        source_offset: u64;
        /// Its first byte in the target.
        target_offset: u64;
        /// Its bytes.
        length: u32, + 4;
    }

    /// The input of `SET_ZERO_DATA`. MS-FSCC 2.3.71.
    pub struct ZeroData {
        /// The first byte of the range.
        offset: u64;
        /// The byte behind the range.
        beyond: u64;
    }

    /// The input of `SET_COMPRESSION` and the output of `GET_COMPRESSION`. MS-FSCC 2.3.20, 2.3.67.
    pub struct Compression {
        /// [`Compression::NONE`], [`Compression::DEFAULT`] or [`Compression::LZNT1`].
        format: u16;
    }

    /// The output of `CREATE_OR_GET_OBJECT_ID`. MS-FSCC 2.1.3.1.
    pub struct ObjectId {
        /// Names the file in its volume.
        object: [u8; 16];
        /// Names the volume that the file was made in.
        birth_volume: [u8; 16];
        /// Names the file as it was made.
        birth_object: [u8; 16];
        /// 0.
        domain: [u8; 16];
    }

    /// The head of the output of `SRV_ENUMERATE_SNAPSHOTS`. MS-SMB2 2.2.32.2. A list of names would
    /// replace the last 4 bytes: of none it is one 16-bit zero, which counts as `array_bytes`.
    pub struct Snapshots {
        /// Snapshots of the volume.
        count: u32;
        /// Those that this output has.
        returned: u32;
        /// Bytes of the whole list.
        array_bytes: u32, + 4;
    }

    /// The output of `FILE_LEVEL_TRIM`. MS-FSCC 2.3.74.
    pub struct TrimResponse {
        /// Ranges that were processed, of those that the input has.
        ranges: u32;
    }

    /// The input of `QUERY_ALLOCATED_RANGES`, and a range of its output. MS-FSCC 2.3.48, 2.3.49.
    pub struct FileRange {
        /// The first byte.
        offset: u64;
        /// Its bytes.
        length: u64;
    }
}

/// The input of `VALIDATE_NEGOTIATE_INFO`: what the client sent in NEGOTIATE. MS-SMB2 2.2.31.4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValidateNegotiateRequest {
    /// Capabilities of the client.
    pub capabilities: u32,
    /// Names the client.
    pub guid: [u8; 16],
    /// Whether it signs.
    pub security_mode: u16,
    /// Its dialects.
    pub dialects: Vec<u16>,
}

impl Information for ValidateNegotiateRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (capabilities, guid) = (reader.u32()?, reader.array()?);
        let (security_mode, count) = (reader.u16()?, usize::from(reader.u16()?));
        if count > DIALECTS_MAX {
            return Err(Malformed("VALIDATE_NEGOTIATE_INFO: too many dialects"));
        }
        let dialects = (0..count).map(|_| reader.u16()).collect::<Result<_>>()?;
        Ok(Self { capabilities, guid, security_mode, dialects })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.capabilities);
        writer.bytes(&self.guid);
        writer.u16(self.security_mode);
        writer.u16(self.dialects.len() as u16);
        self.dialects.iter().for_each(|dialect| writer.u16(*dialect));
    }
}

/// The input of `SRV_COPYCHUNK`. MS-SMB2 2.2.31.1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyChunkRequest {
    /// The key of the source ([`ResumeKey`]).
    pub source: [u8; 24],
    /// The chunks.
    pub chunks: Vec<CopyChunk>,
}

impl Information for CopyChunkRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (source, count) = (reader.array()?, reader.u32()? as usize);
        reader.skip(4)?;
        if count > CHUNKS_MAX || count > reader.remaining() / CHUNK_BYTES {
            return Err(Malformed("SRV_COPYCHUNK: ChunkCount"));
        }
        let chunks = (0..count).map(|_| CopyChunk::decode(reader)).collect::<Result<_>>()?;
        Ok(Self { source, chunks })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.source);
        writer.u32(self.chunks.len() as u32);
        writer.u32(0);
        self.chunks.iter().for_each(|chunk| chunk.encode(writer));
    }
}

impl ObjectId {
    /// That of a file with this number. The first half of the volume's name is part of it, so that
    /// files of two volumes have different ones.
    pub fn of_file(volume: [u8; 16], file: u64) -> Self {
        let mut object = volume;
        object[8..].copy_from_slice(&file.to_le_bytes());
        Self { object, birth_volume: volume, birth_object: object, domain: [0; 16] }
    }
}

impl Compression {
    /// A file that is not compressed.
    pub const NONE: u16 = 0;
    /// The compression that the file system prefers.
    pub const DEFAULT: u16 = 1;
    /// LZNT1.
    pub const LZNT1: u16 = 2;
}

/// The input of `FILE_LEVEL_TRIM`. MS-FSCC 2.3.73.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrimRequest {
    /// A key of byte-range locks; clients of SMB send 0.
    pub key: u32,
    /// Ranges whose bytes have no meaning any more.
    pub ranges: Vec<FileRange>,
}

impl Information for TrimRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (key, count) = (reader.u32()?, reader.u32()? as usize);
        if count > LIST_MAX || count > reader.remaining() / RANGE_BYTES {
            return Err(Malformed("FILE_LEVEL_TRIM: NumRanges"));
        }
        let ranges = (0..count).map(|_| FileRange::decode(reader)).collect::<Result<_>>()?;
        Ok(Self { key, ranges })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.key);
        writer.u32(self.ranges.len() as u32);
        self.ranges.iter().for_each(|range| range.encode(writer));
    }
}

/// Whether `SET_SPARSE` makes a file sparse: without input it does. MS-FSCC 2.3.69.
pub fn sets_sparse(input: &[u8]) -> bool {
    input.first().is_none_or(|byte| *byte != 0)
}

/// The output of `QUERY_ALLOCATED_RANGES`: those ranges that fit in `max_bytes`, and whether all
/// did.
pub fn encode_ranges(ranges: &[FileRange], max_bytes: usize) -> (Vec<u8>, bool) {
    let fitting = ranges.len().min(max_bytes / RANGE_BYTES);
    let mut writer = Writer::new();
    ranges[..fitting].iter().for_each(|range| range.encode(&mut writer));
    (writer.finish(), fitting == ranges.len())
}

/// The ranges of an output of `QUERY_ALLOCATED_RANGES`.
///
/// # Errors
/// A part of a range, or too many ranges.
pub fn decode_ranges(bytes: Bytes) -> Result<Vec<FileRange>> {
    if !bytes.len().is_multiple_of(RANGE_BYTES) || bytes.len() / RANGE_BYTES > LIST_MAX {
        return Err(Malformed("QUERY_ALLOCATED_RANGES: length"));
    }
    let count = bytes.len() / RANGE_BYTES;
    let mut reader = Reader::new(bytes);
    (0..count).map(|_| FileRange::decode(&mut reader)).collect()
}

/// An address of the server. MS-SMB2 2.2.32.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkInterface {
    /// The number of the interface.
    pub index: u32,
    /// [`NetworkInterface::RSS`] and [`NetworkInterface::RDMA`].
    pub capability: u32,
    /// Bits in a second.
    pub link_speed: u64,
    /// The address; the port has no meaning.
    pub address: IpAddr,
}

impl NetworkInterface {
    /// Several connections to the interface use several of its queues.
    pub const RSS: u32 = 1;
    /// It has RDMA.
    pub const RDMA: u32 = 2;
    /// AF_INET in a SOCKADDR_STORAGE. 2.2.32.5.1.
    const IPV4: u16 = 2;
    /// AF_INET6.
    const IPV6: u16 = 23;
    /// Bytes of a SOCKADDR_STORAGE.
    const ADDRESS_BYTES: usize = 128;

    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.index);
        writer.u32(self.capability);
        writer.u32(0);
        writer.u64(self.link_speed);
        let end = writer.position() + Self::ADDRESS_BYTES;
        match SocketAddr::new(self.address, 0) {
            SocketAddr::V4(address) => encode_ipv4(&address, writer),
            SocketAddr::V6(address) => encode_ipv6(&address, writer),
        }
        writer.zeros(end - writer.position());
    }

    /// `None`: an address of another kind.
    fn decode(reader: &mut Reader) -> Result<Option<Self>> {
        let (index, capability) = (reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        let link_speed = reader.u64()?;
        let mut storage = Reader::new(reader.take(Self::ADDRESS_BYTES)?);
        let family = storage.u16()?;
        storage.skip(2)?;
        let address = match family {
            Self::IPV4 => IpAddr::from(storage.array::<4>()?),
            Self::IPV6 => {
                storage.skip(4)?;
                IpAddr::from(storage.array::<16>()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { index, capability, link_speed, address }))
    }
}

/// 2.2.32.5.1.1: port and address in the order of the network.
fn encode_ipv4(address: &SocketAddrV4, writer: &mut Writer) {
    writer.u16(NetworkInterface::IPV4);
    writer.bytes(&address.port().to_be_bytes());
    writer.bytes(&address.ip().octets());
}

/// 2.2.32.5.1.2: and a flow before the address.
fn encode_ipv6(address: &SocketAddrV6, writer: &mut Writer) {
    writer.u16(NetworkInterface::IPV6);
    writer.bytes(&address.port().to_be_bytes());
    writer.u32(0);
    writer.bytes(&address.ip().octets());
}

/// The output of `QUERY_NETWORK_INTERFACE_INFO`: as many as fit in `max_bytes`, and how many.
pub fn encode_interfaces(interfaces: &[NetworkInterface], max_bytes: usize) -> (Vec<u8>, usize) {
    let mut list = ListWriter::new(8, max_bytes);
    let fitting = interfaces.iter().take_while(|one| list.push(|writer| one.encode(writer)));
    let fitting = fitting.count();
    (list.finish(), fitting)
}

/// The addresses of an output of `QUERY_NETWORK_INTERFACE_INFO`, but for those of other kinds than
/// IPv4 and IPv6.
///
/// # Errors
/// The bytes do not follow the format.
pub fn decode_interfaces(bytes: Bytes) -> Result<Vec<NetworkInterface>> {
    Entries::new(bytes)
        .take(LIST_MAX)
        .filter_map(|entry| match entry {
            Ok(mut entry) => NetworkInterface::decode(&mut entry).transpose(),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

/// The kind of a reparse point that is a symbolic link. MS-FSCC 2.1.2.1.
pub const TAG_SYMLINK: u32 = 0xa000_000c;
/// Bytes of a reparse point. MS-FSCC 2.1.2.
const REPARSE_BYTES_MAX: usize = 16 << 10;

/// The reparse point of a symbolic link. MS-FSCC 2.1.2.4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SymbolicLink {
    /// The target as it is used: a path, or `\??\` and a path.
    pub substitute: String,
    /// The target as it is shown.
    pub print: String,
    /// Whether the target counts from the directory of the link.
    pub relative: bool,
}

impl Information for SymbolicLink {
    fn decode(reader: &mut Reader) -> Result<Self> {
        if reader.u32()? != TAG_SYMLINK {
            return Err(Malformed("reparse point: no symbolic link"));
        }
        let length = usize::from(reader.u16()?);
        reader.skip(2)?;
        if length > REPARSE_BYTES_MAX {
            return Err(Malformed("reparse point: too long"));
        }
        let mut data = Reader::new(reader.take(length)?);
        let substitute = (data.u16()?, data.u16()?);
        let print = (data.u16()?, data.u16()?);
        let relative = data.u32()? & 1 != 0;
        let paths = Reader::new(data.rest());
        let path = |(offset, length): (u16, u16)| {
            utf16(&paths.slice(usize::from(offset), usize::from(length))?)
        };
        Ok(Self { substitute: path(substitute)?, print: path(print)?, relative })
    }

    /// Paths that are too long for a reparse point are cut.
    fn encode(&self, writer: &mut Writer) {
        let cut = |text: &str| {
            let mut path = to_utf16(text);
            path.truncate((REPARSE_BYTES_MAX - 20) / 4 * 2);
            path
        };
        let (substitute, print) = (cut(&self.substitute), cut(&self.print));
        let paths = substitute.len() + print.len();
        writer.u32(TAG_SYMLINK);
        writer.u16((12 + paths) as u16);
        writer.u16(0);
        writer.u16(0);
        writer.u16(substitute.len() as u16);
        writer.u16(substitute.len() as u16);
        writer.u16(print.len() as u16);
        writer.u32(u32::from(self.relative));
        writer.bytes(&substitute);
        writer.bytes(&print);
    }
}

#[cfg(test)]
#[path = "fsctl_tests.rs"]
mod tests;
