//! Files of the data rows. They are written once before the measurement, so that the allocation of
//! disk blocks is not measured, and their content identifies its place.

use braid_client::{IodId, OpenOptions};

use crate::{
    bench::Bench,
    content::{BLOCK_BYTES_MAX, Content},
    error::{BenchError, Result},
    pace::PacedFile,
};

/// Size of one request when files are filled.
const FILL_BYTES: usize = 4 << 20;
/// Bytes of each file that are compared after it was written to, and in how many places.
const CHECK_BYTES: usize = 256 << 10;
const CHECK_PLACES: u64 = 4;

/// The kind of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// One file for all tasks, or one for each.
    pub(crate) shared: bool,
    pub(crate) tasks: u32,
    /// Bytes of a stamped block.
    pub(crate) block: usize,
    /// Number of daemons of each file; `None`: the directory's default.
    pub(crate) iods: Option<u16>,
    pub(crate) stripe: Option<u64>,
}

impl Shape {
    /// Shapes with the same key use the same files: the number of tasks of a shared file does not
    /// matter.
    fn key(&self) -> Self {
        Self { tasks: if self.shared { 1 } else { self.tasks }, ..*self }
    }
}

/// A file as one task has it open.
pub(crate) struct TaskFile {
    pub(crate) file: PacedFile,
    pub(crate) path: String,
    pub(crate) content: Content,
    pub(crate) bytes: u64,
}

/// The existing files. Those of the last shapes are reused, as far as the share of the free space
/// allows.
pub(crate) struct Files<'b> {
    bench: &'b Bench<'b>,
    made: Vec<(Shape, Vec<String>)>,
    number: u64,
}

impl<'b> Files<'b> {
    pub(crate) fn new(bench: &'b Bench<'b>) -> Self {
        Self { bench, made: Vec::new(), number: 0 }
    }

    /// The files of this shape, one for each task.
    pub(crate) fn of(&mut self, shape: Shape) -> Result<Vec<TaskFile>> {
        let alike = |made: &Shape| made.key() == shape.key();
        let place = match self.made.iter().position(|(made, _)| alike(made)) {
            Some(place) => place,
            None => self.make(shape)?,
        };
        let (_, paths) = &self.made[place];
        let bytes = self.bytes(shape);
        let open = |task: usize| {
            let path = &paths[task % paths.len()];
            let file = self.bench.client.open(path, &OpenOptions::new().read(true).write(true))?;
            let content = Content::new(seed_of(path), shape.block);
            Ok(TaskFile { file, path: path.clone(), content, bytes })
        };
        (0..shape.tasks as usize).map(open).collect()
    }

    /// Size of each file: whole blocks, and all files together within a row's limit.
    fn bytes(&self, shape: Shape) -> u64 {
        let count = if shape.shared { 1 } else { u64::from(shape.tasks) };
        self.bench.bytes / count / BLOCK_BYTES_MAX as u64 * BLOCK_BYTES_MAX as u64
    }

    /// Creates them; returns their position in the list.
    fn make(&mut self, shape: Shape) -> Result<usize> {
        // The share of the free space allows two sets at a time.
        if self.made.len() == 2 {
            let (_, paths) = self.made.remove(0);
            for path in paths {
                self.bench.client.unlink(&path)?;
            }
        }
        let count = if shape.shared { 1 } else { shape.tasks };
        let paths: Vec<String> = (0..count)
            .map(|_| {
                self.number += 1;
                self.bench.scratch.path(format!("data-{}", self.number))
            })
            .collect();
        // Before they are filled: an incomplete set is removed with the directory.
        self.made.push((shape, paths.clone()));
        for path in &paths {
            self.fill(path, shape)?;
        }
        Ok(self.made.len() - 1)
    }

    fn fill(&self, path: &str, shape: Shape) -> Result<()> {
        let mut options = OpenOptions::new().write(true).create_new(true);
        if let Some(count) = shape.iods {
            options = options.iod_count(count).first_iod(0);
        }
        if let Some(bytes) = shape.stripe {
            options = options.stripe_size(bytes);
        }
        let file = self.bench.client.create(path, &options)?;
        let content = Content::new(seed_of(path), shape.block);
        let mut buffer = content.buffer(FILL_BYTES);
        let (mut at, end) = (0, self.bytes(shape));
        while at < end {
            self.bench.check_stop()?;
            let bytes = (end - at).min(FILL_BYTES as u64) as usize;
            content.stamp(&mut buffer[..bytes], |block| at + (block * content.block()) as u64);
            file.write_at(&buffer[..bytes], at)?;
            at += bytes as u64;
        }
        // Pending write-back would slow down the first row.
        file.sync()?;
        file.close()
    }
}

impl TaskFile {
    /// Compares parts of the file with the expected content, byte for byte.
    pub(crate) fn check(&self) -> Result<()> {
        let block = self.content.block() as u64;
        let window = (CHECK_BYTES as u64).min(self.bytes) / block * block;
        let mut buffer = vec![0; window as usize];
        for place in 0..CHECK_PLACES {
            let at = (self.bytes - window) / (CHECK_PLACES - 1) * place / block * block;
            let bytes = self.file.read_at(&mut buffer, at)?;
            let offset = |number: usize| at + number as u64 * block;
            let wrong = self.content.find_wrong_block(&buffer[..bytes], offset);
            let end = (bytes < buffer.len()).then_some(at + bytes as u64);
            if let Some(offset) = wrong.or(end) {
                return Err(self.wrong(offset));
            }
        }
        Ok(())
    }

    /// The error for wrong content at an offset.
    pub(crate) fn wrong(&self, offset: u64) -> BenchError {
        BenchError::WrongData { file: self.path.clone(), offset }
    }
}

/// The daemons that hold the files.
pub(crate) fn iods_of(files: &[TaskFile]) -> Vec<IodId> {
    let mut iods: Vec<IodId> = files.iter().flat_map(|file| file.file.iods()).collect();
    iods.sort_unstable();
    iods.dedup();
    iods
}

fn seed_of(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
