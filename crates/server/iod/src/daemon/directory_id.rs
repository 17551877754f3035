//! Random bytes that identify this object directory, so that no other one can claim its daemon's
//! id.
//!
//! The file `DIR/directory-id` has 32 hexadecimal digits and a newline. It is created once, is
//! durable before the metadata server first sees it, and never changes.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::Path,
};

use braid_net::random_bytes;

const FILE: &str = "directory-id";

pub(super) fn read_or_make(dir: &Path) -> io::Result<[u8; 16]> {
    let path = dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text).ok_or_else(|| {
            let why = format!(
                "{} is damaged: it must be 32 hexadecimal digits; try: restore it",
                path.display()
            );
            io::Error::new(ErrorKind::InvalidData, why)
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => make(dir),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display())))
        }
    }
}

fn make(dir: &Path) -> io::Result<[u8; 16]> {
    let id = random_bytes();
    let temporary = dir.join(format!("{FILE}.new"));
    let write = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(format(&id).as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, dir.join(FILE))?;
        sync_directory(dir)
    };
    write().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", dir.join(FILE).display()))
    })?;
    Ok(id)
}

#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(()) // NTFS journals its names
}

pub(crate) fn format(id: &[u8; 16]) -> String {
    let mut text = id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    });
    text.push('\n');
    text
}

pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim_end().as_bytes();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u128::from_str_radix(text.trim_end(), 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_directory_lasts_and_is_its_own() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = read_or_make(here.path()).unwrap();
        assert_eq!(read_or_make(here.path()).unwrap(), id);
        assert_ne!(read_or_make(there.path()).unwrap(), id);
    }

    #[test]
    fn a_damaged_id_is_refused_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "12").unwrap();
        let why = read_or_make(dir.path()).unwrap_err().to_string();
        assert!(why.contains("damaged"), "{why}");
        assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), "12");
    }
}
