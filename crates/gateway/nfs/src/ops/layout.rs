//! Layouts of type `files`, and the devices that they name. RFC 8881 12 and 13.
//!
//! A layout is for a whole file, and returned with the last close. A file handle in it says what it
//! allows (ADR 0037), so the server keeps no more of a layout than its state id.
//!
//! Invariant: a layout is given out only for a file that the client has open, and with the rights
//! of an open.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::nfs4::args::{
    GetDeviceInfoArgs, LayoutCommitArgs, LayoutGetArgs, LayoutReturnArgs, LayoutReturnWhat,
};
use braid_nfs_wire::nfs4::layout_files::{FileDevice, FileLayout, LayoutUtil, Multipath};
use braid_nfs_wire::nfs4::results::{
    GetDeviceInfoFailure, GetDeviceInfoResult, Layout, LayoutCommitResult, LayoutGetFailure,
    LayoutGetResult, LayoutReturnResult,
};
use braid_nfs_wire::nfs4::{
    Bitmap, DeviceId, FileHandle, LENGTH_TO_END, LayoutIoMode, LayoutType, NetAddress, NfsResult,
    NfsStatus,
};
use braid_nfs_wire::xdr::{Encoder, Xdr};
use braid_share::{DataServer, DirectAccess, FileKind, Rights, Share, ShareClient, ShareFile};
use bytes::Bytes;

use crate::compound::CompoundState;
use crate::handle::digest;
use crate::ops::reclaim::check_may_reclaim;
use crate::state::opens::Known;
use crate::status::nfs_status;

/// Devices that a gateway remembers (I9): one for each ordered list of data servers. A client whose
/// device was forgotten asks for its layout again.
const DEVICES_MAX: usize = 4096;
/// Parts of a layout: Linux has a buffer of 4,096 bytes for a layout, and each part has a file
/// handle.
const PARTS_MAX: usize = 32;

/// Bytes of LAYOUTGET's result around the content of a layout: number, status, return on close,
/// state id, count, and range, mode, type and length of the layout. RFC 8881 18.43.2.
const RESULT_BYTES: usize = 8 + 4 + 16 + 4 + 28;

/// The devices that layouts of this gateway name.
#[derive(Debug, Default)]
pub struct Devices(Mutex<HashMap<DeviceId, Vec<DataServer>>>);

impl Devices {
    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceId, Vec<DataServer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of these servers. It is the same at all gateways.
    fn id(&self, servers: &[DataServer]) -> DeviceId {
        let mut text = String::new();
        for server in servers {
            text.push_str(&format!("{} {}\n", server.iod.0, server.addresses.join(",")));
        }
        let id = DeviceId(digest(text.as_bytes()));
        let mut devices = self.lock();
        if devices.len() >= DEVICES_MAX && !devices.contains_key(&id) {
            devices.clear();
        }
        devices.entry(id).or_insert_with(|| servers.to_vec());
        id
    }

    /// Devices with a data server that is not among `present`, or has other addresses there.
    pub(super) fn without(&self, present: &[DataServer]) -> Vec<DeviceId> {
        let is_stale = |servers: &[DataServer]| servers.iter().any(|one| !present.contains(one));
        let devices = self.lock();
        devices.iter().filter(|(_, servers)| is_stale(servers)).map(|(id, _)| *id).collect()
    }

    fn get(&self, id: &DeviceId) -> Option<Vec<DataServer>> {
        self.lock().get(id).cloned()
    }
}

