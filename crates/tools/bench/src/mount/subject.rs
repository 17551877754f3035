//! A measured file system: a directory, and how its client's cache is emptied.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_mount_tests::stage::mount::Mount;
use braid_testbed::{braid::Braid, shell::sh};

use super::{
    gluster::{self, Gluster},
    moosefs::MooseFs,
    passthrough::{Example, Passthrough},
    uring,
};
use crate::{args::MountArgs, bench::Bench, free_memory::touch_free_memory};

/// The local file system.
pub const LOCAL: &str = "ext4";
/// BraidFS over `/dev/fuse`, the default.
pub const OURS: &str = "braid";
/// BraidFS over io_uring.
pub const OURS_URING: &str = "braid_uring";
/// Other networked file systems.
pub const OTHER_SYSTEMS: &[&str] =
    &[gluster::DISTRIBUTE.name, gluster::DISPERSE.name, gluster::SHARD.name, MOOSEFS];
/// One of them.
pub const MOOSEFS: &str = "moosefs";
/// libfuse's example over the local file system: the cost of FUSE itself.
pub const PASSTHROUGH: &str = "passthrough";
/// Its other example, with which the kernel caches names, attributes and bytes: the cost of FUSE
/// without repeated requests.
pub const PASSTHROUGH_LL: &str = "passthrough_ll";
/// The first example over io_uring.
pub const PASSTHROUGH_URING: &str = "passthrough_uring";
/// All subjects, in the order of the report.
pub const NAMES: &[&str] = &[
    LOCAL,
    PASSTHROUGH,
    PASSTHROUGH_LL,
    PASSTHROUGH_URING,
    OURS,
    OURS_URING,
    gluster::DISTRIBUTE.name,
    gluster::DISPERSE.name,
    gluster::SHARD.name,
    MOOSEFS,
];
/// Groups in which other layouts of GlusterFS are measured: they differ in the distribution of
/// bytes.
const OF_BYTES: &[&str] = &["sequential", "parallel"];
/// Groups in which the second example is measured: there it differs from the first.
const OF_NAMES: &[&str] = &["names", "tree", "clone"];

/// One file system.
pub struct Subject {
    dir: PathBuf,
    kind: Kind,
}

