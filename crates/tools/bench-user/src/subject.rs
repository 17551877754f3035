//! The interface to the measured file system: a cluster's, and in tests a slow one with a simulated
//! clock.

use braid_client::{
    Client, File, FileIndex, FileKind, IodId, LayoutHint, OpenOptions, RenameMode, ThreadGroup,
    View,
    message::iod::{DiskRates, MeasureDisk},
};

use crate::{
    error::Result,
    iods::{self, Iod},
};

/// The calls that a run needs. Paths are the library's.
pub(crate) trait Subject: Sync {
    /// The daemons of the run.
    fn iods(&self) -> Result<Vec<Iod>>;
    /// Free bytes.
    fn available(&self) -> Result<u64>;
    /// Lets one daemon measure its disk.
    fn measure_disk(&self, iod: IodId, load: &MeasureDisk) -> Result<DiskRates>;
    fn open(&self, path: &str, options: &OpenOptions) -> Result<Box<dyn OpenedFile>>;
    /// Creates a directory of mode 0700.
    fn mkdir(&self, path: &str) -> Result<()>;
    /// Creates an empty file.
    fn touch(&self, path: &str) -> Result<()>;
    /// The length of a file in bytes.
    fn lstat(&self, path: &str) -> Result<u64>;
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    fn chmod(&self, path: &str, mode: u32) -> Result<()>;
    fn sync_directory(&self, path: &str) -> Result<()>;
    fn unlink(&self, path: &str) -> Result<()>;
    fn rmdir(&self, path: &str) -> Result<()>;
    /// Names in a directory, and which of them are directories.
    fn list(&self, path: &str) -> Result<Vec<(String, bool)>>;
}

/// An open file, or a view of it.
pub(crate) trait OpenedFile: Send + Sync {
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize>;
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize>;
    /// Writes together with all tasks of the group.
    fn write_all_at(&self, group: &ThreadGroup, bytes: &[u8], at: u64) -> Result<usize>;
    fn read_all_at(&self, group: &ThreadGroup, bytes: &mut [u8], at: u64) -> Result<usize>;
    fn sync(&self) -> Result<()>;
    fn size(&self) -> Result<u64>;
    fn with_view(&self, view: View) -> Result<Box<dyn OpenedFile>>;
    /// The daemons that hold its bytes, each once, ascending.
    fn iods(&self) -> Vec<IodId>;
    fn close(self: Box<Self>) -> Result<()>;
}

impl Subject for Client {
    fn iods(&self) -> Result<Vec<Iod>> {
        iods::usable(self)
    }

    fn available(&self) -> Result<u64> {
        Ok(self.statfs(FileIndex::ROOT)?.available.0)
    }

    fn measure_disk(&self, iod: IodId, load: &MeasureDisk) -> Result<DiskRates> {
        Ok(self.measure_disk(iod, load.clone())?)
    }

    fn open(&self, path: &str, options: &OpenOptions) -> Result<Box<dyn OpenedFile>> {
        Ok(Box::new(self.open(path, options)?))
    }

    fn mkdir(&self, path: &str) -> Result<()> {
        Ok(self.mkdir(path, 0o700).map(drop)?)
    }

    fn touch(&self, path: &str) -> Result<()> {
        Ok(self.touch(path, 0o600, true, LayoutHint::none()).map(drop)?)
    }

    fn lstat(&self, path: &str) -> Result<u64> {
        Ok(self.lstat(path)?.bytes.0)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Ok(self.rename(from, to, RenameMode::NoReplace)?)
    }

    fn chmod(&self, path: &str, mode: u32) -> Result<()> {
        Ok(self.chmod(path, mode).map(drop)?)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        Ok(self.sync_directory(path)?)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        Ok(self.unlink(path)?)
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        Ok(self.rmdir(path)?)
    }

    fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        let mut found = Vec::new();
        for entry in self.read_dir(path, false)? {
            let entry = entry?;
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            found.push((name, entry.kind == FileKind::Directory));
        }
        Ok(found)
    }
}

impl OpenedFile for File {
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize> {
        Ok(self.write_at(bytes, at)?)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize> {
        Ok(self.read_at(bytes, at)?)
    }

    fn write_all_at(&self, group: &ThreadGroup, bytes: &[u8], at: u64) -> Result<usize> {
        Ok(self.write_all_at(group, bytes, at)?)
    }

    fn read_all_at(&self, group: &ThreadGroup, bytes: &mut [u8], at: u64) -> Result<usize> {
        Ok(self.read_all_at(group, bytes, at)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.sync().map(drop)?)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.size()?)
    }

    fn with_view(&self, view: View) -> Result<Box<dyn OpenedFile>> {
        Ok(Box::new(self.with_view(view)?))
    }

    fn iods(&self) -> Vec<IodId> {
        let layout = self.layout();
        let mut iods: Vec<IodId> =
            layout.placements().flat_map(|(_, place)| place.iods.iter().copied()).collect();
        iods.sort_unstable();
        iods.dedup();
        iods
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok((*self).close()?)
    }
}
