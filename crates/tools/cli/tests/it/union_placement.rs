//! Labels, the placement of a directory, `fsck` and `dedup` of a union, as a user meets them.
#![cfg(target_os = "linux")]

use std::{fs, os::unix::fs::PermissionsExt, process::Output, thread, time::Duration};

use crate::{
    harness::{braid, text},
    mount::can_mount,
    union::Mounted,
};

impl Mounted {
    /// `braid union placement mnt/DIRECTORY ARGUMENTS`.
    fn place(&self, directory: &str, arguments: &[&str]) -> Output {
        let directory = self.at("mnt").join(directory);
        let mut command = braid();
        command.args(["union", "placement"]).arg(directory).args(arguments).output().unwrap()
    }
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    text(output)
}

#[test]
fn new_files_of_a_directory_are_on_disks_with_its_label() {
    let Some(union) = Mounted::start(&[]) else { return };
    let refused = text(&union.place("dir", &["on=safe"]));
    assert!(refused.contains("no branch has the label safe"), "{refused}");
    assert!(refused.contains("try: braid union label META DISK safe"), "{refused}");
    let (code, printed) = union.braid("label", &["disk1", "safe", "new"]);
    assert_eq!(code, 0, "{printed}");
    let (_, status) = union.braid("status", &[]);
    assert!(status.contains("new safe"), "{status}");
    let (code, printed) = union.braid("label", &["disk1", "no spaces"]);
    assert!(code == 2 && printed.contains("\"no spaces\" is no label"), "{printed}");

    succeeds(&union.place("dir", &["on=safe,first"]));
    assert!(succeeds(&union.place("dir", &[])).contains("on=safe,first"));
    assert!(succeeds(&union.place("", &[])).contains("that of the directory above"));
    fs::create_dir(union.at("mnt/dir/below")).unwrap();
    for n in 0..3 {
        fs::write(union.at(&format!("mnt/dir/below/{n}")), n.to_string()).unwrap();
        assert_eq!(union.on(&format!("dir/below/{n}")), ["disk1"]);
    }
    assert_eq!(union.on("dir/older"), ["disk2"], "it stays");
    thread::sleep(Duration::from_millis(50));
    let (code, printed) = union.braid("enforce", &[union.at("mnt/dir").to_str().unwrap()]);
    assert!(code == 0 && printed.contains("1 file moved"), "{printed}");
    assert_eq!(union.on("dir/older"), ["disk1"]);
    assert_eq!(fs::read_to_string(union.at("mnt/dir/older")).unwrap(), "older");

    succeeds(&union.place("dir", &["--off"]));
    (0..2).for_each(|n| fs::write(union.at(&format!("mnt/dir/off{n}")), "").unwrap());
    assert_ne!(union.on("dir/off0"), union.on("dir/off1"), "round robin as everywhere");
    let (code, printed) = union.braid("move", &["dir", "--to", "label=safe"]);
    assert!(code == 0 && printed.contains("1 file moved"), "{printed}");
    let (code, printed) = union.braid("move", &["dir", "--to", "disk2", "--unused-for", "1d"]);
    assert!(code == 0 && printed.contains("0 files moved"), "{printed}");
    let (code, printed) = union.braid("move", &["dir", "--to", "label=tape"]);
    assert!(code == 2 && printed.contains("using the label tape: no branch"), "{printed}");
}

