//! Files with keys or passwords, which nobody else may read.

use std::{fs::File, io::ErrorKind, path::Path};

use crate::output::Fault;

/// Checks that a file exists, can be read, and is of mode 0600 or stricter. `doing` begins the
/// message; `missing` is what to try if the file does not exist.
pub fn check(path: &Path, doing: &str, missing: &str) -> Result<(), Fault> {
    let shown = path.display();
    let fault = |why: String| Fault::usage(doing, format!("{shown}: {why}"));
    let file = File::open(path).map_err(|why| {
        let fault = fault(why.to_string());
        match why.kind() {
            ErrorKind::NotFound => fault.hint(missing),
            ErrorKind::PermissionDenied => fault.hint("as root, or chown the file to this user"),
            _ => fault,
        }
    })?;
    check_open(&file, path, doing)
}

/// The same for a file that is open: what is read through it is what was checked.
pub fn check_open(file: &File, path: &Path, doing: &str) -> Result<(), Fault> {
    let shown = path.display();
    let fault = |why: String| Fault::usage(doing, format!("{shown}: {why}"));
    let found = file.metadata().map_err(|why| fault(why.to_string()))?;
    if !found.is_file() {
        return Err(fault("it is no file".to_owned()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = found.mode() & 0o7777;
        if mode & 0o077 != 0 {
            let why = format!("its mode is {mode:04o}: others can read or change the keys in it");
            return Err(fault(why).hint(format!("chmod 600 {shown}")));
        }
    }
    Ok(())
}
