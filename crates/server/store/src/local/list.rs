//! Listings by pages, in the order of [`crate::order`].

use super::directory::{Directory, OBJECTS, parse_name};
use super::platform;
use crate::{ObjectPage, Result, StoreError, listing_order};
use braid_types::{ObjectId, limits};
use std::path::Path;

/// At most `limit` objects after `cursor`. A directory is read whole for each page that touches it.
pub(super) fn page(
    directory: &Directory,
    cursor: Option<ObjectId>,
    limit: usize,
) -> Result<ObjectPage> {
    let limit = limit.max(1);
    let first = cursor.map_or(0, |id| listing_order(id).0);
    let mut page = ObjectPage::default();
    for number in first..limits::OBJECT_DIRECTORIES {
        let path = directory.root.join(OBJECTS).join(format!("{number:03x}"));
        let (mut objects, strangers) = read(&path, number)?;
        let goes_on = cursor.filter(|id| listing_order(*id).0 == number);
        if let Some(cursor) = goes_on {
            objects.retain(|id| *id > cursor);
        } else {
            page.foreign_files.extend(strangers);
        }
        page.objects.append(&mut objects);
        if page.objects.len() > limit {
            page.objects.truncate(limit);
            page.next = page.objects.last().copied().or(cursor);
            return Ok(page);
        }
    }
    Ok(page)
}

/// The objects of one directory in order, and the paths of all other files.
fn read(path: &Path, number: u64) -> Result<(Vec<ObjectId>, Vec<String>)> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            StoreError::DirectoryMissing { path: path.display().to_string() }
        }
        _ => StoreError::from_io("list", path, error),
    };
    let (mut objects, mut strangers) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        match name.to_str().and_then(parse_name).filter(|id| listing_order(*id).0 == number) {
            Some(id) => objects.push(id),
            None if name.to_str().is_some_and(platform::is_side_file) => {}
            None => strangers.push(entry.path().display().to_string()),
        }
    }
    objects.sort_unstable();
    strangers.sort_unstable();
    Ok((objects, strangers))
}