#[test]
fn what_several_disks_have_is_compared_and_removed_where_it_is_the_same() {
    let Some(union) = Mounted::start(&[]) else { return };
    fs::create_dir(union.at("disk1/dir")).unwrap();
    fs::set_permissions(union.at("disk1/dir"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(union.at("disk1/dir/older"), "older").unwrap();
    fs::write(union.at("disk2/old"), "another").unwrap();
    let (code, printed) = union.braid("fsck", &[]);
    assert_eq!(code, 7, "{printed}");
    for found in ["disk2/dir differs from", "mode (0755)", "disk1/old hides", "fsck --repair"] {
        assert!(printed.contains(found), "{printed}");
    }
    let (code, printed) = union.braid("fsck", &["--repair"]);
    assert!(code == 7 && printed.contains("3 findings, 1 repaired"), "{printed}");
    assert_eq!(fs::metadata(union.at("disk2/dir")).unwrap().permissions().mode() & 0o777, 0o700);
    let (code, printed) = union.braid("dedup", &["--dry-run"]);
    assert!(code == 0 && printed.contains("1 hidden file would be removed"), "{printed}");
    assert_eq!(union.on("dir/older"), ["disk1", "disk2"]);
    let (code, printed) = union.braid("dedup", &[]);
    assert!(code == 0 && printed.contains("it has other bytes"), "{printed}");
    assert_eq!(union.on("dir/older"), ["disk1"]);
    assert_eq!(fs::read_to_string(union.at("mnt/dir/older")).unwrap(), "older");
    assert_eq!(fs::read_to_string(union.at("disk2/old")).unwrap(), "another");
}

#[test]
fn a_union_to_try_starts_with_one_command() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for disk in ["one", "two"] {
        fs::create_dir(at(disk)).unwrap();
        fs::write(at(disk).join(disk), disk).unwrap();
    }
    let up = |disks: &[&str]| {
        let mut command = braid();
        command.current_dir(dir.path()).args(["up", "try", "--detach", "--union"]).args(disks);
        command.output().unwrap()
    };
    let refused = text(&up(&["one", "three"]));
    assert!(refused.contains("it is no directory"), "{refused}");
    for _ in 0..2 {
        succeeds(&up(&["one", "two"]));
        assert_eq!(fs::read_to_string(at("try/mnt/two")).unwrap(), "two");
        let refused = text(&up(&["one"]));
        assert!(refused.contains("other disks"), "{refused}");
        succeeds(&braid().current_dir(dir.path()).args(["down", "try"]).output().unwrap());
        assert!(!at("try/mnt/two").exists());
    }
    assert_eq!(fs::read_to_string(at("one/one")).unwrap(), "one");
}

#[test]
fn a_user_with_a_quota_writes_no_more_through_the_mount() {
    let Some(union) = Mounted::start(&[]) else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root starts programs of other users");
        return;
    }
    let user = "4321";
    let (code, printed) = union.braid("quota", &[]);
    assert_eq!(code, 2, "{printed}");
    let quota = |arguments: &[&str]| {
        let mut command = braid();
        command.current_dir(union.dir.path()).args(["union", "quota"]).args(arguments);
        succeeds(&command.output().unwrap())
    };
    fs::set_permissions(union.at("mnt"), fs::Permissions::from_mode(0o777)).unwrap();
    quota(&["set", "meta", "--user", user, "--bytes", "1M", "--inodes", "3"]);
    let write = |name: &str, bytes: &str| {
        let script = format!("head -c {bytes} /dev/zero > {name}");
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "sh", "-c", &script]);
        text(&command.current_dir(union.at("mnt")).env("LC_ALL", "C").output().unwrap())
    };
    fs::set_permissions(union.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(write("one", "600000"), "");
    assert!(write("two", "600000").contains("Disk quota exceeded"));
    let sizes: u64 = ["one", "two"]
        .iter()
        .map(|name| fs::metadata(union.at("mnt").join(name)).unwrap().len())
        .sum();
    assert!((600_000..=1 << 20).contains(&sizes), "{sizes}");
    assert_eq!(write("three", "0"), "");
    assert!(write("four", "0").contains("Disk quota exceeded"));
    fs::remove_file(union.at("mnt/two")).unwrap();
    let listed = quota(&["list", "meta"]);
    assert!(listed.contains("585.9 KiB") && listed.contains("1.0 MiB"), "{listed}");
    quota(&["remove", "meta", "--user", user]);
    assert_eq!(write("two", "600000"), "");
}
