//! `dedup`: files that another file of the same name hides, and that have the same bytes.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
    sync::PoisonError,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::walk::{OnEach, Visit};
use crate::{
    MoveReport, Progress, Result, Union,
    attributes::{copy_of, stat_fd},
    place::{Place, unlink_path},
    striped::Stub,
};

/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 20;
/// Files that a report names.
const NAMED_MAX: usize = 100;

/// What was done about hidden files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DuplicateReport {
    /// Hidden files with the bytes of the one that is shown. They were removed, unless that was not
    /// wanted.
    pub same: u64,
    /// The space that they take, bytes.
    pub bytes: u64,
    /// Hidden files that stay.
    pub stay: u64,
    /// The first of them, with the reasons.
    pub reasons: Vec<(String, String)>,
}

/// A file on a branch, as it was when it was opened.
struct Opened {
    branch: usize,
    fd: OwnedFd,
    stat: Statx,
}

impl Union {
    /// Removes hidden files below a path that have the same bytes as the file that is shown.
    /// `remove`: whether they are removed, or only counted.
    ///
    /// # Errors
    /// `ENOENT`: there is no such path.
    pub fn deduplicate(
        &self,
        path: &[u8],
        remove: bool,
        progress: Progress<'_>,
    ) -> Result<DuplicateReport> {
        let mut report = DuplicateReport::default();
        let _ = self.walk_together(path, &mut |visit| {
            match visit {
                Visit::Directory { .. } => return ControlFlow::Continue(()),
                Visit::Name { path, on } => self.deduplicate_name(path, on, remove, &mut report),
                Visit::Unread { path, branch, error } => {
                    let path = self.path_on(branch, path).display().to_string();
                    report.stays(path, error.to_string());
                }
            }
            let (files, bytes, stayed) = (report.same, report.bytes, report.stay);
            progress(&MoveReport { files, bytes, stayed, reasons: Vec::new() })
        })?;
        Ok(report)
    }

    fn deduplicate_name(
        &self,
        path: &[u8],
        on: &OnEach,
        remove: bool,
        report: &mut DuplicateReport,
    ) {
        for (hidden, kind) in &on[1..] {
            let done = match (on[0].1, *kind) {
                (FileType::RegularFile, FileType::RegularFile) => {
                    self.deduplicate_file(path, on[0].0, *hidden, remove)
                }
                (shown, hidden) if shown == hidden => Err("it is no regular file".to_owned()),
                _ => Err("it is of another kind than what is shown".to_owned()),
            };
            match done {
                Ok(bytes) => {
                    report.same += 1;
                    report.bytes += bytes;
                }
                Err(why) => report.stays(self.path_on(*hidden, path).display().to_string(), why),
            }
        }
    }

    /// Returns the bytes that the hidden file takes, or why it stays.
    fn deduplicate_file(
        &self,
        path: &[u8],
        shown: usize,
        hidden: usize,
        remove: bool,
    ) -> std::result::Result<u64, String> {
        let text = |error: Errno| error.to_string();
        let shown = self.open_to_compare(path, shown).map_err(text)?;
        let hidden = self.open_to_compare(path, hidden).map_err(text)?;
        for file in [&shown, &hidden] {
            if self.stub(&file.fd).map_err(text)? != Stub::Plain {
                return Err("it is a striped file".to_owned());
            }
        }
        let same_inode = (shown.stat.stx_dev_major, shown.stat.stx_dev_minor, shown.stat.stx_ino)
            == (hidden.stat.stx_dev_major, hidden.stat.stx_dev_minor, hidden.stat.stx_ino);
        if !same_inode && !same_bytes(&shown, &hidden).map_err(text)? {
            return Err("it has other bytes".to_owned());
        }
        // The bytes are freed with the last link.
        let bytes = match hidden.stat.stx_nlink {
            1 => hidden.stat.stx_blocks * 512,
            _ => 0,
        };
        if remove {
            self.remove_hidden(path, &shown, &hidden)?;
        }
        Ok(bytes)
    }

    fn open_to_compare(&self, path: &[u8], branch: usize) -> Result<Opened> {
        let root = self.branches[branch].root()?;
        let place = Place::of(&root, path)?.ok_or(Errno::NOENT)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&place.directory, place.name, flags, Mode::empty())?;
        let stat = stat_fd(&fd)?;
        Ok(Opened { branch, fd, stat })
    }

    /// Removes the hidden file, if both files are still what was compared.
    fn remove_hidden(
        &self,
        path: &[u8],
        shown: &Opened,
        hidden: &Opened,
    ) -> std::result::Result<(), String> {
        self.check_writable(hidden.branch).map_err(|_| "its disk is read-only".to_owned())?;
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        for file in [shown, hidden] {
            let now = self.open_to_compare(path, file.branch).map_err(|error| error.to_string())?;
            let is_same = copy_of(file.branch, &now.stat) == copy_of(file.branch, &file.stat)
                && now.stat.stx_size == file.stat.stx_size
                && now.stat.stx_ctime.tv_sec == file.stat.stx_ctime.tv_sec
                && now.stat.stx_ctime.tv_nsec == file.stat.stx_ctime.tv_nsec;
            if !is_same {
                return Err("one of the two files was changed a moment ago".to_owned());
            }
        }
        let root = self.branches[hidden.branch].root().map_err(|error| error.to_string())?;
        unlink_path(&root, path, AtFlags::empty()).map_err(|error| error.to_string())?;
        self.save_path(hidden.branch, path, None);
        self.count_removed(hidden.branch, &hidden.stat);
        Ok(())
    }
}

impl DuplicateReport {
    fn stays(&mut self, path: String, why: String) {
        self.stay += 1;
        if self.reasons.len() < NAMED_MAX {
            self.reasons.push((path, why));
        }
    }
}

fn same_bytes(one: &Opened, other: &Opened) -> Result<bool> {
    if one.stat.stx_size != other.stat.stx_size {
        return Ok(false);
    }
    let (mut first, mut second) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    loop {
        let count = read_at(&one.fd, &mut first, at)?;
        if count != read_at(&other.fd, &mut second, at)? || first[..count] != second[..count] {
            return Ok(false);
        }
        if count < BLOCK {
            return Ok(at + count as u64 == one.stat.stx_size);
        }
        at += count as u64;
    }
}

/// Fills the buffer, unless the file ends before.
fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(&file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
