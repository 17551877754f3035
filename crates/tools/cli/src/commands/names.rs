//! `braid mkdir`, `rm`, `mv`, `ln`.

use braid_client::{Client, Error};
use braid_types::Status;
use braid_wire::message::{FileKind, mds::RenameMode};

use crate::{
    config::Settings,
    connect,
    output::{Exit, Fault, Printer, quoted},
    transfer::path::{above, file_name, join, show},
};

/// Creates directories.
pub fn mkdir(
    paths: &[String],
    parents: bool,
    mode: u32,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    for path in paths {
        if parents {
            make_parents(&client, path, mode)?;
        } else {
            client
                .mkdir(path, mode)
                .map_err(|e| directory_missing(e, &format!("making {path}"), path, &client))?;
        }
    }
    if let Some(last) = paths.last() {
        out.next(format!("braid put -r SOMETHING {}", quoted(last)));
    }
    Ok(())
}

/// Creates every missing ancestor, then the directory itself.
fn make_parents(client: &Client, path: &str, mode: u32) -> Result<(), Fault> {
    let mut ends: Vec<usize> =
        path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).collect();
    ends.push(path.len());
    for end in ends {
        match client.mkdir(&path[..end], mode) {
            Err(e)
                if e.status() == Status::Exists
                    && is_directory(client, &path.as_bytes()[..end])? => {}
            outcome => {
                outcome?;
            }
        }
    }
    Ok(())
}

/// Removes files; with `recursive` also whole trees.
pub fn rm(
    paths: &[String],
    recursive: bool,
    force: bool,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    for path in paths {
        if path.trim_matches('/').is_empty() && recursive {
            return Err(Fault::new(Exit::Refused, "removing /", "it is the whole file system")
                .hint("braid rm -r with the names that braid ls shows"));
        }
        // Reading its attributes first may need an I/O daemon that is down. The removal does not.
        match client.unlink(path) {
            Ok(()) => {}
            Err(e) if force && e.status() == Status::NotFound => {}
            Err(_) if is_directory_itself(&client, path) => match recursive {
                true => remove_tree(&client, path.as_bytes())?,
                false => {
                    let hint = format!("braid rm -r {}", quoted(path));
                    return Err(
                        Fault::usage(format!("removing {path}"), "it is a directory").hint(hint)
                    );
                }
            },
            Err(e) => return Err(e.into()),
        }
    }
    out.next("braid df    (the space is freed in the background)");
    Ok(())
}

/// Whether the path is a directory, not a link to one.
fn is_directory_itself(client: &Client, path: &str) -> bool {
    client.lstat(path).is_ok_and(|found| found.kind == FileKind::Directory)
}

/// Removes a tree without recursion, so that no depth exhausts the stack.
fn remove_tree(client: &Client, root: &[u8]) -> Result<(), Fault> {
    let mut stack = vec![(root.to_vec(), false)];
    while let Some((path, emptied)) = stack.pop() {
        if emptied {
            ignore_missing(client.rmdir(&path[..]))?;
            continue;
        }
        stack.push((path.clone(), true));
        for entry in client.read_dir(&path[..], false)? {
            let entry = entry?;
            let child = join(&path, &entry.name);
            if entry.kind == FileKind::Directory {
                stack.push((child, false));
            } else {
                ignore_missing(client.unlink(&child[..]))?;
            }
        }
    }
    Ok(())
}

/// Ignores that another client removed it first.
fn ignore_missing(outcome: Result<(), Error>) -> Result<(), Fault> {
    match outcome {
        Err(e) if e.status() != Status::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}

/// Renames a file, or moves it into an existing directory.
pub fn mv(
    from: &str,
    to: &str,
    no_replace: bool,
    exchange: bool,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let mode = match (no_replace, exchange) {
        (true, _) => RenameMode::NoReplace,
        (_, true) => RenameMode::Exchange,
        _ => RenameMode::Replace,
    };
    let into = !exchange && is_directory(&client, to.as_bytes())?;
    let target =
        if into { join(to.as_bytes(), file_name(from.as_bytes())) } else { to.as_bytes().to_vec() };
    let doing = || format!("moving {from} to {}", show(&target));
    client.rename(from, &target[..], mode).map_err(|error| match error.status() {
        Status::NotFound if exchange && client.lstat(from).is_ok() && client.lstat(to).is_err() => {
            Fault { what: doing(), why: format!("{to} does not exist"), ..error.into() }
                .hint(format!("braid mv {} {}", quoted(from), quoted(to)))
        }
        Status::NotFound if client.lstat(from).is_ok() => {
            directory_missing(error, &doing(), &show(&target), &client)
        }
        _ => Fault { what: doing(), ..error.into() },
    })?;
    out.next(format!("braid ls -l {}", quoted(&show(above(&target)))));
    Ok(())
}

/// Makes a link; if `link` is an existing directory, inside it.
pub fn ln(
    target: &str,
    link: &str,
    symbolic: bool,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let into = is_directory(&client, link.as_bytes())?;
    let name = if into {
        join(link.as_bytes(), file_name(target.as_bytes()))
    } else {
        link.as_bytes().to_vec()
    };
    if symbolic {
        client.symlink(&name[..], target.as_bytes())?;
    } else {
        client.hard_link(target, &name[..]).map_err(|error| {
            match is_directory(&client, target.as_bytes()) {
                Ok(true) => Fault::new(
                    Exit::Refused,
                    format!("linking {target}"),
                    "a directory cannot have a second name",
                )
                .hint(format!("braid ln -s {} {}", quoted(target), quoted(link))),
                _ => error.into(),
            }
        })?;
    }
    out.next(format!("braid ls -l {}", quoted(&show(&name))));
    Ok(())
}

/// Reports a missing directory above `path` instead of a missing file; the same error in all other
/// cases.
fn directory_missing(error: Error, doing: &str, path: &str, client: &Client) -> Fault {
    let above = show(above(path.as_bytes()));
    let missing =
        error.status() == Status::NotFound && above != "/" && client.stat(&above[..]).is_err();
    let fault = Fault::from(error);
    if !missing {
        return fault;
    }
    let hint = format!("braid mkdir -p {}", quoted(&above));
    Fault { what: doing.to_owned(), why: format!("directory {above} does not exist"), ..fault }
        .hint(hint)
}

fn is_directory(client: &Client, path: &[u8]) -> Result<bool, Fault> {
    match client.stat(path) {
        Ok(found) => Ok(found.kind == FileKind::Directory),
        Err(e) if e.status() == Status::NotFound => Ok(false),
        // Attributes of a directory never need an I/O daemon.
        Err(e) if e.server().is_some_and(|server| server.starts_with("I/O daemon")) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
