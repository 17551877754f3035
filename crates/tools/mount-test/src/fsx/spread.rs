//! The layout of the file: on BraidFS in short stripes over several I/O daemons, so that operations
//! and pages cross them.
//!
//! ```text
//!   file     0        16 KiB     32 KiB     48 KiB     64 KiB …          of 256 KiB: four rounds
//!            ├─ iod a ─┼─ iod b ─┼─ iod c ─┼─ iod d ─┼─ iod a ─ …
//! ```

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    fs::{XattrFlags, getxattr, setxattr},
    io::Errno,
};

/// Number of I/O daemons of the file.
pub const DAEMONS: usize = 4;

/// The layout of a directory or file, which only BraidFS has.
const ATTRIBUTE: &str = "user.braid.layout";
/// Shorter than most operations, and several pages long.
const STRIPE_BYTES: u64 = 16 << 10;
/// Maximum length of a layout as text.
const WORDS_BYTES_MAX: usize = 4 << 10;

/// Gives new files of this directory the layout, if it is on BraidFS.
pub fn prepare(dir: &Path) -> Result<()> {
    if words(dir)?.is_none() {
        return Ok(());
    }
    let layout = format!("stripe-size={STRIPE_BYTES} iod-count={DAEMONS}");
    setxattr(dir, ATTRIBUTE, layout.as_bytes(), XattrFlags::empty())
        .with_context(|| format!("setting {ATTRIBUTE} of {} to {layout}", dir.display()))
}

/// The number of daemons of this file; an error on BraidFS when they are not [`DAEMONS`] in short
/// stripes.
pub fn daemons(file: &Path) -> Result<Option<usize>> {
    let Some(words) = words(file)? else { return Ok(None) };
    let value =
        |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let daemons = value("iods").map_or(0, |iods| iods.split(',').collect::<BTreeSet<_>>().len());
    ensure!(
        daemons == DAEMONS && value("stripe-size") == Some(&STRIPE_BYTES.to_string()),
        "{} is laid out as {words}, not over {DAEMONS} daemons in stripes of {STRIPE_BYTES} bytes",
        file.display()
    );
    Ok(Some(daemons))
}

/// The layout as text; `None` on other file systems.
fn words(path: &Path) -> Result<Option<String>> {
    let mut words = vec![0; WORDS_BYTES_MAX];
    match getxattr(path, ATTRIBUTE, &mut words[..]) {
        Ok(length) => Ok(Some(String::from_utf8(words[..length].to_vec())?)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => bail!("reading {ATTRIBUTE} of {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_system_has_no_daemons() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).unwrap();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert_eq!(daemons(&dir.path().join("file")).unwrap(), None);
    }

    #[test]
    fn a_file_on_one_daemon_or_in_long_stripes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let lies = |words: &str| {
            let set = setxattr(&file, ATTRIBUTE, words.as_bytes(), XattrFlags::empty());
            set.ok().map(|()| daemons(&file).ok().flatten())
        };
        let Some(good) = lies(
            "distribution=simple-stripe stripe-size=16384 iod-count=4 first-part=0 iods=4,1,2,3",
        ) else {
            println!("skipped: no user attributes in {}", dir.path().display());
            return;
        };
        assert_eq!(good, Some(4));
        assert_eq!(
            lies("distribution=simple-stripe stripe-size=16384 iod-count=1 first-part=0 iods=4"),
            Some(None)
        );
        assert_eq!(
            lies("distribution=simple-stripe stripe-size=1048576 iod-count=4 iods=4,1,2,3"),
            Some(None)
        );
    }
}
