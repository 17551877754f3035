//! Events of whole file systems (fanotify(7)): which names and files somebody has changed.

use std::{
    ffi::c_int,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use rustix::io::Errno;

use crate::{KernelHandle, Result, kernel_handle::last_error};

/// Creations, removals and renames.
pub(super) const NAMES: u64 =
    libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;
/// Of stores through a mapping only `FAN_CLOSE_WRITE` comes, when the mapping ends.
const WRITES: u64 = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE;
const WANTED: u64 = NAMES | WRITES | libc::FAN_ATTRIB | libc::FAN_ONDIR;
/// A mark of events that are not wanted, until it is removed.
const IGNORED: u32 = libc::FAN_MARK_IGNORED_MASK | libc::FAN_MARK_IGNORED_SURV_MODIFY;
/// Bytes of one read: some hundred events.
const READ_BYTES: usize = 64 << 10;
/// `fanotify_event_metadata`, and the header of each information after it.
const METADATA_BYTES: usize = 24;
const INFO_BYTES: usize = 4;

/// The number of a file system in statfs(2) and in events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FileSystemId([u8; 8]);

impl FileSystemId {
    /// `number`: as statvfs(3) has it, two numbers of 32 bits, the first one in the low bits.
    pub(super) fn of(number: u64) -> Self {
        let halves = [number & u64::from(u32::MAX), number >> 32];
        let mut bytes = [0; 8];
        for (half, to) in halves.into_iter().zip(bytes.chunks_exact_mut(4)) {
            to.copy_from_slice(&(half as u32).to_ne_bytes());
        }
        Self(bytes)
    }
}

/// A group of marks and its queue of events.
#[derive(Debug)]
pub(super) struct Group(OwnedFd);

/// Something has happened to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    mask: u64,
    /// The process that did it.
    process: i32,
    pub(super) file_system: FileSystemId,
    /// The directory and the name in it. The name is `.` for a change of the directory itself.
    pub(super) name: Option<(KernelHandle, Box<[u8]>)>,
    /// The file itself.
    pub(super) file: Option<KernelHandle>,
}

impl Event {
    /// Events were lost.
    pub(super) fn is_overflow(&self) -> bool {
        self.mask & libc::FAN_Q_OVERFLOW != 0
    }

    /// Whether a name in the directory was created, removed or renamed.
    pub(super) fn is_of_names(&self) -> bool {
        self.mask & NAMES != 0
    }

    pub(super) fn is_by(&self, process: u32) -> bool {
        u32::try_from(self.process) == Ok(process)
    }
}

