//! `braid union` from a user's view: disks are adopted, mounted, used and left again.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::BufReader,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    harness::{braid, text},
    mount::can_mount,
};

/// A union of two directories that is served in the foreground.
pub(crate) struct Mounted {
    pub(crate) dir: tempfile::TempDir,
    process: Child,
    /// What `up` prints of the data path.
    data: String,
}

impl Mounted {
    /// `disk1/old` and `disk2/dir/older` exist before. `None`: this machine cannot mount.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["disk1", "disk2/dir", "mnt"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("disk1/old"), "old").unwrap();
        fs::write(dir.path().join("disk2/dir/older"), "older").unwrap();
        let made = braid()
            .current_dir(dir.path())
            .args(["union", "create", "media", "--meta", "meta", "--min-free", "0"])
            .args(["--placement", "round-robin", "disk1", "disk2"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made));
        let (process, data) = up(dir.path(), options);
        Some(Self { dir, process, data })
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// The disks that have a path.
    pub(crate) fn on(&self, path: &str) -> Vec<&'static str> {
        let has = |disk: &&str| self.at(disk).join(path).symlink_metadata().is_ok();
        ["disk1", "disk2", "disk3"].into_iter().filter(has).collect()
    }

    /// `braid union CALL meta ARGUMENTS`, its exit code and what it prints.
    pub(crate) fn braid(&self, call: &str, arguments: &[&str]) -> (i32, String) {
        let mut command = braid();
        command.current_dir(self.dir.path()).args(["union", call, "meta"]).args(arguments);
        let ran = command.output().unwrap();
        (ran.status.code().unwrap(), text(&ran))
    }

    pub(crate) fn kill(&mut self) {
        kill_process(Pid::from_child(&self.process), Signal::KILL).unwrap();
        self.process.wait().unwrap();
        let unmounted = braid().arg("umount").arg(self.at("mnt")).output().unwrap();
        assert!(unmounted.status.success(), "{}", text(&unmounted));
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// After [`Mounted::kill`].
    pub(crate) fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    pub(crate) fn start_again_with(&mut self, options: &[&str]) {
        (self.process, self.data) = up(self.dir.path(), options);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

fn up(dir: &Path, options: &[&str]) -> (Child, String) {
    let mut command = braid();
    command.current_dir(dir).args(["--json", "union", "up", "--foreground", "meta", "mnt"]);
    let mut child =
        command.args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let printed = BufReader::new(child.stdout.as_mut().unwrap());
    let mut printed = serde_json::Deserializer::from_reader(printed).into_iter::<Value>();
    let Some(Ok(printed)) = printed.next() else {
        child.kill().unwrap();
        panic!("braid union up ended: {}", child.wait().unwrap());
    };
    (child, printed["data"].as_str().unwrap().to_owned())
}

#[test]
fn disks_are_adopted_used_and_left_as_plain_files() {
    let Some(mut union) = Mounted::start(&[]) else { return };
    assert_eq!(fs::read_to_string(union.at("mnt/old")).unwrap(), "old");
    assert_eq!(fs::read_to_string(union.at("mnt/dir/older")).unwrap(), "older");
    (0..4).for_each(|n| fs::write(union.at(&format!("mnt/dir/{n}")), n.to_string()).unwrap());
    assert_eq!(union.on("dir"), ["disk1", "disk2"]);
    let listed: Vec<String> = {
        let entries = fs::read_dir(union.at("mnt/dir")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(listed, ["0", "1", "2", "3", "older"]);
    fs::rename(union.at("mnt/dir"), union.at("mnt/moved")).unwrap();
    assert_eq!((union.on("dir").len(), union.on("moved").len()), (0, 2));
    let place = braid().args(["union", "where"]).arg(union.at("mnt/moved/older")).output().unwrap();
    let disk2 = union.at("disk2").canonicalize().unwrap();
    let place = String::from_utf8(place.stdout).unwrap();
    assert_eq!(place.trim(), disk2.join("moved/older").display().to_string());
    let number = fs::metadata(union.at("mnt/moved/3")).unwrap().ino();
    union.restart();
    assert_eq!(fs::metadata(union.at("mnt/moved/3")).unwrap().ino(), number);
    union.kill();
    // What is left is on the disks themselves.
    let place = union.on("moved/3")[0];
    assert_eq!(fs::read_to_string(union.at(place).join("moved/3")).unwrap(), "3");
}

#[test]
fn bytes_are_the_same_with_passthrough_and_without() {
    for options in [&[][..], &["--no-passthrough"]] {
        let Some(union) = Mounted::start(options) else { return };
        assert_eq!(union.data.contains("switched off"), !options.is_empty(), "{}", union.data);
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        fs::write(union.at("mnt/big"), &bytes).unwrap();
        assert_eq!(fs::read(union.at("mnt/big")).unwrap(), bytes);
        let disk = union.on("big")[0];
        assert_eq!(fs::read(union.at(disk).join("big")).unwrap(), bytes);
        // Written on the disk, read through the mount.
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().write(true).open(union.at(disk).join("big")).unwrap();
        file.write_all_at(b"direct", 1_000_000).unwrap();
        assert_eq!(&fs::read(union.at("mnt/big")).unwrap()[1_000_000..1_000_006], b"direct");
        let file = fs::File::options().append(true).open(union.at("mnt/big")).unwrap();
        std::io::Write::write_all(&mut &file, b"end").unwrap();
        assert_eq!(fs::metadata(union.at("mnt/big")).unwrap().len(), 3_000_003);
        file.set_len(5).unwrap();
        assert_eq!(fs::read(union.at("mnt/big")).unwrap(), &bytes[..5]);
    }
}

#[test]
fn files_belong_to_the_user_who_creates_them() {
    const NOBODY: u32 = 65534;
    let Some(union) = Mounted::start(&[]) else { return };
    fs::set_permissions(union.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(union.at("mnt/open")).unwrap();
    fs::set_permissions(union.at("mnt/open"), fs::Permissions::from_mode(0o777)).unwrap();
    let script = "umask 027; echo x > file; mkdir dir; ln -s file link; cat file";
    let ran = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", script])
        .current_dir(union.at("mnt/open"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
    for (name, mode) in [("file", 0o640), ("dir", 0o750)] {
        let found = fs::symlink_metadata(union.at("mnt/open").join(name)).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (NOBODY, NOBODY, mode));
        let on_disk = union.at(union.on(&format!("open/{name}"))[0]).join("open").join(name);
        assert_eq!(fs::symlink_metadata(on_disk).unwrap().uid(), NOBODY);
    }
    let refused = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "touch"])
        .arg(union.at("mnt/new"))
        .output()
        .unwrap();
    assert!(!refused.status.success(), "the root of the union is root's");
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let run = |arguments: &[&str]| {
        let ran = braid().current_dir(dir.path()).arg("union").args(arguments).output().unwrap();
        assert!(!ran.status.success(), "{arguments:?}");
        text(&ran)
    };
    for (arguments, expected) in [
        (&["create", "p", "--meta", "m", "none"][..], "try: mkdir"),
        (&["create", "p", "--meta", "m", "disk", "disk"], "given twice"),
        (&["create", "p", "--meta", "disk/m", "disk"], "inside"),
        (&["create", "p", "--meta", "m", "disk=fast"], "no mode fast"),
        (&["create", "p", "--meta", "m", "disk", "--placement", "best"], "most-free"),
        (&["up", "m", "mnt"], "braid union create"),
        (&["status", "m"], "braid union create"),
        (&["where", "disk"], "not in a mounted union"),
    ] {
        let printed = run(arguments);
        assert!(printed.contains(expected) && printed.contains("; try: "), "{printed}");
    }
    assert!(!dir.path().join("disk/.braid-branch").exists(), "nothing was changed");
}

#[test]
fn programs_open_more_files_than_the_usual_limit_of_a_process() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    const FILES: usize = 3000;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < FILES as u64 + 1000) {
        println!("skipped: this test may not open {FILES} files: {limit:?}");
        return;
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    for options in [&[][..], &["--no-passthrough"]] {
        let Some(union) = Mounted::start(options) else { return };
        let open = |number| fs::File::create_new(union.at(&format!("mnt/dir/{number}")));
        let open: Vec<fs::File> = (0..FILES).map(|number| open(number).unwrap()).collect();
        assert_eq!(open.len(), FILES);
    }
}

/// What systemd would run of the unit: the line of a key, with the variables of its environment.
fn of_unit(key: &str, variables: &[(&str, &Path)]) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dist/systemd");
    let unit = fs::read_to_string(path.join("braid-union@.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{key}=")));
    let line = line.unwrap().strip_prefix("/usr/bin/braid ").unwrap();
    let words = line.split(' ').map(|word| {
        let value = |name: &str, value: &Path| {
            word.replace(&format!("${{{name}}}"), value.to_str().unwrap())
        };
        let known = variables.iter().map(|(name, to)| value(name, to));
        known.into_iter().find(|known| known != word).unwrap_or_else(|| word.to_owned())
    });
    words.filter(|word| word != "$BRAID_UNION_OPTIONS").collect()
}

#[test]
fn the_unit_and_a_line_of_fstab_mount_a_union() {
    let Some(mut union) = Mounted::start(&[]) else { return };
    union.kill();
    let (meta, point) = (union.at("meta"), union.at("mnt"));
    let variables = [("BRAID_UNION_META", &*meta), ("BRAID_UNION_POINT", &*point)];
    let source = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(point.to_str().unwrap()))?;
        Some(line.split(" - fuse.braid ").nth(1)?.split(' ').next()?.to_owned())
    };
    let run = |arguments: &[String]| {
        let ran = braid().args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran));
        text(&ran)
    };
    run(&of_unit("ExecStart", &variables));
    assert_eq!(source().as_deref(), Some("union:media"));
    assert_eq!(fs::read_to_string(point.join("old")).unwrap(), "old");
    let printed = run(&of_unit("ExecStop", &variables));
    assert!(printed.contains("braid union up META"), "{printed}");
    assert_eq!(source(), None);

    // What mount(8) runs for a line of /etc/fstab.
    let helper = union.at("mount.braid");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_braid"), &helper).unwrap();
    // The process of before may still write to the disks.
    let mut mounted = None;
    for _ in 0..100 {
        let mut command = Command::new(&helper);
        let ran = command.args([&meta, &point]).args(["-o", "rw,nofail,degraded"]).output();
        let ran = ran.unwrap();
        if ran.status.success() {
            assert_eq!(text(&ran), "");
            mounted = source();
            break;
        }
        assert!(text(&ran).contains("another process"), "{}", text(&ran));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Otherwise `mount -a` would mount it again.
    assert_eq!(mounted.as_deref(), meta.to_str());
    run(&["umount".to_owned(), point.to_str().unwrap().to_owned()]);
}
