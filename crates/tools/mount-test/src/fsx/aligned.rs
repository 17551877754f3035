//! Memory for O_DIRECT: it begins at a page boundary.

use crate::mapping::PAGE;

/// A buffer of `length` bytes that begins at a page boundary.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// Zeros.
    pub fn new(length: u64) -> Self {
        let memory = vec![0; (length + PAGE) as usize];
        let start = memory.as_ptr().align_offset(PAGE as usize);
        Self { memory, start, length: length as usize }
    }

    /// A copy of these bytes.
    pub fn holding(bytes: &[u8]) -> Self {
        let mut aligned = Self::new(bytes.len() as u64);
        aligned.bytes_mut().copy_from_slice(bytes);
        aligned
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
