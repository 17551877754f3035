//! A stream that is open, and its bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_share::{
    Attributes, ByteCount, Deny, Error, FileIndex, Identity, OpenMode, OpenTarget, ReadResult,
    Result, Rights, ShareClient, ShareFile, Status, Verifier, WriteResult, XATTR_VALUE_BYTES_MAX,
    XattrMode,
};
use bytes::Bytes;

use super::name::StreamName;

/// Most bytes of a stream: those of an extended attribute, without the one that is appended.
pub const STREAM_BYTES_MAX: usize = XATTR_VALUE_BYTES_MAX - 1;
/// A stream takes disk space in units of 8 bytes, as a short one in NTFS.
const UNIT_BYTES: u64 = 8;
/// Streams have no verifier: the metadata server's log has what is acknowledged (I6).
const VERIFIER: Verifier = Verifier([0; 8]);

/// A stream that all its opens of this gateway share.
#[derive(Debug)]
pub struct SharedStream {
    name: Mutex<StreamName>,
    /// Held from reading the extended attribute to writing it (invariant 1 of the module above).
    pub changing: tokio::sync::Mutex<()>,
}

impl SharedStream {
    /// A stream with this name.
    pub fn new(name: StreamName) -> Self {
        Self { name: Mutex::new(name), changing: tokio::sync::Mutex::default() }
    }

    /// Its name.
    pub fn name(&self) -> StreamName {
        self.lock_name().clone()
    }

    /// Gives it another name.
    pub fn set_name(&self, name: StreamName) {
        *self.lock_name() = name;
    }

    fn lock_name(&self) -> MutexGuard<'_, StreamName> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user, with the rights that an open was granted: the file system does not check them again.
pub fn granted(who: &Identity) -> Identity {
    Identity { checked: true, ..who.clone() }
}

/// The bytes of a stream, for one open. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StreamFile<C> {
    client: C,
    who: Identity,
    file: FileIndex,
    stream: Arc<SharedStream>,
}

impl<C: ShareClient> StreamFile<C> {
    /// The bytes of a stream of a file, for a user who may open it.
    pub fn new(client: C, who: &Identity, file: FileIndex, stream: Arc<SharedStream>) -> Self {
        Self { client, who: granted(who), file, stream }
    }

    /// The file.
    pub fn index(&self) -> FileIndex {
        self.file
    }

    /// Whether both are opens of one stream.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream)
    }

    /// Reads up to `bytes` at `offset`.
    pub async fn read(&self, offset: u64, bytes: u32) -> Result<ReadResult> {
        let data = {
            let _changing = self.stream.changing.lock().await;
            Bytes::from(self.load().await?)
        };
        let size = data.len() as u64;
        let (start, end) = (offset.min(size), offset.saturating_add(bytes.into()).min(size));
        Ok(ReadResult { data: data.slice(start as usize..end as usize), end: end == size })
    }

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// `TooLarge` if the stream would have more than [`STREAM_BYTES_MAX`] bytes; then nothing is
    /// written.
    pub async fn write(&self, offset: u64, data: Bytes, durable: bool) -> Result<WriteResult> {
        let end = end_of(offset, data.len() as u64)?;
        self.change(|stream| {
            stream.resize(stream.len().max(end), 0);
            stream[end - data.len()..end].copy_from_slice(&data);
        })
        .await?;
        if durable {
            self.commit().await?;
        }
        // No later commit would find a loss.
        Ok(WriteResult { bytes: data.len() as u64, durable: true, verifier: VERIFIER })
    }

    /// Truncates or extends the stream.
    ///
    /// # Errors
    /// As [`StreamFile::write`].
    pub async fn set_len(&self, bytes: u64) -> Result<()> {
        let bytes = end_of(bytes, 0)?;
        self.change(|stream| stream.resize(bytes, 0)).await
    }

    /// Makes a range read as zeros; the size does not change.
    pub async fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.change(|stream| {
            let size = stream.len() as u64;
            let (start, end) = (offset.min(size), offset.saturating_add(bytes).min(size));
            stream[start as usize..end as usize].fill(0);
        })
        .await
    }

    /// The attributes of the file, with the size of the stream.
    pub async fn attributes(&self) -> Result<Attributes> {
        let known = self.client.attributes(&self.who, self.file).await?;
        Ok(with_size(known, self.size().await?))
    }

    /// Bytes of the stream.
    pub async fn size(&self) -> Result<u64> {
        let _changing = self.stream.changing.lock().await;
        Ok(self.load().await?.len() as u64)
    }

    /// Makes everything durable that was written.
    pub async fn commit(&self) -> Result<Verifier> {
        match self.client.sync_directory(self.file).await {
            // On a cluster the log has all attributes. On a union each file has its own.
            Err(error) if error.status() == Status::NotDirectory => self.commit_file().await?,
            synced => synced?,
        }
        Ok(VERIFIER)
    }

    async fn commit_file(&self) -> Result<()> {
        let (target, none) = (OpenTarget::File(self.file), Deny::NONE);
        let mode = OpenMode { rights: Rights::READ, deny: none };
        let file = self.client.open(&self.who, target, mode).await?.file;
        let committed = file.commit().await.map(drop);
        committed.and(file.close().await)
    }

    async fn change(&self, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let _changing = self.stream.changing.lock().await;
        let mut data = self.load().await?;
        change(&mut data);
        data.push(0);
        let name = self.stream.name().attribute();
        // A stream that was removed meanwhile does not come back.
        self.client
            .set_xattr(&self.who, self.file, &name, &data, XattrMode::Replace)
            .await
            .map_err(too_large)
    }

    /// The bytes. The lock is held.
    async fn load(&self) -> Result<Vec<u8>> {
        let name = self.stream.name().attribute();
        let value = self.client.xattr(&self.who, self.file, &name).await.map_err(gone)?;
        bytes_of(value)
    }
}

