//! Files without a name (`O_TMPFILE`).
//!
//! The file is created without a name on its branch too, so one that never gets a name leaves
//! nothing, also after a kill. A link gives it a name on the same branch ([`Union::link`]). No move
//! sees it before: moves go from name to name.

use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{
    Attributes, Found, NodeId, OpenFile, Result, Union, User,
    attributes::{copy_of, stat_fd},
};

impl Union {
    /// Creates and opens a regular file without a name, as if in the directory: on the branch, and
    /// with the group and the ACL, that a file with a name would get there. It is a plain file,
    /// also in a directory of striped files.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the branches' file systems have no such files; others of open(2).
    pub fn create_unnamed(
        &self,
        directory: NodeId,
        flags: OFlags,
        (mode, umask): (u32, u32),
        user: User,
    ) -> Result<(Found, Arc<OpenFile>)> {
        let _shared = self.shared();
        let parent = self.nodes.get(directory)?;
        self.check_quota_of_new(&parent, user)?;
        let flags = OpenFile::flags(flags);
        let (branch, _, fd) = self.place(&parent, user, umask, |parent, umask| {
            let mode = Mode::from_raw_mode(mode & 0o7777 & !umask);
            match rustix::fs::openat(parent, c".", flags | OFlags::TMPFILE, mode) {
                // A file system driver that does not know the flag opens the directory.
                Err(Errno::ISDIR) => Err(Errno::OPNOTSUPP),
                opened => opened,
            }
        })?;
        let stat = stat_fd(&fd)?;
        self.count_file(branch, &stat);
        let index = self.index_of(branch, stat.stx_ino);
        let node = self.nodes.enter(false, vec![copy_of(branch, &stat)], &[], None, index);
        let attributes = Attributes::new(node.index, &stat);
        Ok((Found { node: node.id, attributes }, self.enter_open(&node, fd, flags, None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BranchMode, Pool};

    #[test]
    fn a_disk_whose_file_system_has_no_such_files_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let disks = ["a", "b"].map(|name| dir.path().join(name));
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        let disks = disks.map(|disk| (disk, BranchMode::Rw));
        let mut pool = Pool::create(&dir.path().join("meta"), "test", &disks, Some(0)).unwrap();
        pool.set_placement("first".parse().unwrap()).unwrap();
        let union = Union::open(&pool).unwrap();
        let root = union.nodes.get(NodeId::ROOT).unwrap();
        let user = User {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let place = |answers: [Result<()>; 2]| {
            let asked = std::cell::Cell::new(0);
            let answer = |_: &_, _| answers[asked.replace(asked.get() + 1)];
            union.place(&root, user, 0, answer).map(|(branch, ..)| branch)
        };
        let unknown = Err(Errno::OPNOTSUPP);
        assert_eq!(place([unknown, Ok(())]), Ok(1));
        // The program's answer to this one is a file with a name, which has another order.
        assert_eq!(place([unknown, Err(Errno::NOSPC)]), Err(Errno::OPNOTSUPP));
        assert_eq!(place([Err(Errno::NOSPC), unknown]), Err(Errno::OPNOTSUPP));
        assert_eq!(place([Err(Errno::ACCESS), Ok(())]), Err(Errno::ACCESS));
    }
}
