//! A thread's own descriptor table, with only a mount's device in it.
#![allow(unsafe_code)]

use crate::kernel::clone::clone_device;
use crate::kernel::device::Device;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Leaves the process's descriptor table permanently, with a clone of the device `main`. If the
/// clone fails, the thread has the device itself, and the error is returned: an unprivileged user,
/// for whom `fusermount3` opened the device, may not open another one.
///
/// For a new thread that owns no descriptor and gets none later.
pub(super) fn enter(main: RawFd) -> io::Result<(Device, Option<io::Error>)> {
    // SAFETY: this thread owns no descriptor of the shared table, and those of its own never leave
    // it.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    close_all_but(main)?;
    match clone_device(main) {
        Ok(device) => {
            close(main);
            Ok((device, None))
        }
        // SAFETY: open in this table, as the spawner holds it open in the one that was copied;
        // nothing else owns it here.
        Err(error) => Ok((Device::new(unsafe { OwnedFd::from_raw_fd(main) }), Some(error))),
    }
}

/// Uses the list in /proc: Linux 5.4 has no close_range(2), and this runs once per thread.
fn close_all_but(main: RawFd) -> io::Result<()> {
    let mut list = Dir::new(open_list(main)?)?;
    let own = list.fd()?.as_raw_fd();
    let mut numbers: Vec<RawFd> = Vec::new();
    while let Some(entry) = list.read() {
        numbers
            .extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok()));
    }
    drop(list);
    numbers.into_iter().filter(|number| ![main, own].contains(number)).for_each(close);
    Ok(())
}

fn open_list(main: RawFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open("/proc/thread-self/fd", flags, Mode::empty());
    match open() {
        Err(Errno::MFILE) => {
            // The process has used all its descriptor numbers: closes one of the lowest.
            close(if main == 0 { 1 } else { 0 });
            Ok(open()?)
        }
        list => Ok(list?),
    }
}

fn close(number: RawFd) {
    // SAFETY: open in the table that this thread alone has; nothing in the thread owns it.
    unsafe { rustix::io::close(number) };
}