/// Attributes of a file, with the size of a stream of it.
pub fn with_size(known: Attributes, bytes: u64) -> Attributes {
    let used = bytes.next_multiple_of(UNIT_BYTES);
    Attributes { bytes: ByteCount(bytes), bytes_used: ByteCount(used), ..known }
}

/// The bytes of a stream whose extended attribute has this value.
///
/// # Errors
/// `Unsupported` for a stream that Samba has spread over several attributes.
pub fn bytes_of(mut value: Vec<u8>) -> Result<Vec<u8>> {
    match value.pop() {
        None | Some(0) => Ok(value),
        Some(_) => Err(Error::new(Status::Unsupported, "a stream of several attributes")),
    }
}

fn end_of(offset: u64, bytes: u64) -> Result<usize> {
    let end = offset.checked_add(bytes).and_then(|end| usize::try_from(end).ok());
    end.filter(|end| *end <= STREAM_BYTES_MAX)
        .ok_or_else(|| Error::new(Status::TooLarge, "a stream has at most 65,535 bytes"))
}

/// A local file system may have a smaller limit, ext4 for example 4 KiB for all attributes.
pub fn too_large(error: Error) -> Error {
    match error.status() {
        Status::LimitExceeded | Status::Range => Error::new(Status::TooLarge, error.to_string()),
        _ => gone(error),
    }
}

/// The stream was removed by others while it was open.
fn gone(error: Error) -> Error {
    match error.status() {
        Status::NoAttribute => Error::new(Status::StaleHandle, "the stream was removed"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_of_the_value_is_not_one_of_the_stream() {
        assert_eq!(bytes_of(b"abc\0".to_vec()).unwrap(), b"abc");
        assert_eq!(bytes_of(b"\0".to_vec()).unwrap(), b"");
        assert_eq!(bytes_of(Vec::new()).unwrap(), b"", "no value of Samba, but no reason to fail");
        assert_eq!(bytes_of(b"abc\x01".to_vec()).unwrap_err().status(), Status::Unsupported);
    }

    #[test]
    fn a_stream_ends_where_an_extended_attribute_does() {
        assert_eq!(end_of(0, STREAM_BYTES_MAX as u64).unwrap(), STREAM_BYTES_MAX);
        for (offset, bytes) in [(1, STREAM_BYTES_MAX as u64), (u64::MAX, 1), (1 << 40, 0)] {
            assert_eq!(end_of(offset, bytes).unwrap_err().status(), Status::TooLarge);
        }
    }
}
