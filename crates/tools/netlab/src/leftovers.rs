//! The end of a lab: its processes, mounts, namespaces and files; and of labs whose process is dead.

use std::{fs, path::Path};

use crate::shell::sh;

/// Where `ip netns` keeps its names.
pub const NAMESPACES: &str = "/run/netns";
/// Every namespace of every lab begins so; the id of the process that made it follows.
pub const PREFIX: &str = "braid-lab-";

/// Ends everything in the namespaces whose names begin with `$1`, and removes them; `$2` is the directory of the lab, which is
/// unmounted and removed, or nothing. A host may be stopped (SIGSTOP): SIGKILL ends it all the same.
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
    for try in $(seq 100); do rm -rf --one-file-system "$dir"; test -e "$dir" || break; sleep 0.1; done
fi
exit 0
"#;

/// Removes namespaces of labs whose process is dead, and says which. What another lab removes at the same time is no error.
pub fn remove_leftovers() {
    for prefix in of_the_dead() {
        eprintln!(
            "netlab: removing what process {} left",
            prefix.trim_start_matches(PREFIX).trim_end_matches('-')
        );
        if let Err(error) = sh(REMOVE, &[&prefix, ""]) {
            eprintln!("netlab: {error:#}");
        }
    }
}

/// The beginnings of the names, each once.
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

/// The process that made a namespace of this name, if it is one of a lab.
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