/// LAYOUTGET. RFC 8881 18.43.
pub async fn layout_get<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LayoutGetArgs,
) -> Result<LayoutGetResult, LayoutGetFailure> {
    let file = state.file(NfsStatus::WrongType)?.clone();
    if args.layout_type != LayoutType::FILES {
        return Err(NfsStatus::UnknownLayoutType.into());
    }
    let write = match args.io_mode {
        LayoutIoMode::Read => false,
        LayoutIoMode::ReadWrite => true,
        _ => return Err(NfsStatus::BadIoMode.into()),
    };
    // RFC 8881 18.43.3.
    let too_long = args.length != LENGTH_TO_END && args.offset.checked_add(args.length).is_none();
    if args.length == 0 || args.length < args.min_length || too_long {
        return Err(NfsStatus::Inval.into());
    }
    if !state.gives_layouts(&file.export) {
        return Err(NfsStatus::LayoutUnavailable.into());
    }
    let id = state.resolve_state_id(args.state_id)?;
    let client = state.client_state()?;
    let named = match client.states.find(&id)? {
        Known::Open(open) => open.file.file,
        Known::Lock(lock) => lock.open.file.file,
        Known::Layout(layout) => layout.file.file,
        Known::Delegation(delegation) => delegation.file.file,
    };
    if named != file.file {
        return Err(NfsStatus::BadStateId.into());
    }
    let wanted = if write { Rights::WRITE } else { Rights::READ };
    let opens = client.states.opens_of_file(file.file);
    // The open with the most rights, since one layout serves all opens of the client.
    let open = opens
        .iter()
        .filter(|open| open.mode().rights.allow(wanted))
        .max_by_key(|open| open.mode().rights.0);
    // With a delegation, the client may have closed its opens: it goes through this server.
    if opens.is_empty()
        && client.states.delegation_of(file.file).is_some_and(|known| !known.has_ended())
    {
        return Err(NfsStatus::LayoutUnavailable.into());
    }
    let Some(open) = open else {
        // RFC 8881 18.43.3: a layout to write needs an open for writing.
        return Err(
            if opens.is_empty() { NfsStatus::BadStateId } else { NfsStatus::OpenMode }.into()
        );
    };
    let access = open.share_file.direct_access(write).await;
    let access = access.map_err(|error| nfs_status(error.status()))?;
    let layout = access.and_then(|access| layout_of(&state.server.devices, &access));
    // RFC 8881 18.43.3: the client goes through this server.
    let (device, content) = layout.ok_or(NfsStatus::LayoutUnavailable)?;
    if content.len() + 64 > args.max_count as usize {
        return Err(NfsStatus::TooSmall.into());
    }
    // Before there is a state id that the client would not learn of.
    if content.len() + RESULT_BYTES > state.reply_space {
        return Err(state.too_big.into());
    }
    if open.is_closed() {
        return Err(NfsStatus::BadStateId.into());
    }
    let id = client.states.layout(&file, device);
    state.set_state_id(id);
    Ok(LayoutGetResult {
        return_on_close: true,
        state_id: id,
        layouts: vec![Layout {
            offset: 0,
            length: LENGTH_TO_END,
            io_mode: args.io_mode,
            layout_type: LayoutType::FILES,
            content: content.into(),
        }],
    })
}

/// The device and the body of a layout; `None` if it cannot be expressed.
fn layout_of(devices: &Devices, access: &DirectAccess) -> Option<(DeviceId, Vec<u8>)> {
    let parts = access.handles.len();
    if parts == 0 || parts != access.servers.len() || parts > PARTS_MAX {
        return None;
    }
    let unit = u32::try_from(access.stripe_bytes.0).ok()?;
    let device_id = devices.id(&access.servers);
    let layout = FileLayout {
        device_id,
        // RFC 8881 13.4.4: sparse, so that offsets are those of the file.
        util: LayoutUtil::sparse(unit)?,
        first_stripe_index: access.first_part,
        pattern_offset: 0,
        handles: access.handles.iter().map(|handle| FileHandle(handle.clone().into())).collect(),
    };
    let mut to = Encoder::new();
    layout.encode(&mut to);
    Some((device_id, to.to_vec()))
}

