//! TREE_CONNECT. MS-SMB2 2.2.9, 2.2.10.

use super::bits::{bits, values};
use super::{Body, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer, to_utf16, utf16};

bits! {
    /// 2.2.9, Flags (3.1.1; reserved before).
    TreeConnectFlags(u16) {
        /// The client connects again, to this member of a cluster.
        CLUSTER_RECONNECT = 1,
        /// The client can be sent to another server (2.2.2.2.2).
        REDIRECT_TO_OWNER = 2,
        /// The request has tree connect contexts. They are not decoded.
        EXTENSION_PRESENT = 4,
    }

    /// What clients do with a share. 2.2.10, ShareFlags. Bits 0x30 are how files may be cached
    /// offline; 0 is by hand.
    ShareFlags(u32) {
        /// Offline files are cached when they are opened.
        AUTO_CACHING = 0x10,
        /// Programs may be run from the offline cache.
        VDO_CACHING = 0x20,
        /// No offline files.
        NO_CACHING = 0x30,
        /// In a DFS tree.
        DFS = 1,
        /// A DFS root.
        DFS_ROOT = 2,
        /// Exclusive opens are refused.
        RESTRICT_EXCLUSIVE_OPENS = 0x100,
        /// A file that others read may be deleted.
        FORCE_SHARED_DELETE = 0x200,
        /// Clients may cache the names of directories.
        ALLOW_NAMESPACE_CACHING = 0x400,
        /// Directories have only names that the user may access.
        ACCESS_BASED_DIRECTORY_ENUM = 0x800,
        /// No exclusive oplocks.
        FORCE_LEVELII_OPLOCK = 0x1000,
        /// Hashes for BranchCache.
        ENABLE_HASH_V1 = 0x2000,
        /// Hashes for BranchCache, version 2.
        ENABLE_HASH_V2 = 0x4000,
        /// Messages of the tree must be encrypted.
        ENCRYPT_DATA = 0x8000,
        /// Identity remoting.
        IDENTITY_REMOTING = 0x4_0000,
        /// Compression is of use.
        COMPRESS_DATA = 0x10_0000,
        /// Data need not be signed or encrypted a second time below an isolated transport.
        ISOLATED_TRANSPORT = 0x20_0000,
    }

    /// What a share can do. 2.2.10, Capabilities.
    ShareCapabilities(u32) {
        /// DFS.
        DFS = 8,
        /// Persistent handles.
        CONTINUOUS_AVAILABILITY = 0x10,
        /// Served by several servers.
        SCALEOUT = 0x20,
        /// Served by a cluster that notifies with the witness protocol.
        CLUSTER = 0x40,
        /// Clients can be moved to another server.
        ASYMMETRIC = 0x80,
        /// A client can be sent to another server while it connects.
        REDIRECT_TO_OWNER = 0x100,
    }
}

values! {
    /// 2.2.10, ShareType.
    ShareType(u8) {
        /// Files.
        DISK = 1,
        /// Named pipes.
        PIPE = 2,
        /// A printer.
        PRINT = 3,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeConnectRequest {
    /// Flags.
    pub flags: TreeConnectFlags,
    /// `\\server\share`.
    pub path: String,
}

impl Body for TreeConnectRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(9)?;
        let flags = TreeConnectFlags(reader.u16()?);
        Ok(Self { flags, path: utf16(&buffer::short(reader)?)? })
    }

    fn encode(&self, writer: &mut Writer) {
        let path = to_utf16(&self.path);
        writer.u16(9);
        // Without the extension, as it is not written.
        writer.u16(self.flags.0);
        writer.u16((HEADER_BYTES + 8) as u16);
        writer.u16(path.len() as u16);
        buffer::put_one_at_least(writer, &path);
    }
}

/// The response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeConnectResponse {
    /// Files, pipes or a printer.
    pub share_type: ShareType,
    /// What clients do with the share.
    pub flags: ShareFlags,
    /// What the share can do.
    pub capabilities: ShareCapabilities,
    /// The most that the user may access: an access mask (2.2.13.1).
    pub maximal_access: u32,
}

impl Body for TreeConnectResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(16)?;
        let share_type = ShareType(reader.u8()?);
        reader.skip(1)?;
        Ok(Self {
            share_type,
            flags: ShareFlags(reader.u32()?),
            capabilities: ShareCapabilities(reader.u32()?),
            maximal_access: reader.u32()?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(16);
        writer.u8(self.share_type.0);
        writer.u8(0);
        writer.u32(self.flags.0);
        writer.u32(self.capabilities.0);
        writer.u32(self.maximal_access);
    }
}
