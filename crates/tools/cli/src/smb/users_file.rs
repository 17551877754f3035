//! The file with the users of an SMB gateway: one line `NAME:HASH` for each, HASH being the NT hash
//! of the password (MS-NLMP 3.3.1) in 32 hexadecimal digits. Blank lines and lines that begin with
//! `#` are ignored.
//!
//! The hash proves the password by itself, so the file is worth as much as all passwords. It is
//! refused if others can read it, and replaced as a whole: a reader sees the old or the new one.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use braid_smb_wire::auth::ntlm::NtHash;

use crate::{
    output::{Exit, Fault},
    private_file,
};

/// Where it is by default.
pub const DEFAULT: &str = "/etc/braid/smb-users";
/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Largest file, in bytes: about 10,000 users of the longest names.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What failed where a users file cannot be read.
pub const READING: &str = "reading the SMB users";
const WRITING: &str = "writing the SMB users";

/// A line of the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name as it was added.
    pub name: String,
    /// The hash of the password.
    pub hash: NtHash,
}

/// Whether two names are those of one user: case does not matter.
pub fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// Why a text cannot be a name of a user.
pub fn why_no_name(name: &str) -> Option<String> {
    let chars = name.chars().count();
    let is_bad = |char: char| char.is_control() || ":\\@".contains(char);
    if chars == 0 || chars > NAME_CHARS_MAX {
        return Some(format!("a name has 1 to {NAME_CHARS_MAX} characters"));
    }
    if name.contains(is_bad) {
        return Some("a name has no \":\", \"\\\", \"@\" and control characters".to_owned());
    }
    let ambiguous = name.starts_with('#') || name.trim() != name;
    ambiguous.then(|| "a name does not begin with # or a blank, nor end with one".to_owned())
}

/// Parses the text of a file.
///
/// # Errors
/// The number of the first wrong line, and what is wrong.
fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        // The line itself is not shown: it has a hash.
        let wrong = |why: &str| format!("line {number}: {why}");
        let (name, hash) = line.split_once(':').ok_or_else(|| wrong("it is not NAME:HASH"))?;
        if let Some(why) = why_no_name(name) {
            return Err(wrong(&why));
        }
        let hash = from_hex(hash.trim_end())
            .ok_or_else(|| wrong("the hash is not 32 hexadecimal digits"))?;
        if !seen.insert(name.to_lowercase()) {
            return Err(wrong(&format!("{name} has a line before it")));
        }
        entries.push(Entry { name: name.to_owned(), hash });
    }
    Ok(entries)
}

fn from_hex(text: &str) -> Option<NtHash> {
    let digits: Vec<u32> = text.chars().map(|char| char.to_digit(16)).collect::<Option<_>>()?;
    let digits: [u32; 32] = digits.try_into().ok()?;
    Some(NtHash(std::array::from_fn(|at| (digits[2 * at] << 4 | digits[2 * at + 1]) as u8)))
}

fn to_text(entries: &[Entry]) -> String {
    let hex = |hash: &NtHash| hash.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    entries.iter().map(|entry| format!("{}:{}\n", entry.name, hex(&entry.hash))).collect()
}

/// Reads a file. One that does not exist has no users.
///
/// # Errors
/// It cannot be read, others can read it, or a line is wrong.
pub fn read(path: &Path) -> Result<Vec<Entry>, Fault> {
    let shown = path.display();
    let fault = |why: String| Fault::usage(READING, format!("{shown}: {why}"));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(fault(error.to_string()).hint("as root, or --users with another file"));
        }
        Err(error) => return Err(fault(error.to_string())),
    };
    private_file::check_open(&file, path, READING)?;
    let mut text = String::new();
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    if bytes.map_err(|why| fault(why.to_string()))? as u64 > FILE_BYTES_MAX {
        return Err(fault(format!("it has over {FILE_BYTES_MAX} bytes")));
    }
    parse(&text).map_err(|why| {
        fault(why).hint(format!("braid smb user add NAME --users {shown}, after removing the line"))
    })
}

