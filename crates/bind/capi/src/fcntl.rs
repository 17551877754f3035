//! `braid_fcntl`: the 1996 paper's requests (2.1): physical metadata parameters (2.2.1) and logical partition parameters (2.2.2)
//! of an open file, and facts of the file system that is mounted.

use std::ffi::{c_char, c_int, c_void};

use braid_client::{FileIndex, Pattern, View};

use crate::{
    border::{
        Failure, Outcome, call,
        pointers::{put, value},
        process,
        table::{self, Open},
    },
    file::OpenFile,
    layout::{self, BRAID_SIMPLE_STRIPE},
};

/// Tells which file system a descriptor is of: struct braid_mount.
pub const BRAID_GET_MOUNT: c_int = 1;
/// Tells the striping parameters of a file: struct braid_metadata.
pub const BRAID_GET_METADATA: c_int = 2;
/// Sets the striping parameters of a file that was never written and that nobody else has open: struct braid_metadata. The
/// descriptor stays, its cursor is at 0. It takes some seconds, until the server has recorded that the file is empty;
/// braid_open_layout takes none.
pub const BRAID_SET_METADATA: c_int = 3;
/// Tells the partition that the descriptor sees: struct braid_partition.
pub const BRAID_GET_PARTITION: c_int = 4;
/// Sets the partition that the descriptor sees; its cursor is at 0: struct braid_partition.
pub const BRAID_SET_PARTITION: c_int = 5;

/// The file system that a descriptor is of.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_mount {
    /// Addresses of the metadata server (the paper's manager), separated by commas; cut when it is longer.
    pub manager: [c_char; 256],
    /// I/O daemons that there are.
    pub iods: u32,
    /// I/O daemons that are up.
    pub iods_up: u32,
    /// All room, in bytes.
    pub total_bytes: u64,
    /// What may still be written, in bytes.
    pub available_bytes: u64,
}

/// The paper's striping parameters.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_metadata {
    /// Bytes of a stripe on one I/O daemon; 0 leaves it to the directory.
    pub stripe_bytes: u64,
    /// The I/O daemon with the first stripe, as an ordinal among those that are up; -1 leaves it open.
    pub base: i32,
    /// Over how many I/O daemons, of those that the cluster has; 0 leaves it open.
    pub node_count: u32,
}

/// The paper's partition parameters, in bytes. A group as large as the stride, or both 0, is the file from `offset` on.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_partition {
    /// Where the partition begins in the file.
    pub offset: u64,
    /// Bytes that are seen in each stride.
    pub group_size: u64,
    /// From the start of one group to the start of the next.
    pub stride: u64,
}

/// The 1996 paper's requests on a descriptor: one of BRAID_GET_MOUNT, BRAID_GET_METADATA, BRAID_SET_METADATA,
/// BRAID_GET_PARTITION, BRAID_SET_PARTITION, with the struct that it names. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_fcntl(
    descriptor: c_int,
    request: c_int,
    argument: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`: the argument is the struct that the request names.
        unsafe {
            match request {
                BRAID_GET_MOUNT => put(argument.cast(), mount(descriptor)?, "argument")?,
                BRAID_GET_METADATA => put(argument.cast(), metadata(descriptor)?, "argument")?,
                BRAID_SET_METADATA => {
                    set_metadata(descriptor, value(argument.cast(), "argument")?)?
                }
                BRAID_GET_PARTITION => {
                    put(argument.cast(), partition(&*table::file(descriptor)?)?, "argument")?
                }
                BRAID_SET_PARTITION => {
                    set_partition(&*table::file(descriptor)?, value(argument.cast(), "argument")?)?
                }
                other => {
                    return Err(Failure::invalid(format!("fcntl: request {other} is not known")));
                }
            }
        }
        Ok(0)
    })
}

fn mount(descriptor: c_int) -> Outcome<braid_mount> {
    let cluster = match process::table().any(descriptor)? {
        Open::Cluster(cluster) => cluster,
        Open::File(file) => file.cluster.clone(),
        Open::Directory(directory) => directory.cluster.clone(),
    };
    let room = cluster.client.statfs(FileIndex::ROOT)?;
    // An agent knows the addresses when the program does not; the map has them as the server tells them.
    let addresses = if cluster.mds.is_empty() {
        cluster.client.cluster_map()?.mds
    } else {
        cluster.mds.clone()
    };
    let mut manager = [0; 256];
    for (to, from) in manager[..255].iter_mut().zip(addresses.join(",").bytes()) {
        *to = from.cast_signed() as c_char;
    }
    Ok(braid_mount {
        manager,
        iods: room.iods,
        iods_up: room.iods_up,
        total_bytes: room.total.0,
        available_bytes: room.available.0,
    })
}

fn metadata(descriptor: c_int) -> Outcome<braid_metadata> {
    let open = table::file(descriptor)?;
    // Asked of the server: a set before the first write changes what the open found.
    let (client, index) = (&open.cluster.client, open.file().index());
    let found = client.layout(index)?.layout.unwrap_or_else(|| open.file().layout());
    let found = layout::described(&found, &client.cluster_map()?)?;
    Ok(braid_metadata {
        stripe_bytes: found.stripe_bytes,
        base: found.first_iod,
        node_count: found.iod_count,
    })
}

fn set_metadata(descriptor: c_int, wanted: &braid_metadata) -> Outcome<()> {
    let open = table::file(descriptor)?;
    let layout = layout::braid_layout {
        distribution: BRAID_SIMPLE_STRIPE,
        iod_count: wanted.node_count,
        first_iod: wanted.base,
        stripe_bytes: wanted.stripe_bytes,
        ..layout::braid_layout::OPEN
    };
    // SAFETY: a value of our own, without pointers in it.
    let wish = unsafe { layout::wish(&raw const layout) }?;
    open.cluster.client.check_iod_count(&wish)?;
    let index = open.file().index();
    open.while_closed(|| Ok(open.cluster.client.set_layout(index, wish.clone())?))
}

fn partition(open: &OpenFile) -> Outcome<braid_partition> {
    let view = open.seen().view;
    match view.pattern {
        Pattern::Bytes(group_size) => {
            Ok(braid_partition { offset: view.displacement, group_size, stride: view.extent })
        }
        _ => Err(Failure::invalid(
            "fcntl: the view is none of the 1996 paper's partitions; it was set by braid_set_view",
        )),
    }
}

fn set_partition(open: &OpenFile, wanted: &braid_partition) -> Outcome<()> {
    let view = match (wanted.group_size, wanted.stride) {
        (0, 0) => View { displacement: wanted.offset, ..View::whole() },
        (group, stride) => View::strided(wanted.offset, group, stride),
    };
    open.set_view(view)
}
