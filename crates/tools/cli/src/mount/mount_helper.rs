//! `mount.braid`: the helper that mount(8) runs for `mount -t braid SOURCE POINT` and for lines of
//! /etc/fstab.
//!
//! The mount table shows the type `fuse.braid`. If the helper of libfuse is installed, mount(8)
//! runs that for `-o remount`, and it runs `braid SOURCE POINT -o OPTIONS`.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::CommandFactory;

use crate::args::Cli;

/// The names of helpers that mount(8) looks for in /sbin.
const NAMES: [&str; 2] = ["mount.braid", "mount.fuse.braid"];

/// The arguments of `braid mount`, if the program runs under the helper's name: `mount.braid SOURCE
/// POINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]` (mount(8), EXTERNAL HELPERS). `None`: there
/// is nothing to do (`-f`).
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let given: Vec<OsString> = given.into_iter().collect();
    match given.split_first() {
        Some((program, rest)) if is_helper(program) => translate(rest, true),
        Some((_, rest)) if is_libfuse_call(rest) => translate(rest, false),
        _ => Some(given),
    }
}

fn is_helper(program: &OsStr) -> bool {
    NAMES.iter().any(|name| Path::new(program).file_name() == Some(OsStr::new(name)))
}

/// `SOURCE POINT -o OPTIONS`: the arguments from libfuse's helper.
fn is_libfuse_call(given: &[OsString]) -> bool {
    let [source, point, flag, _] = given else { return false };
    let commands = Cli::command();
    let is_source =
        |source: &str| !source.starts_with('-') && commands.find_subcommand(source).is_none();
    source.to_str().is_none_or(is_source) && Path::new(point).is_absolute() && flag == "-o"
}

/// The defaults of mount(8). It removes `suid` and `dev` before it calls a helper, and passes
/// `nosuid` and `nodev` where they apply, also for mounts of ordinary users.
const MOUNT_DEFAULTS: [&str; 2] = ["-o", "suid,dev"];

fn translate(given: &[OsString], by_mount: bool) -> Option<Vec<OsString>> {
    let mut arguments: Vec<OsString> = ["braid", "mount"].map(OsString::from).into();
    if by_mount {
        // A successful helper prints nothing.
        arguments.extend(MOUNT_DEFAULTS.into_iter().chain(["--quiet"]).map(OsString::from));
    }
    let (mut places, mut given) = (Vec::new(), given.iter());
    while let Some(argument) = given.next() {
        match argument.to_str() {
            Some("-o") => arguments.extend([OsString::from("-o"), given.next()?.clone()]),
            // The process is already in the namespace, and the type is ours.
            Some("-N" | "-t") => drop(given.next()),
            Some(flags) if flags.starts_with('-') && flags.len() > 1 => {
                if flags.contains('f') {
                    return None;
                }
                arguments.extend(flags.contains('v').then(|| "-v".into()));
                arguments.extend(flags.contains('s').then(|| "--sloppy".into()));
            }
            _ => places.push(argument),
        }
    }
    if let [source, point, ..] = places[..] {
        if is_pool(source) && !arguments.iter().any(|argument| is_remount(argument)) {
            return Some(union_arguments(&arguments, source, point));
        }
        arguments.extend(source_arguments(source));
        arguments.extend(["--".into(), point.clone()]);
    } else {
        arguments.extend(places.into_iter().cloned());
    }
    Some(arguments)
}

/// Whether the source is the metadata directory of a union.
fn is_pool(source: &OsStr) -> bool {
    Path::new(source).join("pool.toml").is_file()
}

fn is_remount(options: &OsStr) -> bool {
    options.to_str().is_some_and(|words| words.split(',').any(|word| word == "remount"))
}

/// The arguments of `braid union up`, from those of `braid mount`. The mount table shows the source
/// as it was given.
fn union_arguments(mount: &[OsString], source: &OsStr, point: &OsStr) -> Vec<OsString> {
    let options = mount.iter().skip(2).filter(|argument| *argument != "--sloppy").cloned();
    let mut arguments: Vec<OsString> = ["braid", "union", "up"].map(OsString::from).into();
    arguments.extend(options);
    arguments.extend(["--source".into(), source.to_owned(), "--".into()]);
    arguments.extend([source.to_owned(), point.to_owned()]);
    arguments
}