enum Kind {
    Local,
    Passthrough(Passthrough),
    Braid(&'static str, RefCell<Mount>),
    Gluster(Gluster),
    MooseFs(MooseFs),
}

/// Starts a subject.
type Start = fn(&Bench, &MountArgs) -> Result<Subject>;

/// Starts the requested subjects. All daemons run at the same time; those without requests are
/// idle.
pub fn start(bench: &Bench, args: &MountArgs) -> Result<Vec<Subject>> {
    let dir = bench.scratch.join("local");
    fs::create_dir(&dir)?;
    let mut subjects =
        vec![Subject { dir, kind: Kind::Local }, in_own_directory(bench, OURS, &[])?];
    let (fuse, rivals) = (args.rivals || args.passthrough, args.rivals);
    let by_uring = uring::is_offered();
    if by_uring {
        subjects.push(in_own_directory(bench, OURS_URING, &["io_uring=on"])?);
    } else {
        bench.note(uring::HINT);
    }
    let others: [(bool, Start); 7] = [
        (fuse, |bench, _| example(bench, Example::Passthrough)),
        (fuse, |bench, _| example(bench, Example::PassthroughLl)),
        (by_uring && (fuse || args.passthrough_uring.is_some()), passthrough_uring),
        (rivals, |bench, _| gluster(bench, gluster::DISTRIBUTE)),
        (rivals, |bench, _| gluster(bench, gluster::DISPERSE)),
        (rivals, |bench, _| gluster(bench, gluster::SHARD)),
        (rivals, |bench, _| moosefs(bench)),
    ];
    for (_, other) in others.into_iter().filter(|(wanted, _)| *wanted) {
        match other(bench, args) {
            Ok(subject) => subjects.push(subject),
            Err(error) => bench.note(format!("left out: {error:#}")),
        }
    }
    Ok(subjects)
}

/// A mount of the cluster.
pub fn braid(bench: &Bench) -> Result<Subject> {
    mounted(bench, OURS, &[])
}

fn mounted(bench: &Bench, name: &'static str, options: &[&str]) -> Result<Subject> {
    let cluster = bench.cluster()?;
    let point = bench.scratch.join(name);
    let braid = Braid::at(cluster.binary().to_owned());
    let mount = Mount::start(&braid, point, &cluster.mds_address, &cluster.key, options);
    let mount = mount.with_context(|| format!("mount BraidFS as {name}"))?;
    Ok(Subject { dir: mount.point().to_owned(), kind: Kind::Braid(name, RefCell::new(mount)) })
}

/// Mounts of one cluster use different directories, so that they do not recall each other's leases.
fn in_own_directory(bench: &Bench, name: &'static str, options: &[&str]) -> Result<Subject> {
    let mut subject = mounted(bench, name, options)?;
    subject.dir = subject.dir.join(name);
    fs::create_dir(&subject.dir)?;
    Ok(subject)
}

fn passthrough_uring(bench: &Bench, args: &MountArgs) -> Result<Subject> {
    let program = args.passthrough_uring.as_ref().context(
        "passthrough_uring: libfuse's example of version 3.18 or newer is needed; \
             try: --passthrough-uring FILE",
    )?;
    let passthrough = Passthrough::start_built(&bench.scratch.join(PASSTHROUGH_URING), program);
    let passthrough = passthrough.context(PASSTHROUGH_URING)?;
    Ok(Subject { dir: passthrough.point(), kind: Kind::Passthrough(passthrough) })
}

fn example(bench: &Bench, example: Example) -> Result<Subject> {
    let name = example.name();
    let passthrough = Passthrough::start(&bench.scratch.join(name), example).context(name)?;
    Ok(Subject { dir: passthrough.point(), kind: Kind::Passthrough(passthrough) })
}

fn gluster(bench: &Bench, volume_type: gluster::VolumeType) -> Result<Subject> {
    let gluster = Gluster::start(&bench.scratch.join(volume_type.name), volume_type)
        .context(volume_type.name)?;
    Ok(Subject { dir: gluster.point(), kind: Kind::Gluster(gluster) })
}

fn moosefs(bench: &Bench) -> Result<Subject> {
    let moosefs = MooseFs::start(&bench.scratch.join("moosefs")).context("MooseFS")?;
    Ok(Subject { dir: moosefs.point(), kind: Kind::MooseFs(moosefs) })
}

impl Subject {
    /// Its name in the report.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Local => LOCAL,
            Kind::Passthrough(passthrough) => passthrough.example().name(),
            Kind::Braid(name, _) => name,
            Kind::Gluster(gluster) => gluster.volume_type().name,
            Kind::MooseFs(_) => MOOSEFS,
        }
    }

    /// Whether it is measured in a group: the examples for the cost of bytes and names, other
    /// layouts for bytes only.
    pub fn is_measured_in(&self, group: &str) -> bool {
        let of_names = OF_NAMES.contains(&group);
        match &self.kind {
            Kind::Passthrough(passthrough) => match passthrough.example() {
                Example::Passthrough => of_names || group == "sequential",
                Example::PassthroughLl | Example::PassthroughUring => of_names,
            },
            Kind::Gluster(gluster) => {
                gluster.volume_type() == gluster::DISTRIBUTE || OF_BYTES.contains(&group)
            }
            _ => true,
        }
    }

    /// Whether it is BraidFS.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Braid(..))
    }

    /// The directory of its files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file, as text.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Empties the client's caches, not those of the servers; the local file system's cache stays.
    pub fn cold(&self) -> Result<()> {
        sh("sync", &[])?;
        match &self.kind {
            Kind::Local => (),
            Kind::Passthrough(passthrough) => passthrough.remount()?,
            Kind::Braid(_, mount) => {
                let mut mount = mount.borrow_mut();
                mount.stop()?;
                mount.restart()?;
            }
            Kind::Gluster(gluster) => gluster.remount()?,
            Kind::MooseFs(moosefs) => moosefs.remount()?,
        }
        touch_free_memory();
        Ok(())
    }
}