impl Group {
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN`; `EINVAL` before Linux 5.17; `ENOSYS`.
    #[allow(unsafe_code)] // rustix has no fanotify
    pub(super) fn new() -> Result<Self> {
        let reports = libc::FAN_REPORT_DFID_NAME_TARGET;
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | reports;
        // SAFETY: it takes two numbers.
        let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the kernel has just opened it for this call.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Asks for the events of the file system that has this file.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it has no handles (overlayfs, exFAT). `EXDEV`: a subvolume of btrfs.
    pub(super) fn watch(&self, root: impl AsFd) -> Result<()> {
        self.mark(libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM, WANTED, root)
    }

    /// Wants no events of writes to an open file.
    ///
    /// # Errors
    /// `ENOSPC`: too many files are marked.
    pub(super) fn ignore_writes(&self, file: impl AsFd) -> Result<()> {
        self.mark(libc::FAN_MARK_ADD | IGNORED, WRITES, file)
    }

    /// Ends [`Group::ignore_writes`].
    ///
    /// # Errors
    /// `ENOENT`: the file is not marked.
    pub(super) fn notice_writes(&self, file: impl AsFd) -> Result<()> {
        self.mark(libc::FAN_MARK_REMOVE | IGNORED, WRITES, file)
    }

    #[allow(unsafe_code)] // rustix has no fanotify
    fn mark(&self, flags: u32, events: u64, file: impl AsFd) -> Result<()> {
        let (group, file) = (self.0.as_raw_fd(), file.as_fd());
        // SAFETY: both descriptors are open. Without a path the second one is marked.
        let done: c_int = unsafe {
            libc::fanotify_mark(group, flags, events, file.as_raw_fd(), std::ptr::null())
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Adds the events that are there, at most about `READ_BYTES` of them. Whether there were any.
    pub(super) fn read(&self, events: &mut Vec<Event>) -> Result<bool> {
        let mut buffer = vec![0; READ_BYTES];
        match rustix::io::read(&self.0, &mut buffer) {
            Ok(0) | Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Ok(bytes) => {
                parse(&buffer[..bytes], events);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn parse(mut bytes: &[u8], events: &mut Vec<Event>) {
    while let Some(event) = event(bytes) {
        let length = event.1;
        events.push(event.0);
        bytes = &bytes[length..];
    }
}

/// The first event, and its length.
fn event(bytes: &[u8]) -> Option<(Event, usize)> {
    let length = u32::from_ne_bytes(array(bytes, 0)?) as usize;
    let metadata = usize::from(u16::from_ne_bytes(array(bytes, 6)?));
    let mut event = Event {
        mask: u64::from_ne_bytes(array(bytes, 8)?),
        process: i32::from_ne_bytes(array(bytes, 20)?),
        file_system: FileSystemId::default(),
        name: None,
        file: None,
    };
    let mut left = bytes.get(metadata.max(METADATA_BYTES)..length)?;
    while let Some(info_length) = array(left, 2).map(u16::from_ne_bytes) {
        let info = left.get(..usize::from(info_length).max(INFO_BYTES))?;
        add_info(info, &mut event);
        left = &left[info.len()..];
    }
    Some((event, length))
}

/// `fanotify_event_info_fid`: kind, length, file system, `file_handle`, and possibly a name with
/// its NUL.
fn add_info(info: &[u8], event: &mut Event) -> Option<()> {
    let kind = *info.first()?;
    let named = [libc::FAN_EVENT_INFO_TYPE_DFID_NAME, libc::FAN_EVENT_INFO_TYPE_DFID];
    if !named.contains(&kind) && kind != libc::FAN_EVENT_INFO_TYPE_FID {
        return None;
    }
    event.file_system = FileSystemId(array(info, 4)?);
    let bytes = u32::from_ne_bytes(array(info, 12)?) as usize;
    let handle_kind = i32::from_ne_bytes(array(info, 16)?);
    let handle = info.get(20..20_usize.checked_add(bytes)?)?;
    let handle = KernelHandle { kind: handle_kind, bytes: handle.into() };
    if kind == libc::FAN_EVENT_INFO_TYPE_FID {
        event.file = Some(handle);
    } else {
        let name = info[20 + bytes..].split(|byte| *byte == 0).next().unwrap_or_default();
        event.name = Some((handle, if name.is_empty() { b"." } else { name }.into()));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event as the kernel writes it.
    fn written(mask: u64, infos: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, handle, name) in infos {
            let mut info = [7; 8].to_vec();
            info.extend((handle.len() as u32).to_ne_bytes());
            info.extend(1_i32.to_ne_bytes());
            info.extend(*handle);
            info.extend(*name);
            info.resize(info.len().next_multiple_of(4), 0);
            all.extend([*kind, 0]);
            all.extend((info.len() as u16 + 4).to_ne_bytes());
            all.extend(info);
        }
        let mut event = (all.len() as u32 + 24).to_ne_bytes().to_vec();
        event.extend([3, 0, 24, 0]);
        event.extend(mask.to_ne_bytes());
        event.extend((-1_i32).to_ne_bytes());
        event.extend(42_i32.to_ne_bytes());
        event.extend(all);
        event
    }

    #[test]
    fn events_are_read_with_their_handles_and_names() {
        let handle = |bytes: &[u8]| KernelHandle { kind: 1, bytes: bytes.into() };
        let infos: [(u8, &[u8], &[u8]); 2] = [(2, b"dir handle..", b"name\0"), (1, b"file", b"")];
        let mut bytes = written(libc::FAN_CREATE, &infos);
        bytes.extend(written(libc::FAN_Q_OVERFLOW, &[]));
        let mut events = Vec::new();
        parse(&bytes, &mut events);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].name, Some((handle(b"dir handle.."), b"name"[..].into())));
        assert_eq!(events[0].file, Some(handle(b"file")));
        assert_eq!((events[0].file_system, events[0].is_by(42)), (FileSystemId([7; 8]), true));
        assert!(events[0].is_of_names() && !events[0].is_overflow());
        assert!(events[1].is_overflow() && events[1].name.is_none());
    }

    #[test]
    fn cut_events_are_ignored() {
        let infos: [(u8, &[u8], &[u8]); 1] = [(2, b"handle", b"name\0")];
        let whole = written(libc::FAN_DELETE, &infos);
        for length in 0..whole.len() {
            let mut events = Vec::new();
            parse(&whole[..length], &mut events);
            assert!(events.is_empty(), "{length}");
        }
        let mut wrong = whole;
        wrong[24 + 12..24 + 16].copy_from_slice(&u32::MAX.to_ne_bytes());
        let mut events = Vec::new();
        parse(&wrong, &mut events);
        assert!(events.iter().all(|event| event.name.is_none()));
    }
}
