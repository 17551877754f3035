//! Processes that use a mount.

use std::path::Path;

/// Processes named at most, for a readable message.
const NAMED_MAX: usize = 5;

/// ` by git (1234), bash (567)`, or nothing where no process can be seen. Reads only targets of
/// links: the mount itself is not touched.
pub(super) fn describe(point: &Path) -> String {
    let mut found: Vec<String> = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if found.len() < NAMED_MAX && uses(&process.path(), point) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("{} ({pid})", name.trim()));
        }
    }
    match found.is_empty() {
        true => String::new(),
        false => format!(" by {}", found.join(", ")),
    }
}

/// Whether a process has a working or root directory, a program or an open file below `point`.
fn uses(process: &Path, point: &Path) -> bool {
    let below =
        |link: &Path| std::fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|link| below(&process.join(link)))
        || files.into_iter().any(|fd| below(&fd.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let _file = std::fs::File::create(dir.path().join("held")).unwrap();
        let described = describe(&dir.path().canonicalize().unwrap());
        assert!(described.contains(&format!("({})", std::process::id())), "{described}");
    }

    #[test]
    fn without_processes_the_text_is_empty() {
        assert_eq!(describe(Path::new("/no/such/place")), "");
    }
}
