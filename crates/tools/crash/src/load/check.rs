//! Compares what was found with what was promised.

use std::collections::BTreeMap;

use super::{
    found_tree::{Entry, FoundTree},
    model::{Model, NameTarget, Operation},
};

/// After kills of processes: names must equal those of the model, bytes its certain and pending
/// ones.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_exact(model: &Model, below: &str, found: &FoundTree) -> Result<(), String> {
    names(model, below, found)?;
    bytes(model, model, found)
}

/// After a loss of power: names must be those after the first `done` operations, for some `done`
/// from `forced` to all. `contents` has the certain bytes of each file. Returns `done`.
///
/// # Errors
/// The promise that does not hold, as seen from the closest state.
pub fn check_prefix(
    operations: &[Operation],
    forced: usize,
    contents: &Model,
    below: &str,
    found: &FoundTree,
) -> Result<usize, String> {
    let mut closest = None;
    let mut states = vec![Model::default()];
    for operation in operations {
        let mut next = states[states.len() - 1].clone();
        next.apply(operation);
        next.files.iter_mut().for_each(|file| file.pending.clear());
        states.push(next);
    }
    for done in (forced..=operations.len()).rev() {
        let named = names(&states[done], below, found);
        let alike = named.is_ok();
        match named.and_then(|()| bytes(&states[done], contents, found)) {
            Ok(()) => return Ok(done),
            // If names agree and bytes do not, that says more than names that disagree.
            Err(why) if alike || closest.is_none() => closest = Some((done, why)),
            Err(_) => {}
        }
    }
    let (done, why) = closest.unwrap_or_default();
    let all = operations.len();
    Err(format!(
        "not the state after any of {forced} to {all} operations (I6, I7); closest is {done}: {why}"
    ))
}

fn names(model: &Model, below: &str, found: &FoundTree) -> Result<(), String> {
    let inside = format!("{below}/");
    let ours = |path: &&String| **path == below || path.starts_with(&inside);
    if let Some(path) = found.0.keys().find(|path| !model.names.contains_key(*path)) {
        return Err(format!("{path} exists and should not"));
    }
    let mut files = BTreeMap::new();
    for path in model.names.keys().filter(ours) {
        let entry = found.0.get(path).ok_or_else(|| format!("{path} is missing"))?;
        match (&model.names[path], entry) {
            (NameTarget::Directory, Entry::Directory) => {}
            (NameTarget::Symbolic(wanted), Entry::Symbolic(target)) if wanted == target => {}
            (NameTarget::File(file), Entry::File { index, links, .. }) => {
                let names = model.paths_of(*file).count();
                if *links as usize != names {
                    return Err(format!(
                        "{path} has a link count of {links} and {names} names (I7)"
                    ));
                }
                if files.insert(*index, *file).is_some_and(|other| other != *file) {
                    return Err(format!("{path} is file {index}, which is another file too"));
                }
            }
            (NameTarget::File(file), Entry::Lost { index, .. }) => {
                if files.insert(*index, *file).is_some_and(|other| other != *file) {
                    return Err(format!("{path} is file {index}, which is another file too"));
                }
            }
            (named, entry) => {
                return Err(format!("{path} should be {named:?}, and is {}", kind(entry)));
            }
        }
    }
    let distinct: std::collections::BTreeSet<_> = files.values().collect();
    if distinct.len() != files.len() {
        return Err("two names of one file lead to different files (I7)".to_owned());
    }
    Ok(())
}

fn bytes(names: &Model, contents: &Model, found: &FoundTree) -> Result<(), String> {
    for (path, entry) in &found.0 {
        if let (Some(file), Entry::Lost { index, why }) = (names.file(path), entry)
            && !contents.files[file].base.is_empty()
        {
            return Err(format!("{path} (file {index}) was synced and is lost: {why} (I6)"));
        }
        if let (Some(file), Entry::File { bytes, index, .. }) = (names.file(path), entry)
            && let Some(why) = contents.files[file].refutes(bytes)
        {
            return Err(format!("{path} (file {index}): {why}"));
        }
    }
    Ok(())
}

fn kind(entry: &Entry) -> String {
    match entry {
        Entry::Directory => "a directory".to_owned(),
        Entry::File { index, .. } => format!("file {index}"),
        Entry::Lost { index, why } => format!("file {index}, lost: {why}"),
        Entry::Symbolic(target) => format!("a link to {target}"),
        Entry::Other(kind) => format!("{kind:?}"),
    }
}
