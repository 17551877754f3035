//! Layouts of type `files`: reads and writes at data servers.

use std::{
    collections::hash_map::Entry,
    io,
    net::{IpAddr, SocketAddr},
};

use braid_nfs_wire::{
    nfs4::{
        ArgOp, Bitmap, FileHandle, LENGTH_TO_END, LayoutIoMode, LayoutType, NetAddress, ResOp,
        StableHow, StateId, Verifier,
        args::{
            CommitArgs, GetDeviceInfoArgs, LayoutGetArgs, LayoutReturnArgs, LayoutReturnFile,
            LayoutReturnWhat, ReadArgs, WriteArgs,
        },
        layout_files::{FileDevice, FileLayout},
    },
    xdr::{Decoder, Xdr},
};
use bytes::Bytes;

use super::{
    mount::{NfsFile, NfsMount, last, put, read_bytes},
    session::{NfsError, NfsSession, unexpected},
};

/// The layout of a whole file.
#[derive(Clone, Debug)]
pub struct NfsLayout {
    /// Its state id.
    pub state_id: StateId,
    /// Bytes in a stripe.
    pub unit: u64,
    /// The part with the first stripe.
    pub first: u64,
    /// The file handle of each part.
    pub handles: Vec<FileHandle>,
    /// The data server of each part.
    pub servers: Vec<SocketAddr>,
}

impl NfsLayout {
    /// The part that has a byte of the file.
    pub fn part(&self, offset: u64) -> usize {
        ((offset / self.unit + self.first) % self.handles.len() as u64) as usize
    }
}

impl NfsMount {
    /// LAYOUTGET and GETDEVICEINFO.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn layout(&mut self, file: &NfsFile, write: bool) -> Result<NfsLayout, NfsError> {
        let get = ArgOp::LayoutGet(LayoutGetArgs {
            signal_available: false,
            layout_type: LayoutType::FILES,
            io_mode: if write { LayoutIoMode::ReadWrite } else { LayoutIoMode::Read },
            offset: 0,
            length: LENGTH_TO_END,
            min_length: 1,
            state_id: file.open,
            max_count: 8192,
        });
        let got = match self.session.last(&[put(&file.handle), get])? {
            ResOp::LayoutGet(Ok(got)) => got,
            other => return Err(unexpected(&other)),
        };
        let [layout] = &got.layouts[..] else { return Err(wrong("not one layout")) };
        let files = FileLayout::decode(&mut Decoder::new(layout.content.clone()));
        let files = files.map_err(io::Error::other)?;
        let info = ArgOp::GetDeviceInfo(GetDeviceInfoArgs {
            device_id: files.device_id,
            layout_type: LayoutType::FILES,
            max_count: 65536,
            notify_types: Bitmap::new(),
        });
        let device = match self.session.last(&[info])? {
            ResOp::GetDeviceInfo(Ok(device)) => device,
            other => return Err(unexpected(&other)),
        };
        let device = FileDevice::decode(&mut Decoder::new(device.address));
        let device = device.map_err(io::Error::other)?;
        let first_of = |index: &u32| device.data_servers[*index as usize].0.first();
        let addresses = device.stripe_indices.iter().map(|index| address(first_of(index)));
        Ok(NfsLayout {
            state_id: got.state_id,
            unit: files.util.stripe_unit().into(),
            first: files.first_stripe_index.into(),
            handles: files.handles,
            servers: addresses.collect::<Result<_, _>>()?,
        })
    }

    /// LAYOUTRETURN.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn return_layout(&mut self, file: &NfsFile, layout: &NfsLayout) -> Result<(), NfsError> {
        let (offset, length, state_id) = (0, LENGTH_TO_END, layout.state_id);
        let of = LayoutReturnFile { offset, length, state_id, body: Bytes::new() };
        let (layout_type, io_mode) = (LayoutType::FILES, LayoutIoMode::Any);
        let what = LayoutReturnWhat::File(of);
        let give_back = LayoutReturnArgs { reclaim: false, layout_type, io_mode, what };
        self.session.run(&[put(&file.handle), ArgOp::LayoutReturn(give_back)]).map(drop)
    }

    /// Reads at the data server; the bytes lie within one stripe.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn direct_read(
        &mut self,
        (file, layout): (&NfsFile, &NfsLayout),
        offset: u64,
        count: u32,
    ) -> Result<Bytes, NfsError> {
        let read = ArgOp::Read(ReadArgs { state_id: no_seqid(file.open), offset, count });
        let part = layout.part(offset);
        let server = self.data_server(layout.servers[part])?;
        read_bytes(last!(Read, server, &[put(&layout.handles[part]), read])?.data)
    }

    /// Writes at the data server; the bytes lie within one stripe.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn direct_write(
        &mut self,
        (file, layout): (&NfsFile, &NfsLayout),
        offset: u64,
        data: Bytes,
    ) -> Result<Verifier, NfsError> {
        let (state_id, stable) = (no_seqid(file.open), StableHow::Unstable);
        let write = ArgOp::Write(WriteArgs { state_id, offset, stable, data });
        let part = layout.part(offset);
        let server = self.data_server(layout.servers[part])?;
        Ok(last!(Write, server, &[put(&layout.handles[part]), write])?.verifier)
    }

    /// Commits the part with a byte of the file at its data server.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn direct_commit(&mut self, layout: &NfsLayout, at: u64) -> Result<Verifier, NfsError> {
        let part = layout.part(at);
        let commit = ArgOp::Commit(CommitArgs { offset: 0, count: 0 });
        let server = self.data_server(layout.servers[part])?;
        Ok(last!(Commit, server, &[put(&layout.handles[part]), commit])?.verifier)
    }

    /// The session with a data server, which begins with the first use.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn data_server(&mut self, address: SocketAddr) -> Result<&mut NfsSession, NfsError> {
        match self.data_servers.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                Ok(new.insert(NfsSession::with_data_server(address, &self.owner)?))
            }
        }
    }
}

/// RFC 8881 13.9.1: the state id at a data server has the sequence number 0.
fn no_seqid(id: StateId) -> StateId {
    StateId { seqid: 0, ..id }
}

/// A universal address. RFC 5665 5.2.3.3.
fn address(of: Option<&NetAddress>) -> Result<SocketAddr, NfsError> {
    let text = of.map(|address| String::from_utf8_lossy(&address.address).into_owned());
    let parsed = text.as_deref().and_then(|text| {
        let (rest, low) = text.rsplit_once('.')?;
        let (host, high) = rest.rsplit_once('.')?;
        let port = high.parse::<u16>().ok()? << 8 | low.parse::<u16>().ok()?;
        Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port))
    });
    parsed.ok_or_else(|| wrong("a data server without an address"))
}

fn wrong(what: &str) -> NfsError {
    NfsError::Connection(io::Error::other(what.to_owned()))
}
