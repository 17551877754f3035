//! Data of files.

use bytes::Bytes;

use crate::nfs4::Bitmap;
use crate::nfs4::types::{ContentType, MESSAGE_LIMITED, StableHow, StateId};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// `READ4args`. RFC 8881 18.22.1. Also `READ_PLUS4args`, RFC 7862 15.10.1.
    #[derive(Copy)]
    pub struct ReadArgs {
        /// An open, lock or delegation, or a special one.
        pub state_id: StateId,
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub count: u32,
    }

    /// `WRITE4args`. RFC 8881 18.32.1.
    pub struct WriteArgs {
        /// An open, lock or delegation, or a special one.
        pub state_id: StateId,
        /// First byte.
        pub offset: u64,
        /// What must survive a crash of the server.
        pub stable: StableHow,
        /// The data; not copied.
        pub data: Bytes [MESSAGE_LIMITED],
    }

    /// `COMMIT4args`. RFC 8881 18.3.1.
    #[derive(Copy)]
    pub struct CommitArgs {
        /// First byte.
        pub offset: u64,
        /// Number of bytes; 0 means to the end of the file.
        pub count: u32,
    }

    /// `ALLOCATE4args` and `DEALLOCATE4args`. RFC 7862 15.1.1 and 15.4.1.
    #[derive(Copy)]
    pub struct AllocateArgs {
        /// An open for writing.
        pub state_id: StateId,
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
    }

    /// `SEEK4args`. RFC 7862 15.11.1.
    #[derive(Copy)]
    pub struct SeekArgs {
        /// An open.
        pub state_id: StateId,
        /// Where to start.
        pub offset: u64,
        /// What to look for.
        pub what: ContentType,
    }

    /// `IO_ADVISE4args`. RFC 7862 15.5.1.
    #[derive(Copy)]
    pub struct IoAdviseArgs {
        /// An open.
        pub state_id: StateId,
        /// First byte.
        pub offset: u64,
        /// Number of bytes; 0 means to the end of the file.
        pub count: u64,
        /// Numbers of `IO_ADVISE_type4`.
        pub hints: Bitmap,
    }

    /// `WRITE_SAME4args`. RFC 7862 15.12.1.
    pub struct WriteSameArgs {
        /// An open for writing.
        pub state_id: StateId,
        /// What must survive a crash of the server.
        pub stable: StableHow,
        /// Blocks to write.
        pub block: AppDataBlock,
    }

    /// `app_data_block4`. RFC 7862 8.1.1.
    pub struct AppDataBlock {
        /// First byte of the first block.
        pub offset: u64,
        /// Bytes of a block.
        pub block_size: u64,
        /// Number of blocks.
        pub block_count: u64,
        /// Offset of the block number in a block.
        pub number_offset: u64,
        /// Number of the first block.
        pub first_number: u32,
        /// Offset of the pattern in a block.
        pub pattern_offset: u64,
        /// The pattern.
        pub pattern: Bytes [MESSAGE_LIMITED],
    }
}

/// `IO_ADVISE_type4`: numbers in [`IoAdviseArgs::hints`]. RFC 7862 15.5.1.
pub mod advice {
    /// `IO_ADVISE4_NORMAL`.
    pub const NORMAL: u32 = 0;
    /// `IO_ADVISE4_SEQUENTIAL`.
    pub const SEQUENTIAL: u32 = 1;
    /// `IO_ADVISE4_SEQUENTIAL_BACKWARDS`.
    pub const SEQUENTIAL_BACKWARDS: u32 = 2;
    /// `IO_ADVISE4_RANDOM`.
    pub const RANDOM: u32 = 3;
    /// `IO_ADVISE4_WILLNEED`.
    pub const WILL_NEED: u32 = 4;
    /// `IO_ADVISE4_WILLNEED_OPPORTUNISTIC`.
    pub const WILL_NEED_OPPORTUNISTIC: u32 = 5;
    /// `IO_ADVISE4_DONTNEED`.
    pub const DONT_NEED: u32 = 6;
    /// `IO_ADVISE4_NOREUSE`.
    pub const NO_REUSE: u32 = 7;
    /// `IO_ADVISE4_READ`.
    pub const READ: u32 = 8;
    /// `IO_ADVISE4_WRITE`.
    pub const WRITE: u32 = 9;
    /// `IO_ADVISE4_INIT_PROXIMITY`.
    pub const INIT_PROXIMITY: u32 = 10;
}
