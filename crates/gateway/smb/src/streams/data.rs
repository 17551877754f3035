//! The bytes of an open: those of a file, or of a named stream.

use braid_share::{Attributes, ReadResult, Result, Share, ShareFile, Verifier, WriteResult};

use super::shared::StreamFile;
use crate::open::FileOf;

/// Most bytes of a copy that is read and written here.
const COPY_BYTES_MAX: u64 = 1 << 20;

/// The bytes of an open. The calls are those of [`ShareFile`].
#[derive(Debug)]
pub enum OpenData<S: Share> {
    /// Of a file.
    File(FileOf<S>),
    /// Of a named stream.
    Stream(Box<StreamFile<S::Client>>),
}

impl<S: Share> OpenData<S> {
    /// Whether two opens have the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one.index() == other.index(),
            (Self::Stream(one), Self::Stream(other)) => one.is_same(other),
            _ => false,
        }
    }

    /// [`ShareFile::read`].
    pub async fn read(&self, offset: u64, bytes: u32) -> Result<ReadResult> {
        match self {
            Self::File(file) => file.read(offset, bytes).await,
            Self::Stream(stream) => stream.read(offset, bytes).await,
        }
    }

    /// [`ShareFile::read_bytes`].
    pub async fn read_bytes(&self, offset: u64, bytes: u32) -> Result<bytes::Bytes> {
        match self {
            Self::File(file) => file.read_bytes(offset, bytes).await,
            Self::Stream(stream) => Ok(stream.read(offset, bytes).await?.data),
        }
    }

    /// [`ShareFile::write`].
    pub async fn write(
        &self,
        offset: u64,
        data: bytes::Bytes,
        durable: bool,
    ) -> Result<WriteResult> {
        match self {
            Self::File(file) => file.write(offset, data, durable).await,
            Self::Stream(stream) => stream.write(offset, data, durable).await,
        }
    }

    /// [`ShareFile::commit`].
    pub async fn commit(&self) -> Result<Verifier> {
        match self {
            Self::File(file) => file.commit().await,
            Self::Stream(stream) => stream.commit().await,
        }
    }

    /// [`ShareFile::attributes`]; of a stream those of its file, with its own size.
    pub async fn attributes(&self) -> Result<Attributes> {
        match self {
            Self::File(file) => file.attributes().await,
            Self::Stream(stream) => stream.attributes().await,
        }
    }

    /// [`ShareFile::set_len`].
    pub async fn set_len(&self, bytes: u64) -> Result<()> {
        match self {
            Self::File(file) => file.set_len(bytes).await.map(drop),
            Self::Stream(stream) => stream.set_len(bytes).await,
        }
    }

    /// [`ShareFile::punch`].
    pub async fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        match self {
            Self::File(file) => file.punch(offset, bytes).await,
            Self::Stream(stream) => stream.punch(offset, bytes).await,
        }
    }

    /// [`ShareFile::next_data`]. A stream has no holes.
    pub async fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        match self {
            Self::File(file) => file.next_data(offset).await,
            Self::Stream(stream) => Ok((offset < stream.size().await?).then_some(offset)),
        }
    }

    /// [`ShareFile::next_hole`].
    pub async fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        match self {
            Self::File(file) => file.next_hole(offset).await,
            Self::Stream(stream) => {
                let size = stream.size().await?;
                Ok((offset < size).then_some(size))
            }
        }
    }

    /// [`ShareFile::copy_from`].
    pub async fn copy_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        if let (Self::File(file), Self::File(source)) = (self, source) {
            return file.copy_from(source, from, to, bytes).await;
        }
        let read = source.read(from, bytes.min(COPY_BYTES_MAX) as u32).await?;
        let copied = read.data.len() as u64;
        if copied > 0 {
            self.write(to, read.data, false).await?;
        }
        Ok(copied)
    }

    /// [`ShareFile::close`].
    pub async fn close(&self) -> Result<()> {
        match self {
            Self::File(file) => file.clone().close().await,
            Self::Stream(_) => Ok(()),
        }
    }
}
