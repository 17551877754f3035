//! Mounting with mount(2), for root.

use super::{MountError, MountOptions};
use crate::kernel::clone::open_device;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Mounts and returns the device to serve. `None`: only root may.
pub(super) fn mount(
    options: &MountOptions,
    point: &Path,
    root_mode: u32,
) -> Result<Option<OwnedFd>, MountError> {
    let device = match open_device() {
        // The helper opens it with root's rights.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(None),
        device => device.map_err(MountError::NoDevice)?,
    };
    let kind = format!("fuse.{}", options.subtype);
    let data = data(options, device.as_raw_fd(), root_mode);
    match rustix::mount::mount(
        options.source.as_str(),
        point,
        kind,
        options.flags(),
        data.as_c_str(),
    ) {
        Ok(()) => Ok(Some(device)),
        Err(rustix::io::Errno::PERM) => Ok(None),
        Err(error) => Err(MountError::Kernel { point: point.to_owned(), why: error.into() }),
    }
}

fn data(options: &MountOptions, fd: i32, root_mode: u32) -> CString {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={fd},rootmode={root_mode:o},user_id={uid},group_id={gid}");
    data.push_str(&format!(",max_read={}", options.read_bytes_max));
    for (is, word) in [
        (options.default_permissions, ",default_permissions"),
        (options.allow_other, ",allow_other"),
    ] {
        data.push_str(if is { word } else { "" });
    }
    // Numbers and words only: no NUL.
    CString::new(data).unwrap_or_default()
}
