//! Identifiers. Each is a newtype: a file index cannot be passed where a session is expected.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A shard of the namespace. Every namespace key begins with one. The cluster map lists the
    /// metadata server that owns each.
    ShardId(u16)
}
id! {
    /// The number of a part within its file, from 0. It is not an I/O daemon: a file may have more
    /// parts than there are daemons, and a part may move.
    PartIndex(u16)
}
id! {
    /// The incarnation of a part that an object holds. Rises when the part moves or is rebuilt.
    ObjectGeneration(u32)
}
id! {
    /// Rises with every truncate or punch of a file. I/O daemons refuse capabilities of an older
    /// generation (I5).
    SizeGeneration(u64)
}
id! {
    /// Rises with every change of a file's layout.
    LayoutVersion(u32)
}
id! {
    /// The stable id of an I/O daemon, assigned by the metadata server at its first registration.
    /// Never 0.
    IodId(u32)
}
id! {
    /// A client's session with the metadata server. Never 0, never reused in a cluster.
    SessionId(u64)
}
id! {
    /// Rises with every start of the metadata server.
    MdsEpoch(u64)
}
id! {
    /// Rises with every change of the cluster map.
    MapEpoch(u64)
}
id! {
    /// Names a key. 0 is the server key.
    KeyId(u64)
}
id! {
    /// Changes when data that an I/O daemon acknowledged without a flush may have been lost (I6).
    WriteVerifier(u64)
}

/// The file index of a file: 16 bits of shard, 48 bits of counter. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileIndex(pub u64);

impl FileIndex {
    /// The root directory: shard 0, counter 1.
    pub const ROOT: Self = Self(1);
    /// Upper bound (exclusive) of counters.
    pub const COUNTER_END: u64 = 1 << 48;

    /// The index with this shard and counter; `None` when the counter does not fit 48 bits or is 0.
    pub fn new(shard: ShardId, counter: u64) -> Option<Self> {
        (counter != 0 && counter < Self::COUNTER_END)
            .then(|| Self(u64::from(shard.0) << 48 | counter))
    }

    /// The shard that owns the file.
    pub fn shard(self) -> ShardId {
        ShardId((self.0 >> 48) as u16)
    }

    /// The counter within the shard.
    pub fn counter(self) -> u64 {
        self.0 & (Self::COUNTER_END - 1)
    }
}

impl fmt::Display for FileIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for FileIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileIndex({:x})", self.0)
    }
}

/// The id of an object: one part of one file on one I/O daemon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId {
    /// The file that the object belongs to.
    pub file: FileIndex,
    /// The part of the file that it holds.
    pub part: PartIndex,
    /// The incarnation of that part.
    pub generation: ObjectGeneration,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.file, self.part, self.generation)
    }
}

/// The id of a cluster. `braid init` draws it at random; every directory of the cluster stores it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterUuid(pub [u8; 16]);

impl fmt::Display for ClusterUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClusterUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterUuid({self})")
    }
}

impl std::str::FromStr for ClusterUuid {
    type Err = &'static str;

    /// Parses 32 hexadecimal digits, with or without hyphens.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANT: &str = "a cluster UUID is 32 hexadecimal digits";
        let mut digits = text.bytes().filter(|b| *b != b'-');
        let mut uuid = [0; 16];
        for byte in &mut uuid {
            let mut nibble = || digits.next().and_then(|d| char::from(d).to_digit(16)).ok_or(WANT);
            *byte = (nibble()? << 4 | nibble()?) as u8;
        }
        if digits.next().is_some() { Err(WANT) } else { Ok(Self(uuid)) }
    }
}

/// The id of a connection to a server, used as long as the server may still work for it. Both ends
/// derive it from their handshake, so it is known before the first call and no message carries it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionId(pub [u8; 16]);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_index_keeps_shard_and_counter_apart() {
        let index = FileIndex::new(ShardId(0xffff), FileIndex::COUNTER_END - 1).unwrap();
        assert_eq!((index.shard(), index.counter()), (ShardId(0xffff), FileIndex::COUNTER_END - 1));
        assert_eq!(FileIndex::new(ShardId(0), FileIndex::COUNTER_END), None);
        assert_eq!(FileIndex::new(ShardId(0), 0), None);
        assert_eq!(FileIndex::new(ShardId(0), 1), Some(FileIndex::ROOT));
    }

    #[test]
    fn uuid_survives_text() {
        let uuid = ClusterUuid(*b"0123456789abcdef");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        assert!("12".parse::<ClusterUuid>().is_err());
        assert!(format!("{uuid}0").parse::<ClusterUuid>().is_err());
    }
}
