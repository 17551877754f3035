//! `braid union stripe`, `braid union sweep`, and what `braid union where` says of striped files.

use std::{fmt, path::Path};

use braid_union::{Pool, STRIPE_XATTR, StripeChoice, Union};
use rustix::{fs::XattrFlags, io::Errno};
use serde::Serialize;
use serde_json::json;

use super::union::linux::{fault, shown};
use crate::{
    args::UnionStripeArgs,
    output::{Exit, Fault, Printer, human_bytes},
};

/// Where the bytes of a striped file are.
#[derive(Debug, Serialize)]
pub struct Stripes {
    unit: u64,
    over: Vec<String>,
}

impl Stripes {
    /// Those of a file in a mounted union; `None` for a plain one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: &Path) -> Result<Option<Self>, Fault> {
        let what = || format!("finding the disks of {}", path.display());
        let values = match values(path, "user.braid.stripes", what) {
            // A plain file.
            Err(error) if error.exit == Exit::NotFound => return Ok(None),
            values => values?,
        };
        let mut words = values.iter().map(|value| String::from_utf8_lossy(value).into_owned());
        let unit = words.next().and_then(|unit| unit.parse().ok());
        let unit = unit.ok_or_else(|| Fault::failed(what(), "it has no unit"))?;
        Ok(Some(Self { unit, over: words.collect() }))
    }
}

impl fmt::Display for Stripes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    striped, {} each, over: ", human_bytes(self.unit))?;
        f.write_str(&self.over.join(", "))
    }
}

/// The parts of an xattr that the union makes up: they have zero bytes between them.
///
/// # Errors
/// `NotFound`: the file is not in a union, or has no such xattr.
pub fn values(path: &Path, name: &str, what: impl Fn() -> String) -> Result<Vec<Vec<u8>>, Fault> {
    let mut value = vec![0_u8; 64 << 10];
    let bytes = rustix::fs::lgetxattr(path, name, &mut value[..]);
    let bytes = bytes.map_err(|error| match error {
        Errno::NODATA | Errno::OPNOTSUPP => {
            Fault::new(Exit::NotFound, what(), "it is not in a mounted union")
                .hint("findmnt -t fuse.braid")
        }
        error => Fault::failed(what(), error),
    })?;
    Ok(value[..bytes].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Sets or takes back the choice of a directory.
///
/// # Errors
/// It is no directory of a union; no such units or branches.
pub fn stripe(args: &UnionStripeArgs, out: Printer) -> Result<(), Fault> {
    let directory = &args.directory;
    let what = || format!("striping new files of {}", directory.display());
    values(directory, "user.mergerfs.basepath", what)?;
    if !directory.is_dir() {
        return Err(Fault::usage(what(), "it is no directory").hint("braid union stripe DIR"));
    }
    if args.off {
        match rustix::fs::removexattr(directory, STRIPE_XATTR) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(Fault::failed(what(), error)),
        }
        out.hint("new files are plain; existing ones stay as they are");
    } else {
        let choice = StripeChoice::new(args.unit, args.branches).map_err(|why| {
            Fault::usage(what(), why).hint("braid union stripe DIR --unit 1M --branches 4")
        })?;
        let text = choice.to_string();
        rustix::fs::setxattr(directory, STRIPE_XATTR, text.as_bytes(), XattrFlags::empty())
            .map_err(|error| match error {
                Errno::OPNOTSUPP => Fault::failed(what(), "it needs a union that root has mounted")
                    .hint("sudo braid union up"),
                error => Fault::failed(what(), error),
            })?;
        out.hint(format!("new files are striped: {text}"));
    }
    out.next(format!("braid union where {}/FILE", shown(directory)));
    Ok(())
}

/// Compares the stubs of striped files with their objects.
///
/// # Errors
/// The pool is mounted, or a directory cannot be read.
pub fn sweep(meta: &Path, repair: bool, out: Printer) -> Result<(), Fault> {
    let pool = Pool::open(meta).map_err(fault)?;
    let union = Union::open(&pool).map_err(fault)?;
    let found = union.sweep(repair).map_err(fault)?;
    let removed = repair && found.damaged == 0;
    if out.json {
        out.value(&json!({
            "files": found.files, "damaged": found.damaged, "missing_objects": found.missing,
            "orphans": found.orphans, "orphan_bytes": found.orphan_bytes,
            "restored": found.restored, "repaired": repair, "orphans_removed": removed,
        }));
        return Ok(());
    }
    let bytes = human_bytes(found.orphan_bytes);
    let done = |done: bool, how: &str| if done { format!(", {how}") } else { String::new() };
    out.line(format!("{} striped files", found.files));
    out.line(format!("{} damaged stubs", found.damaged));
    out.line(format!("{} missing objects", found.missing));
    out.line(format!(
        "{} objects of no file: {bytes}{}",
        found.orphans,
        done(removed && found.orphans > 0, "removed")
    ));
    out.line(format!(
        "{} restored files{}",
        found.restored,
        done(repair && found.restored > 0, "now writable")
    ));
    if repair && !removed && found.orphans > 0 {
        out.hint("nothing is removed while a stub is damaged: the objects may be its own");
    }
    match !repair && (found.orphans > 0 || found.restored > 0) {
        true => out.next(format!("braid union sweep --repair {}", shown(meta))),
        false => out.next(format!("braid union up {} MOUNTPOINT", shown(meta))),
    }
    Ok(())
}
