//! Removes a lab with its processes, mounts, namespaces and files; also labs of dead processes.

use std::{fs, path::Path};

use braid_testbed::shell::sh;

/// Where `ip netns` stores its names.
pub const NAMESPACES: &str = "/run/netns";
/// Prefix of the namespaces of all labs; the id of the process that created it follows.
pub const PREFIX: &str = "braid-lab-";

/// Ends everything in the namespaces whose names start with `$1`, and removes them. `$2` is the
/// directory of the lab, which is unmounted and removed, or empty. A host may be stopped (SIGSTOP):
/// SIGKILL ends it nevertheless.
pub const REMOVE: &str = r#"
dir=$2
if [ -n "$dir" ]; then
    while read -r _ point _; do
        case $point in "$dir"/*) umount -l "$point" ;; esac
    done < /proc/self/mounts
fi
export PATH="$PATH:/usr/sbin:/sbin"
for try in $(seq 50); do
    left=
    for file in /run/netns/"$1"*; do
        test -e "$file" || continue
        left=$(ip netns pids "${file##*/}")
        for pid in $left; do kill -9 "$pid"; left=yes; done
    done
    test "$left" = yes || break
    sleep 0.1
done
for file in /run/netns/"$1"*; do
    test -e "$file" || continue
    ip netns del "${file##*/}"
done
if [ -n "$dir" ]; then
    for try in $(seq 100); do
        rm -rf --one-file-system "$dir"
        test -e "$dir" || break
        sleep 0.1
    done
fi
exit 0
"#;

/// Removes namespaces of labs whose process is dead, and prints them. If another process removes
/// one at the same time, that is no error.
pub fn remove_leftovers() {
    for prefix in of_the_dead() {
        eprintln!(
            "netlab: removing the lab of dead process {}",
            prefix.trim_start_matches(PREFIX).trim_end_matches('-')
        );
        if let Err(error) = sh(REMOVE, &[&prefix, ""]) {
            eprintln!("netlab: {error:#}");
        }
    }
}

/// The prefixes of the names, each once.
fn of_the_dead() -> Vec<String> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut dead: Vec<String> = names
        .filter_map(|name| owner(&name))
        .filter(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        .map(|pid| format!("{PREFIX}{pid}-"))
        .collect();
    dead.sort();
    dead.dedup();
    dead
}

/// The process that created a namespace of this name, if the name is one of a lab.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_in_the_name() {
        assert_eq!(owner("braid-lab-123-0-iod0"), Some(123));
        assert_eq!(owner("braid-lab-x-0-iod0"), None);
        assert_eq!(owner("another"), None);
    }
}
