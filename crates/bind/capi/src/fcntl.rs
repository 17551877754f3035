//! `braid_fcntl`: the requests of the 1996 paper (2.1). They read and set the physical metadata
//! parameters (2.2.1) and the logical partition parameters (2.2.2) of an open file, and report the
//! mounted file system.

use std::ffi::{c_char, c_int, c_void};

use braid_client::{FileIndex, Pattern, View};

use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::{put, value},
        process,
        table::{self, DescriptorTarget},
    },
    file::OpenFile,
    layout::{self, BRAID_SIMPLE_STRIPE},
};

/// Returns the file system of a descriptor: struct braid_mount.
pub const BRAID_GET_MOUNT: c_int = 1;
/// Returns the striping parameters of a file: struct braid_metadata.
pub const BRAID_GET_METADATA: c_int = 2;
/// Sets the striping parameters of a file that was never written and that nobody else has open:
/// struct braid_metadata. The descriptor stays valid; its cursor is set to 0. It takes some
/// seconds, until the server has recorded that the file is empty; braid_open_layout has no such
/// wait.
pub const BRAID_SET_METADATA: c_int = 3;
/// Returns the partition of the descriptor: struct braid_partition.
pub const BRAID_GET_PARTITION: c_int = 4;
/// Sets the partition of the descriptor, and its cursor to 0: struct braid_partition.
pub const BRAID_SET_PARTITION: c_int = 5;

/// The file system of a descriptor.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_mount {
    /// Addresses of the metadata server (the paper's manager), separated by commas, truncated to
    /// 255 bytes.
    pub manager: [c_char; 256],
    /// Number of I/O daemons.
    pub iods: u32,
    /// Number of I/O daemons that are up.
    pub iods_up: u32,
    /// Total space, in bytes.
    pub total_bytes: u64,
    /// Space that can still be written, in bytes.
    pub available_bytes: u64,
}

/// The paper's striping parameters.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_metadata {
    /// Bytes of a stripe on one I/O daemon; 0: as the directory says.
    pub stripe_bytes: u64,
    /// The I/O daemon with the first stripe, as an ordinal among those that are up; -1: any.
    pub base: i32,
    /// Number of I/O daemons; 0: as the directory says.
    pub node_count: u32,
}

/// The paper's partition parameters, in bytes. If the group is as large as the stride, or both are
/// 0, the partition is the file from `offset` on.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_partition {
    /// Where the partition starts in the file.
    pub offset: u64,
    /// Number of visible bytes in each stride.
    pub group_size: u64,
    /// From the start of one group to the start of the next.
    pub stride: u64,
}

/// A request of the 1996 paper on a descriptor: one of BRAID_GET_MOUNT, BRAID_GET_METADATA,
/// BRAID_SET_METADATA, BRAID_GET_PARTITION, BRAID_SET_PARTITION, with the struct that belongs to
/// it. Returns 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_fcntl(
    descriptor: c_int,
    request: c_int,
    argument: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`: the argument points to the struct of
        // the request.
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
                    return Err(Failure::invalid(format!(
                        "fcntl: request {other} is unknown; try: one of BRAID_GET_* or BRAID_SET_*"
                    )));
                }
            }
        }
        Ok(0)
    })
}

fn mount(descriptor: c_int) -> Outcome<braid_mount> {
    let cluster = match process::table().any(descriptor)? {
        DescriptorTarget::Cluster(cluster) => cluster,
        DescriptorTarget::File(file) => file.cluster.clone(),
        DescriptorTarget::Directory(directory) => directory.cluster.clone(),
    };
    let space = cluster.client.statfs(FileIndex::ROOT)?;
    // With an agent, the program may not know the addresses. The cluster map has them.
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
        iods: space.iods,
        iods_up: space.iods_up,
        total_bytes: space.total.0,
        available_bytes: space.available.0,
    })
}

fn metadata(descriptor: c_int) -> Outcome<braid_metadata> {
    let open = table::file(descriptor)?;
    // Asks the server: BRAID_SET_METADATA may have changed the layout since the open.
    let (client, index) = (&open.cluster.client, open.file().index());
    let found = client.layout(index)?.layout.unwrap_or_else(|| open.file().layout());
    let found = layout::to_c_layout(&found, &client.cluster_map()?)?;
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
        ..layout::braid_layout::UNSPECIFIED
    };
    // SAFETY: a local value without pointers in it.
    let wish = unsafe { layout::layout_hint(&raw const layout) }?;
    open.cluster.client.check_iod_count(&wish)?;
    let index = open.file().index();
    open.with_file_closed(|| Ok(open.cluster.client.set_layout(index, wish.clone())?))
}

fn partition(open: &OpenFile) -> Outcome<braid_partition> {
    let view = open.current_view().view;
    match view.pattern {
        Pattern::Bytes(group_size) => {
            Ok(braid_partition { offset: view.displacement, group_size, stride: view.extent })
        }
        _ => Err(Failure::invalid(
            "fcntl: the view is not a partition of the 1996 paper; try: braid_set_view with NULL",
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
