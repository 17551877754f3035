//! Mistakes of a client that end its connection.

/// Why a connection is ended. Each one cites its rule of MS-SMB2.
#[derive(Debug, thiserror::Error)]
pub enum Disconnect {
    /// 3.3.5.2.
    #[error("{0}")]
    Malformed(#[from] braid_smb_wire::Malformed),
    /// 3.3.5.2: only requests.
    #[error("it sent a response")]
    Response,
    /// 3.3.5.2.3.
    #[error("it used message number {0}, which was not granted or was used before")]
    Sequence(u64),
    /// 3.3.5.2: NEGOTIATE comes first, and once.
    #[error("it did not negotiate, or did it twice")]
    Negotiate,
    /// 3.3.5.2.1.1.
    #[error("it sent a message that cannot be decrypted")]
    Decryption,
    /// 3.3.5.3.
    #[error("it speaks only SMB 1")]
    Smb1,
    /// 3.3.5.7.
    #[error("its TREE_CONNECT is neither signed nor encrypted")]
    TreeConnect,
}