/// Changes a file: two changes at the same time come one after the other. `change` returns whether
/// there is something to write.
///
/// # Errors
/// As for [`read`]; `change` fails; the file cannot be written.
pub fn update(
    path: &Path,
    change: impl FnOnce(&mut Vec<Entry>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    // A symbolic link stays one.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let fault = |error: io::Error| {
        let fault = Fault::failed(WRITING, format!("{}: {error}", path.display()));
        match error.kind() {
            ErrorKind::PermissionDenied => {
                let hint = "as root, or --users with a file of your own";
                Fault { exit: Exit::Refused, ..fault }.hint(hint)
            }
            ErrorKind::NotFound => fault.hint("--users with a file in a directory that exists"),
            _ => fault,
        }
    };
    if path == Path::new(DEFAULT) {
        fs::create_dir_all(directory).map_err(fault)?;
    }
    let directory = File::open(directory).map_err(fault)?;
    // Released when `directory` is closed.
    #[cfg(unix)]
    directory.lock().map_err(fault)?;
    let mut entries = read(path)?;
    change(&mut entries)?;
    replace(path, &directory, &to_text(&entries)).map_err(fault)
}

/// Writes a file beside the old one, and renames it over that.
fn replace(path: &Path, directory: &File, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let result = write_new(path, &new, text).and_then(|()| fs::rename(&new, path));
    if result.is_err() {
        let _ = fs::remove_file(&new);
    }
    result?;
    #[cfg(unix)]
    directory.sync_all()?;
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

fn write_new(path: &Path, new: &Path, text: &str) -> io::Result<()> {
    // Left behind by a process that ended: the lock is ours.
    match fs::remove_file(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(new)?;
    #[cfg(unix)]
    if let Ok(old) = fs::metadata(path) {
        use std::os::unix::fs::MetadataExt;
        // A gateway that runs as another user must still be able to read it.
        let mine = file.metadata()?;
        if (old.uid(), old.gid()) != (mine.uid(), mine.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A file that is read again when it was changed.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    cached: Mutex<Cached>,
}

/// What was read last.
#[derive(Debug, Default)]
struct Cached {
    /// `None`: it is to be read again.
    version: Option<Version>,
    entries: Vec<Entry>,
}

/// Two versions of a file differ in this: a replaced file has another inode, and each change of its
/// contents, mode or owner another ctime.
#[cfg(unix)]
type Version = (u64, u64, i64, i64, u64);
#[cfg(not(unix))]
type Version = (std::time::SystemTime, u64);

#[cfg(unix)]
fn version(path: &Path) -> io::Result<Version> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec(), found.size()))
}

#[cfg(not(unix))]
fn version(path: &Path) -> io::Result<Version> {
    let found = fs::metadata(path)?;
    Ok((found.modified()?, found.len()))
}

impl WatchedFile {
    /// Reads a file for the first time.
    ///
    /// # Errors
    /// As for [`read`].
    pub fn open(path: PathBuf) -> Result<Self, Fault> {
        let version = version(&path).ok();
        let entries = read(&path)?;
        Ok(Self { path, cached: Mutex::new(Cached { version, entries }) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first name in the file. None if the file cannot be used now.
    pub fn first_name(&self) -> Option<String> {
        let name = self.with_entries(|entries| entries.first().map(|entry| entry.name.clone()));
        name.ok().flatten()
    }

    /// The user with this name as the file is now.
    ///
    /// # Errors
    /// As for [`read`]: the file cannot be used now.
    pub fn find(&self, name: &str) -> Result<Option<Entry>, Fault> {
        self.with_entries(|entries| entries.iter().find(|one| same_name(&one.name, name)).cloned())
    }

    fn with_entries<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> Result<T, Fault> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        // Before reading: a change after this is noticed by the next call.
        let version = version(&self.path).ok();
        if version.is_none() || version != cached.version {
            // Of a file that cannot be used, nothing is remembered.
            *cached = Cached::default();
            *cached = Cached { version, entries: read(&self.path)? };
        }
        Ok(look(&cached.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, byte: u8) -> Entry {
        Entry { name: name.to_owned(), hash: NtHash([byte; 16]) }
    }

    /// Users of a file, each with the first byte of its hash.
    fn users(path: &Path) -> Vec<(String, u8)> {
        read(path).unwrap().into_iter().map(|entry| (entry.name, entry.hash.0[0])).collect()
    }

    fn found(watched: &WatchedFile, name: &str) -> Option<(String, u8)> {
        watched.find(name).unwrap().map(|entry| (entry.name, entry.hash.0[0]))
    }

    fn user(name: &str, byte: u8) -> (String, u8) {
        (name.to_owned(), byte)
    }

    fn add(path: &Path, new: Entry) {
        update(path, |entries| {
            entries.push(new);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_written_file_is_read_with_the_same_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        assert_eq!(users(&path), [], "a file that does not exist has no users");
        add(&path, entry("alice", 0xa1));
        add(&path, entry("J\u{f6}rg", 0x02));
        assert_eq!(users(&path), [user("alice", 0xa1), user("J\u{f6}rg", 0x02)]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("alice:{}\n", "a1".repeat(16))), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn wrong_lines_are_named_without_their_hash() {
        let hash = "0123456789abcdef0123456789ABCDEF";
        let good = format!("# users\n\nalice:{hash}\r\nbob:{hash}\n");
        assert_eq!(parse(&good).unwrap().len(), 2);
        for (line, why) in [
            (hash.to_owned(), "line 5: it is not NAME:HASH"),
            (format!("carol:{}", &hash[1..]), "line 5: the hash is not 32 hexadecimal digits"),
            (format!("carol:+{}", &hash[1..]), "line 5: the hash is not 32"),
            (format!("ALICE:{hash}"), "line 5: ALICE has a line before it"),
            (format!("a@b:{hash}"), "line 5: a name has no"),
            (format!(":{hash}"), "line 5: a name has 1 to 64"),
        ] {
            let said = parse(&format!("{good}{line}")).unwrap_err();
            assert!(said.starts_with(why) && !said.contains(&hash[2..]), "{line}: {said}");
        }
    }

    #[test]
    fn names_that_would_be_ambiguous_are_refused() {
        assert_eq!(why_no_name(&"\u{e4}".repeat(64)), None);
        let long = "a".repeat(65);
        for name in ["", "a:b", "a\\b", "a@b", "a\nb", "a\0", "#a", " a", "a ", &long] {
            assert!(why_no_name(name).is_some(), "{name:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_read_are_refused() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        add(&path, entry("alice", 1));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let watched = WatchedFile::open(path.clone()).unwrap();
        assert!(watched.find("Alice").unwrap().is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let said = read(&path).unwrap_err().to_string();
        assert!(said.contains("its mode is 0640") && said.contains("try: chmod 600 "), "{said}");
        assert!(update(&path, |_| Ok(())).is_err());
        let said = watched.find("alice").unwrap_err().to_string();
        assert!(said.contains("try: chmod 600 "), "a running gateway refuses it, too: {said}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(watched.find("alice").unwrap().is_some());
    }

    #[test]
    fn a_watched_file_shows_each_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        let watched = WatchedFile::open(path.clone()).unwrap();
        assert_eq!(found(&watched, "alice"), None);
        add(&path, entry("Alice", 1));
        assert_eq!(found(&watched, "aLICE"), Some(user("Alice", 1)));
        let change = |entries: &mut Vec<Entry>| {
            entries[0].hash = NtHash([2; 16]);
            Ok(())
        };
        update(&path, change).unwrap();
        assert_eq!(found(&watched, "alice"), Some(user("Alice", 2)));
        fs::write(&path, "alice").unwrap();
        assert!(watched.find("alice").is_err(), "a wrong file has no users");
        fs::remove_file(&path).unwrap();
        add(&path, entry("bob", 3));
        assert_eq!(found(&watched, "alice"), None);
        assert_eq!(found(&watched, "bob"), Some(user("bob", 3)));
        fs::remove_file(&path).unwrap();
        assert_eq!(found(&watched, "bob"), None);
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = &dir.path().join("users");
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || add(path, entry(&format!("user{number}"), number)));
            }
        });
        assert_eq!(read(path).unwrap().len(), 8);
    }
}