/// A file is a configuration, `braid` and `none` mean the default one, everything else is
/// addresses. The mount table shows the source as it was given: mount(8) finds its line of
/// /etc/fstab by it.
fn source_arguments(source: &OsStr) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("--source"), source.to_owned()];
    match source.to_str() {
        Some("braid" | "none" | "") => {}
        Some(text) if !text.contains('/') && !text.ends_with(".toml") => {
            arguments.extend(["--mds".into(), OsString::from(text)]);
        }
        _ => arguments.extend(["--config".into(), source.to_owned()]),
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn given(text: &str) -> Option<String> {
        let words = arguments(text.split(' ').map(OsString::from))?;
        Some(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_line_of_fstab_becomes_a_mount() {
        assert_eq!(
            given("/sbin/mount.braid mds1:7700,mds2:7700 /mnt -o rw,_netdev,key=/etc/k").unwrap(),
            "braid mount -o suid,dev --quiet -o rw,_netdev,key=/etc/k \
             --source mds1:7700,mds2:7700 --mds mds1:7700,mds2:7700 -- /mnt"
        );
        assert_eq!(
            given("mount.braid /etc/braid/braid.toml /mnt -sv -t braid").unwrap(),
            "braid mount -o suid,dev --quiet -v --sloppy --source /etc/braid/braid.toml \
             --config /etc/braid/braid.toml -- /mnt"
        );
        assert_eq!(
            given("mount.braid braid /mnt -n").unwrap(),
            "braid mount -o suid,dev --quiet --source braid -- /mnt"
        );
    }

    #[test]
    fn libfuses_helper_is_understood_too() {
        let wanted = "braid mount --source host:7700 --mds host:7700 -o ro,remount -- /mnt";
        assert_eq!(
            given("braid host:7700 /mnt -o ro,remount").map(sorted),
            Some(sorted(wanted.into()))
        );
    }

    #[test]
    fn what_mount_leaves_out_is_what_it_means_and_what_it_says_counts() {
        let read = |text| {
            let words = arguments(str::split(text, ' ').map(OsString::from)).unwrap();
            let cli = Cli::try_parse_from(words).unwrap();
            let crate::args::Command::Mount(args) = cli.command else { panic!("not a mount") };
            let mount = super::super::options::read(&args, &cli.global).unwrap().mount;
            (mount.suid, mount.dev, cli.global.quiet)
        };
        assert_eq!(read("mount.braid mds:7700 /mnt -o rw,key=/k"), (true, true, true));
        assert_eq!(
            read("mount.fuse.braid mds:7700 /mnt -o rw,noexec,nosuid,nodev,user,key=/k"),
            (false, false, true)
        );
        assert_eq!(read("mount.braid mds:7700 /mnt -o rw,nodev,key=/k"), (true, false, true));
        assert_eq!(read("braid mount /mnt -o rw,key=/k --mds mds:7700"), (false, false, false));
    }

    fn sorted(words: String) -> Vec<String> {
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.sort();
        words
    }

    #[test]
    fn a_line_of_fstab_with_a_pool_becomes_a_union() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pool.toml"), "").unwrap();
        let meta = dir.path().to_str().unwrap();
        let read = given(&format!("mount.braid {meta} /media -sn -o rw,degraded,nofail")).unwrap();
        assert_eq!(
            read,
            format!(
                "braid union up -o suid,dev --quiet -o rw,degraded,nofail --source {meta} -- \
                 {meta} /media"
            )
        );
        let cli = Cli::try_parse_from(read.split(' ')).unwrap();
        let crate::args::Command::Union(crate::args::UnionCommand::Up(up)) = cli.command else {
            panic!("not a union")
        };
        assert_eq!(up.source.as_deref(), Some(meta));
        assert_eq!(up.options, ["suid", "dev", "rw", "degraded", "nofail"]);
        let remount = given(&format!("mount.braid {meta} /media -o remount,ro")).unwrap();
        assert!(remount.starts_with("braid mount"), "{remount}");
    }

    #[test]
    fn a_fake_mount_does_nothing() {
        assert_eq!(given("mount.braid braid /mnt -fn"), None);
    }

    #[test]
    fn under_its_own_name_nothing_is_changed() {
        assert_eq!(given("braid mount /mnt -f").unwrap(), "braid mount /mnt -f");
        assert_eq!(given("braid mount /mnt -o ro").unwrap(), "braid mount /mnt -o ro");
    }
}
