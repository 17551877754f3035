//! A client with its session at the metadata server: names, opens and layouts.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use braid_nfs_wire::{
    nfs4::{
        ArgOp, Attributes, Bitmap, ExchangeIdFlags, FileHandle, LENGTH_TO_END, LayoutIoMode,
        LayoutType, NfsFtype, ResOp, ShareAccess, ShareDeny, StateId, StateOwner,
        args::{
            CloseArgs, CreateArgs, CreateHow, CreateObject, GetAttrArgs, GetDeviceInfoArgs,
            LayoutCommitArgs, LayoutGetArgs, LayoutReturnArgs, LayoutReturnFile, LayoutReturnWhat,
            LayoutUpdate, LookupArgs, OpenArgs, OpenClaim, OpenHow, PutFhArgs, RemoveArgs,
        },
        attribute,
        layout_files::{FileDevice, FileLayout},
    },
    xdr::{Decoder, Xdr},
};
use bytes::Bytes;

use super::{session::Session, transfer::StripedFile};

/// Slots that Linux asks for.
const SLOTS: u32 = 64;
/// Attributes that Linux asks for after a LOOKUP, roughly.
const ATTRIBUTES: Bitmap = Bitmap::of(&[
    attribute::TYPE,
    attribute::CHANGE,
    attribute::SIZE,
    attribute::FSID,
    attribute::FILEID,
    attribute::MODE,
    attribute::NUMLINKS,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::SPACE_USED,
    attribute::TIME_ACCESS,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
]);
/// Longest layout or device that is accepted, as of Linux.
const LAYOUT_BYTES_MAX: u32 = 4096;

/// An open file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFile {
    /// Its handle at the metadata server.
    pub handle: FileHandle,
    /// The open.
    pub state: StateId,
}

/// A file's data servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Their addresses, one for each session of a transfer.
    pub servers: Vec<SocketAddr>,
    /// Which bytes are where.
    pub file: StripedFile,
    state: StateId,
}

/// A client of a gateway, or of another NFSv4.1 server.
#[derive(Debug)]
pub struct Mount {
    /// Its session.
    pub session: Session,
    root: FileHandle,
    owner: Bytes,
}

