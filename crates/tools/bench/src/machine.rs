//! The machine in a line, for the head of a report.

use std::{fs, path::Path};

/// Processors, memory, kernel and the file system under `scratch`; what cannot be had is left out.
pub fn describe(scratch: &Path) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = vec![format!("{cpus} processors")];
    parts.extend(model(&read("/proc/cpuinfo")));
    parts.extend(memory(&read("/proc/meminfo")));
    parts.push(format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim()));
    let place = fs::canonicalize(scratch).unwrap_or_else(|_| scratch.to_path_buf());
    parts.extend(file_system(&read("/proc/mounts"), &place));
    parts.join(", ")
}

/// The load average of the last minute.
pub fn load() -> Option<f64> {
    read("/proc/loadavg").split(' ').next()?.parse().ok()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory(meminfo: &str) -> Option<String> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{} GiB of memory", (kib + (1 << 19)) >> 20))
}

/// Of the mount whose path is the longest above `place`.
fn file_system(mounts: &str, place: &Path) -> Option<String> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let above = mounts.lines().filter_map(mount).filter(|(path, _)| place.starts_with(path));
    above.max_by_key(|(path, _)| path.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x btrfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/y")).as_deref(), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/home")).as_deref(), Some("ext4"));
    }

    #[test]
    fn memory_is_in_whole_gib() {
        assert_eq!(memory("MemTotal:       24652000 kB\n").as_deref(), Some("24 GiB of memory"));
        assert_eq!(memory(""), None);
    }
}
