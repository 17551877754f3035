//! Key files: one key each, readable only by its owner.
//!
//! ```text
//!   braid-key-v1
//!   id = 7                 0 is the server key
//!   name = node12
//!   admin = true           only when the key may act as administrator
//!   secret = 64 hexadecimal digits
//! ```
//!
//! Invariants:
//! 1. The file has mode 0600 or stricter. Otherwise it is refused: others may have read the key.
//! 2. A line that is not understood is refused (I10).
//! 3. The file is written completely or not at all.
//!
//! These are checks, not assertions, since anyone may write the file: `check_mode` (1) and `parse`
//! (2). The hard link makes a complete file visible (3).

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use braid_types::{KeyId, Status};
use braid_wire::{KEY_BYTES, Secret};

use crate::{
    config::Credential,
    error::{Error, Result},
};

const HEADER: &str = "braid-key-v1";
/// A key file has a few lines. A larger file is something else and is not read into memory (I9).
const FILE_BYTES_MAX: u64 = 4096;

/// The content of a key file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFile {
    /// The id of the key; 0 is the server key.
    pub id: KeyId,
    /// Its name. One line.
    pub name: String,
    /// Whether it is used as an administrator's key.
    pub admin: bool,
    /// The key.
    pub secret: Secret,
}

impl KeyFile {
    /// Reads a key file.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it is not a key file. The error names the path.
    pub fn load(path: &Path) -> Result<Self> {
        Self::load_checked(path).map_err(|error| error.during("load key", path.display()))
    }

    fn load_checked(path: &Path) -> Result<Self> {
        let meta = fs::metadata(path).map_err(from_io)?;
        check_mode(path, &meta)?;
        if meta.len() > FILE_BYTES_MAX {
            return Err(not_a_key("it is too long"));
        }
        Self::parse(&fs::read_to_string(path).map_err(from_io)?)
    }

    /// Parses the text of a key file.
    ///
    /// # Errors
    /// It is not a key file; the error names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if lines.next() != Some(HEADER) {
            return Err(not_a_key("its first line is not braid-key-v1"));
        }
        let (mut id, mut name, mut admin, mut secret) = (None, String::new(), false, None);
        for line in lines {
            let (key, value) =
                line.split_once('=').ok_or_else(|| not_a_key("a line is not `keyword = value`"))?;
            let value = value.trim();
            match key.trim() {
                "id" => {
                    id =
                        Some(KeyId(value.parse().map_err(|_| not_a_key("its id is not a number"))?))
                }
                "name" => name = value.to_owned(),
                "admin" => {
                    admin = value
                        .parse()
                        .map_err(|_| not_a_key("its admin is neither true nor false"))?
                }
                "secret" => {
                    secret = Some(
                        from_hex(value)
                            .ok_or_else(|| not_a_key("its secret is not 64 hex digits"))?,
                    )
                }
                _ => return Err(not_a_key("it has an unknown keyword")),
            }
        }
        let id = id.ok_or_else(|| not_a_key("it has no id"))?;
        let secret = secret.ok_or_else(|| not_a_key("it has no secret"))?;
        Ok(Self { id, name, admin, secret })
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let name: String = self.name.chars().filter(|c| !c.is_control()).collect();
        let admin = if self.admin { "admin = true\n" } else { "" };
        let secret: String =
            self.secret.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{HEADER}\nid = {}\nname = {name}\n{admin}secret = {secret}\n", self.id)
    }

    /// Writes the file with mode 0600. An existing file is never replaced: it may be the only copy.
    ///
    /// # Errors
    /// [`Status::Exists`], or an error of the local file system.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.save_whole(path).map_err(|error| error.during("write key", path.display()))
    }

    fn save_whole(&self, path: &Path) -> Result<()> {
        let scratch = scratch_path(path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&scratch).and_then(|mut file| {
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()
        });
        // A hard link fails if the name exists; a rename would replace it.
        let linked = written.and_then(|()| fs::hard_link(&scratch, path));
        let removed = fs::remove_file(&scratch);
        linked.and(removed).map_err(from_io)
    }

    /// The credential for a [`crate::Config`].
    pub fn into_credential(self) -> Credential {
        match (self.id, self.admin) {
            (KeyId(0), _) => Credential::ServerKey(self.secret),
            (id, true) => Credential::AdminKey { id, secret: self.secret },
            (id, false) => Credential::Key { id, secret: self.secret },
        }
    }
}

fn scratch_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

fn from_hex(text: &str) -> Option<Secret> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair.get(1).copied().unwrap_or(0)) as u8)
        .collect();
    (text.len() == 2 * KEY_BYTES).then(|| bytes.try_into().ok().map(Secret::from_bytes))?
}

fn not_a_key(why: &str) -> Error {
    Error::new(Status::Invalid, format!("not a key file: {why}"))
        .with_hint("braid key add NAME --out FILE")
}

fn from_io(error: std::io::Error) -> Error {
    let status = match error.kind() {
        std::io::ErrorKind::NotFound => Status::NotFound,
        std::io::ErrorKind::PermissionDenied => Status::PermissionDenied,
        std::io::ErrorKind::AlreadyExists => Status::Exists,
        _ => Status::DiskError,
    };
    Error::new(status, error.to_string()).with_hint("the path of a key file made by braid key add")
}

#[cfg(unix)]
fn check_mode(path: &Path, meta: &fs::Metadata) -> Result<()> {
    let mode = std::os::unix::fs::MetadataExt::mode(meta) & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("others may read it (mode {mode:03o})");
    Err(Error::new(Status::PermissionDenied, why)
        .with_hint(format!("chmod 600 {}", path.display())))
}

/// On other systems the administrator manages the file's access list.
#[cfg(not(unix))]
fn check_mode(_: &Path, _: &fs::Metadata) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> KeyFile {
        KeyFile {
            id: KeyId(7),
            name: "node12".into(),
            admin: false,
            secret: Secret::from_bytes([0xa5; 32]),
        }
    }

    #[test]
    fn a_key_file_survives_the_disk_and_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        key().save(&path).unwrap();
        assert_eq!(KeyFile::load(&path).unwrap(), key());
        assert_eq!(key().save(&path).unwrap_err().status(), Status::Exists);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no scratch file is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_readable_by_others_is_refused_with_the_repair_command() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        key().save(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = KeyFile::load(&path).unwrap_err();
        assert_eq!(error.status(), Status::PermissionDenied);
        assert!(
            error.to_string().ends_with(&format!("try: chmod 600 {}", path.display())),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_a_key_file_is_refused() {
        let good = key().to_text();
        assert_eq!(KeyFile::parse(&good).unwrap(), key());
        for bad in [
            String::new(),
            good.replace("v1", "v2"),
            good.replace("id = 7", "id = x"),
            good.replace("id = 7\n", ""),
            good.replace("a5a5", "a5"),
            good.replace("a5a5", "zz55"),
            good.replace("name", "nmae"),
        ] {
            assert_eq!(KeyFile::parse(&bad).unwrap_err().status(), Status::Invalid, "{bad}");
        }
    }
}
