//! What is measured: a directory, and how its client is made cold.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_crash_tests::braid::Braid;
use braid_mount_tests::stage::mount::Mount;

use super::{
    gluster::{self, Gluster},
    moosefs::MooseFs,
    passthrough::{Example, Passthrough},
    shell::sh,
};
use crate::{args::MountArgs, bench::Bench, touched::touch_free_memory};

/// The local file system.
pub const LOCAL: &str = "ext4";
/// BraidFS.
pub const OURS: &str = "braid";
/// The others.
pub const RIVALS: &[&str] = &[gluster::DISTRIBUTE.name, gluster::DISPERSE.name, gluster::SHARD.name, MOOSEFS];
const MOOSEFS: &str = "moosefs";
/// libfuse's example over the local file system: what FUSE itself costs.
pub const PASSTHROUGH: &str = "passthrough";
/// Its other example, which has the kernel remember names, attributes and bytes: what FUSE costs where nothing is asked twice.
pub const PASSTHROUGH_LL: &str = "passthrough_ll";
/// All, in the order of the report.
pub const NAMES: &[&str] = &[
    LOCAL,
    PASSTHROUGH,
    PASSTHROUGH_LL,
    OURS,
    gluster::DISTRIBUTE.name,
    gluster::DISPERSE.name,
    gluster::SHARD.name,
    MOOSEFS,
];
/// Groups in which other layouts of GlusterFS are measured: they differ in where bytes lie.
const OF_BYTES: &[&str] = &["sequential", "parallel"];
/// Groups in which the second example is measured: where it differs from the first.
const OF_NAMES: &[&str] = &["names", "tree", "clone"];

/// One file system.
pub struct Subject {
    dir: PathBuf,
    kind: Kind,
}

enum Kind {
    Local,
    Passthrough(Passthrough),
    Braid(RefCell<Mount>),
    Gluster(Gluster),
    MooseFs(MooseFs),
}

/// Starts a subject.
type Start = fn(&Bench) -> Result<Subject>;

/// Starts all that are asked for. The daemons run side by side: those that nobody asks anything are idle.
pub fn start(bench: &Bench, args: &MountArgs) -> Result<Vec<Subject>> {
    let dir = bench.scratch.join("local");
    fs::create_dir(&dir)?;
    let mut subjects = vec![Subject { dir, kind: Kind::Local }, braid(bench)?];
    let (fuse, rivals) = (args.rivals || args.passthrough, args.rivals);
    let others: [(bool, Start); 6] = [
        (fuse, passthrough),
        (fuse, passthrough_ll),
        (rivals, |bench| gluster(bench, gluster::DISTRIBUTE)),
        (rivals, |bench| gluster(bench, gluster::DISPERSE)),
        (rivals, |bench| gluster(bench, gluster::SHARD)),
        (rivals, moosefs),
    ];
    for (_, other) in others.into_iter().filter(|(wanted, _)| *wanted) {
        match other(bench) {
            Ok(subject) => subjects.push(subject),
            Err(error) => bench.note(format!("left out: {error:#}")),
        }
    }
    Ok(subjects)
}

/// A mount of the cluster.
pub fn braid(bench: &Bench) -> Result<Subject> {
    let cluster = bench.cluster()?;
    let point = bench.scratch.join("braid");
    let braid = Braid::at(cluster.binary().to_owned());
    let mount = Mount::start(&braid, point, &cluster.mds_address, &cluster.key, &[]).context("mounting BraidFS")?;
    Ok(Subject { dir: mount.point().to_owned(), kind: Kind::Braid(RefCell::new(mount)) })
}

fn passthrough(bench: &Bench) -> Result<Subject> {
    example(bench, Example::Passthrough)
}

fn passthrough_ll(bench: &Bench) -> Result<Subject> {
    example(bench, Example::PassthroughLl)
}

fn example(bench: &Bench, example: Example) -> Result<Subject> {
    let name = example.name();
    let passthrough = Passthrough::start(&bench.scratch.join(name), example).context(name)?;
    Ok(Subject { dir: passthrough.point(), kind: Kind::Passthrough(passthrough) })
}

fn gluster(bench: &Bench, volume_type: gluster::VolumeType) -> Result<Subject> {
    let gluster = Gluster::start(&bench.scratch.join(volume_type.name), volume_type).context(volume_type.name)?;
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
            Kind::Braid(_) => OURS,
            Kind::Gluster(gluster) => gluster.volume_type().name,
            Kind::MooseFs(_) => MOOSEFS,
        }
    }

    /// Whether it is measured in a group: the examples say what a byte costs, and what a name does; another layout, what a byte does.
    pub fn takes_part(&self, group: &str) -> bool {
        let of_names = OF_NAMES.contains(&group);
        match &self.kind {
            Kind::Passthrough(passthrough) => match passthrough.example() {
                Example::Passthrough => of_names || group == "sequential",
                Example::PassthroughLl => of_names,
            },
            Kind::Gluster(gluster) => gluster.volume_type() == gluster::DISTRIBUTE || OF_BYTES.contains(&group),
            _ => true,
        }
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file, as text.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Empties the client's caches and leaves those of the servers; of the local file system nothing is emptied.
    pub fn cold(&self) -> Result<()> {
        sh("sync", &[])?;
        match &self.kind {
            Kind::Local => (),
            Kind::Passthrough(passthrough) => passthrough.remount()?,
            Kind::Braid(mount) => {
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