impl Mount {
    /// A client named `owner`, whose root is the directory `path` of the server, such as `export`
    /// or nothing.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn new(server: SocketAddr, owner: &str, path: &str) -> Result<Self> {
        let mut session = Session::new(server, owner, SLOTS, ExchangeIdFlags::empty())?;
        let names = path.split('/').filter(|name| !name.is_empty());
        let walk = names.map(|name| ArgOp::Lookup(LookupArgs { name: bytes(name) }));
        let mut ops = vec![ArgOp::PutRootFh];
        ops.extend(walk);
        ops.push(ArgOp::GetFh);
        let root = handle_of(session.call(&ops).context("mounting")?)?;
        Ok(Self { session, root, owner: bytes(owner) })
    }

    /// The root's handle.
    pub fn root(&self) -> FileHandle {
        self.root.clone()
    }

    /// Looks a name up and gets its attributes.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn stat(&mut self, directory: &FileHandle, name: &str) -> Result<FileHandle> {
        let mut results = self.session.call(&[
            put(directory),
            ArgOp::Lookup(LookupArgs { name: bytes(name) }),
            ArgOp::GetFh,
            ArgOp::GetAttr(GetAttrArgs { attributes: ATTRIBUTES }),
        ])?;
        ensure!(matches!(results.pop(), Some(ResOp::GetAttr(Ok(_)))), "no attributes");
        handle_of(results)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn mkdir(&mut self, directory: &FileHandle, name: &str) -> Result<FileHandle> {
        let mode = Attributes { mode: Some(0o755), ..Attributes::default() };
        let attributes = mode.to_encoded(&Bitmap::of(&[attribute::MODE]));
        let object = CreateObject::Other(NfsFtype::Directory);
        let args = CreateArgs { object, name: bytes(name), attributes };
        handle_of(self.session.call(&[put(directory), ArgOp::Create(args), ArgOp::GetFh])?)
    }

    /// Opens a file to read and write; with `create` one that may be new.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn open(&mut self, directory: &FileHandle, name: &str, create: bool) -> Result<OpenFile> {
        let mode = Attributes { mode: Some(0o644), ..Attributes::default() };
        let attributes = mode.to_encoded(&Bitmap::of(&[attribute::MODE]));
        let how = if create {
            OpenHow::Create(CreateHow::Unchecked(attributes))
        } else {
            OpenHow::NoCreate
        };
        let args = OpenArgs {
            seqid: 0,
            // OPEN4_SHARE_ACCESS_WANT_NO_DELEG, RFC 8881 18.16.1: there is no back channel.
            share_access: ShareAccess(ShareAccess::BOTH.0 | 0x400),
            share_deny: ShareDeny::NONE,
            owner: StateOwner { client_id: self.session.client_id(), owner: self.owner.clone() },
            how,
            claim: OpenClaim::Null(bytes(name)),
        };
        let mut results = self.session.call(&[
            put(directory),
            ArgOp::Open(args),
            ArgOp::GetFh,
            ArgOp::GetAttr(GetAttrArgs { attributes: ATTRIBUTES }),
        ])?;
        results.pop();
        let Some(ResOp::Open(Ok(opened))) = results.get(1) else { bail!("no open") };
        let state = opened.state_id;
        Ok(OpenFile { handle: handle_of(results)?, state })
    }

    /// Closes a file.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn close(&mut self, file: &OpenFile) -> Result<()> {
        let args = CloseArgs { seqid: 0, state_id: file.state };
        self.session.call(&[put(&file.handle), ArgOp::Close(args)]).map(drop)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn remove(&mut self, directory: &FileHandle, name: &str) -> Result<()> {
        let args = RemoveArgs { name: bytes(name) };
        self.session.call(&[put(directory), ArgOp::Remove(args)]).map(drop)
    }

    /// The layout of an open file, to read and write, and its device.
    ///
    /// # Errors
    /// What the server refuses; a layout that this client does not understand.
    pub fn layout(&mut self, file: &OpenFile) -> Result<Layout> {
        let args = LayoutGetArgs {
            signal_available: false,
            layout_type: LayoutType::FILES,
            io_mode: LayoutIoMode::ReadWrite,
            offset: 0,
            length: LENGTH_TO_END,
            min_length: 4096,
            state_id: file.state,
            max_count: LAYOUT_BYTES_MAX,
        };
        let mut results = self.session.call(&[put(&file.handle), ArgOp::LayoutGet(args)])?;
        let Some(ResOp::LayoutGet(Ok(granted))) = results.pop() else { bail!("no layout") };
        let [layout] = &granted.layouts[..] else { bail!("not one layout") };
        ensure!((layout.offset, layout.length) == (0, LENGTH_TO_END), "not of the whole file");
        let content = FileLayout::decode(&mut Decoder::new(layout.content.clone()))?;
        let args = GetDeviceInfoArgs {
            device_id: content.device_id,
            layout_type: LayoutType::FILES,
            max_count: LAYOUT_BYTES_MAX,
            notify_types: Bitmap::new(),
        };
        let mut results = self.session.call(&[ArgOp::GetDeviceInfo(args)])?;
        let Some(ResOp::GetDeviceInfo(Ok(device))) = results.pop() else { bail!("no device") };
        let device = FileDevice::decode(&mut Decoder::new(device.address))?;
        let servers = device.data_servers.iter().map(|paths| {
            let first = paths.0.first().context("a data server without an address")?;
            Ok(SocketAddr::try_from(first)?)
        });
        Ok(Layout {
            servers: servers.collect::<Result<_>>()?,
            file: StripedFile::new(&content, &device, file)?,
            state: granted.state_id,
        })
    }

    /// Reports the end of what was written at data servers. RFC 8881 18.42.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn layout_commit(&mut self, file: &OpenFile, layout: &Layout, end: u64) -> Result<()> {
        let args = LayoutCommitArgs {
            offset: 0,
            length: LENGTH_TO_END,
            reclaim: false,
            state_id: layout.state,
            last_write_offset: end.checked_sub(1),
            time_modify: None,
            update: LayoutUpdate { layout_type: LayoutType::FILES, body: Bytes::new() },
        };
        self.session.call(&[put(&file.handle), ArgOp::LayoutCommit(args)]).map(drop)
    }

    /// Returns the layout. RFC 8881 18.44.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn layout_return(&mut self, file: &OpenFile, layout: &Layout) -> Result<()> {
        let what = LayoutReturnWhat::File(LayoutReturnFile {
            offset: 0,
            length: LENGTH_TO_END,
            state_id: layout.state,
            body: Bytes::new(),
        });
        let (layout_type, io_mode) = (LayoutType::FILES, LayoutIoMode::Any);
        let args = LayoutReturnArgs { reclaim: false, layout_type, io_mode, what };
        self.session.call(&[put(&file.handle), ArgOp::LayoutReturn(args)]).map(drop)
    }
}

/// PUTFH.
pub fn put(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(PutFhArgs { handle: handle.clone() })
}

/// The handle of a compound that ends with GETFH.
fn handle_of(mut results: Vec<ResOp>) -> Result<FileHandle> {
    match results.pop() {
        Some(ResOp::GetFh(Ok(got))) => Ok(FileHandle(Bytes::copy_from_slice(&got.handle.0))),
        other => bail!("no file handle but {other:?}"),
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
