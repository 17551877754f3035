//! `nfs.toml` in the pool's metadata directory: what an NFS server must still know after a restart,
//! besides its files.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

/// No valid file is longer.
const BYTES_MAX: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    /// 64 hexadecimal digits. Anybody with it can forge file handles.
    handle_key: String,
    /// Rises with each start.
    start: u64,
}

/// The identity of one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartIdentity {
    pub(crate) handle_key: [u8; 32],
    /// No other start has had it.
    pub(crate) start: u64,
}

impl StartIdentity {
    /// Reads the identity of the earlier start, and writes that of this one, durably. A damaged
    /// file is replaced: then all handles of clients are invalid.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn next(path: &Path) -> io::Result<Self> {
        let earlier = read(path);
        let handle_key = match &earlier {
            Some(earlier) => earlier.handle_key,
            None => random_key()?,
        };
        // Seconds: also if the file was lost, no start gets the number of an earlier one.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(1, |since| since.as_secs());
        let start = earlier.map_or(now, |earlier| now.max(earlier.start + 1));
        let next = Self { handle_key, start };
        next.write(path)?;
        Ok(next)
    }

    fn write(self, path: &Path) -> io::Result<()> {
        let digits = self.handle_key.iter().map(|byte| format!("{byte:02x}")).collect();
        let stored = Stored { format: 1, handle_key: digits, start: self.start };
        let text = toml::to_string(&stored).map_err(io::Error::other)?;
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

fn read(path: &Path) -> Option<StartIdentity> {
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read.ok()?,
    };
    let parsed = toml::from_str::<Stored>(&text).ok().and_then(|stored| {
        let handle_key = key_of(&stored.handle_key)?;
        (stored.format == 1).then_some(StartIdentity { handle_key, start: stored.start })
    });
    if parsed.is_none() {
        tracing::warn!(path = %path.display(), "damaged: handles of NFS clients are invalid");
    }
    parsed
}

fn key_of(digits: &str) -> Option<[u8; 32]> {
    let bytes: &[u8; 64] = digits.as_bytes().try_into().ok()?;
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

fn random_key() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_start_has_the_key_of_the_earlier_one_and_another_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nfs.toml");
        let first = StartIdentity::next(&path).unwrap();
        let second = StartIdentity::next(&path).unwrap();
        assert_eq!(first.handle_key, second.handle_key);
        assert!(second.start > first.start);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "damaged").unwrap();
        let third = StartIdentity::next(&path).unwrap();
        assert_ne!(third.handle_key, first.handle_key);
    }
}
