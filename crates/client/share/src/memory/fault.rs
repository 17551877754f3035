//! The kinds of calls, to choose the one that a test lets fail.

/// A call of [`crate::ShareClient`] or [`crate::ShareFile`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each is the call of the same name")]
pub enum CallKind {
    BeginClient,
    LookUp,
    Parent,
    /// [`crate::ShareClient::attributes`].
    Attributes,
    SetAttributes,
    Access,
    ReadLink,
    List,
    MakeDirectory,
    MakeSymlink,
    MakeNode,
    Link,
    Remove,
    Rename,
    Open,
    Xattr,
    SetXattr,
    Xattrs,
    RemoveXattr,
    StatFs,
    Lock,
    LockWait,
    CancelLock,
    TestLock,
    Unlock,
    SyncDirectory,
    Read,
    Write,
    Commit,
    /// [`crate::ShareFile::attributes`].
    FileAttributes,
    SetMode,
    SetLen,
    Allocate,
    Punch,
    NextData,
    NextHole,
    CopyFrom,
    DirectAccess,
    Close,
}
