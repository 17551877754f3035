//! A description of the machine in one line, for the head of a report.

use std::{fs, path::Path};

use crate::steal::Steal;

/// Processors, memory, kernel and the file system of `scratch`; unknown values are left out.
pub fn describe(scratch: &Path) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = vec![format!("{cpus} processors")];
    parts.extend(model(&read("/proc/cpuinfo")));
    parts.extend(memory(&read("/proc/meminfo")));
    parts.push(format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim()));
    let place = fs::canonicalize(scratch).unwrap_or_else(|_| scratch.to_path_buf());
    parts.extend(file_system(&read("/proc/mounts"), &place));
    parts.extend(idle(
        &read("/sys/devices/system/cpu/cpuidle/current_driver"),
        &read("/sys/module/haltpoll/parameters/guest_halt_poll_ns"),
    ));
    parts.join(", ")
}

/// The load average of the last minute.
pub fn load() -> Option<f64> {
    read("/proc/loadavg").split(' ').next()?.parse().ok()
}

/// The machine at a measurement: the load before it, and the time that its host took from the
/// samples since the last call.
pub fn when(machine: &str, load: Option<f64>, steal: &Steal) -> String {
    let load = load.map(|load| format!("load average {load:.1} before it"));
    [Some(machine.to_owned()), load, steal.report()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
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

/// How long an idle processor of a virtual machine polls before it halts: this decides the cost of
/// a wake-up.
fn idle(driver: &str, nanoseconds: &str) -> Option<String> {
    let nanoseconds: u64 = nanoseconds.trim().parse().ok()?;
    (driver.trim() == "haltpoll").then(|| match nanoseconds {
        0 => "idle processors halt immediately".to_owned(),
        _ => format!("idle processors poll {} us before they halt", nanoseconds / 1000),
    })
}

/// The file system of the mount point that is the longest prefix of `place`.
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
    fn how_idle_processors_wait_is_said_where_the_guest_decides_it() {
        assert_eq!(
            idle("haltpoll\n", "200000\n").unwrap(),
            "idle processors poll 200 us before they halt"
        );
        assert_eq!(idle("haltpoll\n", "0\n").unwrap(), "idle processors halt immediately");
        assert_eq!(idle("intel_idle\n", "200000\n"), None);
        assert_eq!(idle("haltpoll\n", ""), None);
    }

    #[test]
    fn memory_is_in_whole_gib() {
        assert_eq!(memory("MemTotal:       24652000 kB\n").as_deref(), Some("24 GiB of memory"));
        assert_eq!(memory(""), None);
    }
}