/// GETDEVICEINFO. RFC 8881 18.40.
pub fn get_device_info<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: GetDeviceInfoArgs,
) -> Result<GetDeviceInfoResult, GetDeviceInfoFailure> {
    if args.layout_type != LayoutType::FILES {
        return Err(NfsStatus::UnknownLayoutType.into());
    }
    let servers = state.server.devices.get(&args.device_id).ok_or(NfsStatus::NoEnt)?;
    let device = FileDevice {
        stripe_indices: (0..servers.len() as u32).collect(),
        data_servers: servers.iter().map(addresses).collect::<NfsResult<_>>()?,
    };
    let mut to = Encoder::new();
    device.encode(&mut to);
    let address = to.to_vec();
    // RFC 8881 18.40.3: the size of the whole result, 0 for an update only.
    let bytes = address.len() + 12;
    if args.max_count != 0 && bytes > args.max_count as usize {
        return Err(GetDeviceInfoFailure::TooSmall(bytes as u32));
    }
    Ok(GetDeviceInfoResult {
        layout_type: LayoutType::FILES,
        address: Bytes::from(address),
        notification: Bitmap::new(),
    })
}

fn addresses(server: &DataServer) -> NfsResult<Multipath> {
    let mut all = Vec::new();
    for address in &server.addresses {
        match address.to_socket_addrs() {
            Ok(found) => all.extend(found.take(1)),
            Err(error) => tracing::warn!(%address, %error, "address of a data server"),
        }
    }
    if all.is_empty() {
        return Err(NfsStatus::NoEnt);
    }
    Ok(Multipath(all.into_iter().map(|address: SocketAddr| NetAddress::from(address)).collect()))
}

/// LAYOUTRETURN. RFC 8881 18.44.
pub fn layout_return<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LayoutReturnArgs,
) -> NfsResult<LayoutReturnResult> {
    let client = state.client_state()?;
    match &args.what {
        LayoutReturnWhat::File(of) => {
            let file = state.file(NfsStatus::WrongType)?.file;
            let id = state.resolve_state_id(of.state_id)?;
            match client.states.find(&id)? {
                Known::Layout(layout) if layout.file.file == file => {}
                _ => return Err(NfsStatus::BadStateId),
            }
            client.states.remove_layout(file);
        }
        LayoutReturnWhat::Fsid => {
            let number = state.file(NfsStatus::WrongType)?.export.number();
            client.states.remove_layouts(|file| file.export.number() == number);
        }
        LayoutReturnWhat::All => client.states.remove_layouts(|_| true),
    }
    // RFC 8881 18.44.3: no layout is left, so there is no state id.
    Ok(LayoutReturnResult { state_id: None })
}

/// LAYOUTCOMMIT. RFC 8881 18.42. Sizes and times are asked of the I/O daemons while a file is open
/// (I5), so only durability is left to do.
pub async fn layout_commit<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LayoutCommitArgs,
) -> NfsResult<LayoutCommitResult> {
    let file = state.writable_file()?.clone();
    let client = state.client_state()?;
    let known = client.share.attributes(state.who(), file.file).await;
    let known = known.map_err(|error| nfs_status(error.status()))?;
    if known.kind != FileKind::File {
        return Err(NfsStatus::WrongType);
    }
    if args.reclaim {
        // RFC 8881 18.42.3: the layout is of before the restart; only the open was reclaimed.
        check_may_reclaim(state)?;
    } else {
        let id = state.resolve_state_id(args.state_id)?;
        match client.states.find(&id)? {
            Known::Layout(layout) if layout.file.file == file.file => {}
            _ => return Err(NfsStatus::BadStateId),
        }
    }
    let opens = client.states.opens_of_file(file.file);
    let writer = opens.iter().find(|open| open.mode().rights.allow(Rights::WRITE));
    // RFC 8881 18.42.3: a layout to read commits nothing.
    let writer = writer.ok_or(NfsStatus::BadLayout)?;
    writer.share_file.commit().await.map_err(|error| nfs_status(error.status()))?;
    Ok(LayoutCommitResult { new_size: None })
}
