//! `braid union placement` and `braid union label`: on which disks new files are.

use std::path::Path;

use braid_union::{Label, PLACEMENT_XATTR, Placement, Pool, Request};
use rustix::{fs::XattrFlags, io::Errno};

use super::{Done, ask, named, next_status};
use crate::{
    args::UnionPlacementArgs,
    commands::{
        union::linux::{fault, shown},
        union_striped::values,
    },
    output::{Exit, Fault, Printer},
};

/// Shows or changes the placement of a pool, or of a directory in a mounted union.
///
/// # Errors
/// The target is neither; no disk has the label.
pub fn run(args: &UnionPlacementArgs, placement: Option<Placement>, out: Printer) -> Done {
    let target = &args.target;
    let what = || format!("placing new files of {}", target.display());
    match values(target, "user.mergerfs.basepath", what) {
        Ok(_) => return of_directory(args, placement, out),
        // A metadata directory.
        Err(error) if error.exit == Exit::NotFound => {}
        Err(error) => return Err(error),
    }
    if args.off {
        let why = "it is no directory of a mounted union";
        return Err(Fault::usage(what(), why).hint("braid union placement DIR --off"));
    }
    match placement {
        None => out.line(Pool::open(target).map_err(fault)?.config.placement.to_string()),
        Some(placement) => {
            ask(target, &Request::SetPlacement { placement: placement.clone() }, out)?;
            out.hint(format!("new files: {placement}"));
        }
    }
    next_status(target, out);
    Ok(())
}

fn of_directory(args: &UnionPlacementArgs, placement: Option<Placement>, out: Printer) -> Done {
    let directory = &args.target;
    let what = || format!("placing new files of {}", directory.display());
    if !directory.is_dir() {
        return Err(Fault::usage(what(), "it is no directory").hint("braid union placement DIR"));
    }
    let next = || out.next(format!("braid union where {}/FILE", shown(directory)));
    if args.off {
        match rustix::fs::removexattr(directory, PLACEMENT_XATTR) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(Fault::failed(what(), error)),
        }
        out.hint("new files are placed as those of the directory above");
        next();
        return Ok(());
    }
    let Some(placement) = placement else {
        let own = match values(directory, PLACEMENT_XATTR, what) {
            Ok(own) => own,
            Err(error) if error.exit == Exit::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        match own.first() {
            Some(own) => out.line(String::from_utf8_lossy(own)),
            None => out.line("that of the directory above"),
        }
        next();
        return Ok(());
    };
    let text = placement.to_string();
    let set =
        rustix::fs::setxattr(directory, PLACEMENT_XATTR, text.as_bytes(), XattrFlags::empty());
    set.map_err(|error| match (error, &placement.label) {
        (Errno::INVAL, Some(label)) => {
            Fault::usage(what(), format!("no branch has the label {label}"))
                .hint(format!("braid union label META DISK {label}"))
        }
        (Errno::OPNOTSUPP, _) => Fault::failed(what(), "a disk of the directory keeps no xattrs")
            .hint("ext4, XFS or btrfs"),
        _ => Fault::failed(what(), error),
    })?;
    out.hint(format!("new files here and below: {text}; existing ones stay where they are"));
    out.next(format!("braid union enforce META {}", shown(directory)));
    Ok(())
}

/// Says what a branch is good for.
///
/// # Errors
/// A text is no label; the pool has no such branch; new files need a label that no branch would
/// have.
pub fn set_labels(meta: &Path, branch: &Path, labels: &[String], out: Printer) -> Done {
    let labels: Vec<Label> =
        labels.iter().map(|label| read_label(label)).collect::<Result<_, _>>()?;
    let example = labels.first().cloned();
    ask(meta, &Request::SetLabels { branch: named(branch), labels }, out)?;
    match example {
        Some(label) => out.next(format!("braid union placement DIR on={label}")),
        None => next_status(meta, out),
    }
    Ok(())
}

/// A label as a user writes it.
///
/// # Errors
/// It is none.
pub fn read_label(text: &str) -> Done<Label> {
    text.parse().map_err(|error: String| {
        let (why, hint) = error.split_once("; try: ").unwrap_or((&error, ""));
        Fault::usage("reading a label", why).hint(hint)
    })
}
