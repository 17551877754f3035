//! GlusterFS from Debian: a volume over four bricks, each a process, in a network namespace, since
//! its port is fixed and may be in use on this machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs::need, shell::sh};

/// Number of bricks, as many as BraidFS's I/O daemons here.
const BRICKS: usize = crate::daemons::IODS;

/// How a volume distributes bytes over its bricks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeType {
    /// Its name as a subject.
    pub name: &'static str,
    /// The volume type for its creation, in words.
    layout: &'static str,
    /// Options set before it starts, `NAME=VALUE` in words.
    options: &'static str,
}

/// A file is on one brick.
pub const DISTRIBUTE: VolumeType = VolumeType { name: "gluster", layout: "", options: "" };
/// Three bricks store the bytes, the fourth the redundancy.
pub const DISPERSE: VolumeType =
    VolumeType { name: "gluster_disperse", layout: "disperse 4 redundancy 1", options: "" };
/// Files are split into blocks on all bricks.
pub const SHARD: VolumeType = VolumeType {
    name: "gluster_shard",
    layout: "",
    options: "features.shard=on features.shard-block-size=4MB",
};

/// A running volume. Dropping it stops and removes it.
pub struct Gluster {
    volume_type: VolumeType,
    dir: PathBuf,
    namespace: String,
    /// It refuses a loopback address as its peer's name.
    host: String,
    _cleanup: Cleanup,
}

const START: &str = r#"
ip netns add "$2"; nsenter --net="/run/netns/$2" ip link set lo up
mkdir -p "$1/work" "$1/run" "$1/log" "$1/mount"
cat > "$1/glusterd.vol" <<END
volume management
    type mgmt/glusterd
    option working-directory $1/work
    option run-directory $1/run
    option transport-type socket
    option transport.socket.listen-port 24007
    option transport.socket.bind-address 127.0.0.1
    option glusterd-sockfile $1/glusterd.socket
    option ping-timeout 0
    option max-port 60999
end-volume
END
nsenter --net="/run/netns/$2" glusterd \
    -f "$1/glusterd.vol" -l "$1/log/glusterd.log" -p "$1/glusterd.pid"
for try in $(seq 100); do test -S "$1/glusterd.socket" && break; sleep 0.1; done
"#;

const VOLUME: &str = r#"
dir=$1; namespace=$2; host=$3; layout=$4; options=$5; shift 5
volume() { gluster --mode=script --glusterd-sock="$dir/glusterd.socket" volume "$@"; }
volume create bench $layout "$@" force
for option in $options; do volume set bench "${option%%=*}" "${option#*=}"; done
volume start bench
for try in $(seq 50); do
  nsenter --net="/run/netns/$namespace" mount -t glusterfs \
    -o "log-file=$dir/log/client.log" "$host:/bench" "$dir/mount" && exit 0
  sleep 0.2
done
exit 1
"#;

const REMOUNT: &str = r#"
umount "$1/mount"
nsenter --net="/run/netns/$2" mount -t glusterfs \
    -o "log-file=$1/log/client.log" "$3:/bench" "$1/mount"
"#;

const STOP: &str = r#"
umount -l "$1/mount"
gluster --mode=script --glusterd-sock="$1/glusterd.socket" volume stop bench force
kill "$(cat "$1/glusterd.pid")"
for try in $(seq 50); do test -z "$(ip netns pids "$2")" && break; sleep 0.1; done
ip netns pids "$2" | xargs -r kill -9
ip netns del "$2"
"#;

impl Gluster {
    /// Installs it if it is missing, and starts it in a new directory.
    pub fn start(dir: &Path, volume_type: VolumeType) -> Result<Self> {
        need("glusterd", &["glusterfs-server", "glusterfs-client"])?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        need("ip", &["iproute2"])?;
        let namespace = format!("braid-bench-{}-{}", volume_type.name, std::process::id());
        fs::create_dir_all(dir)?;
        let cleanup = Cleanup::new(STOP, &[&dir.display().to_string(), &namespace])?;
        let gluster = Self { volume_type, dir: dir.to_owned(), namespace, host, _cleanup: cleanup };
        sh(START, &[&gluster.show(""), &gluster.namespace]).context("start glusterd")?;
        let bricks: Vec<String> =
            (0..BRICKS).map(|at| gluster.show(&format!("brick{at}"))).collect();
        bricks.iter().try_for_each(fs::create_dir_all)?;
        let bricks: Vec<String> =
            bricks.iter().map(|brick| format!("{}:{brick}", gluster.host)).collect();
        let place = gluster.show("");
        let mut arguments = vec![
            place.as_str(),
            &gluster.namespace,
            &gluster.host,
            volume_type.layout,
            volume_type.options,
        ];
        arguments.extend(bricks.iter().map(String::as_str));
        sh(VOLUME, &arguments).context("create and mount a volume")?;
        Ok(gluster)
    }

    /// How it distributes bytes over its bricks.
    pub fn volume_type(&self) -> VolumeType {
        self.volume_type
    }

    /// The mount point.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// Mounts it again: a client with a cold cache.
    pub fn remount(&self) -> Result<()> {
        sh(REMOUNT, &[&self.show(""), &self.namespace, &self.host]).map(drop)
    }

    fn show(&self, name: &str) -> String {
        let path = if name.is_empty() { self.dir.clone() } else { self.dir.join(name) };
        path.display().to_string()
    }
}
