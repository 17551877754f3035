//! GlusterFS, as Debian has it: one volume spread over four bricks, each a process.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::shell::{need, sh};

/// Bricks, as many as BraidFS has I/O daemons here.
const BRICKS: usize = crate::daemons::IODS;

/// A running volume. Dropping it stops and removes it.
pub struct Gluster {
    dir: PathBuf,
    /// It refuses a number of loopback as its peer's name.
    host: String,
}

const START: &str = r#"
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
glusterd -f "$1/glusterd.vol" -l "$1/log/glusterd.log" -p "$1/glusterd.pid"
for try in $(seq 100); do test -S "$1/glusterd.socket" && break; sleep 0.1; done
"#;

const VOLUME: &str = r#"
dir=$1; host=$2; shift 2
gluster --mode=script --glusterd-sock="$dir/glusterd.socket" volume create bench "$@" force
gluster --mode=script --glusterd-sock="$dir/glusterd.socket" volume start bench
for try in $(seq 50); do mount -t glusterfs "$host:/bench" "$dir/mount" && exit 0; sleep 0.2; done
exit 1
"#;

const STOP: &str = r#"
umount -l "$1/mount" 2>/dev/null || true
gluster --mode=script --glusterd-sock="$1/glusterd.socket" volume stop bench force || true
kill "$(cat "$1/glusterd.pid")"
"#;

impl Gluster {
    /// Installs it where it is missing, and starts it in a new directory.
    pub fn start(dir: &Path) -> Result<Self> {
        need("glusterd", &["glusterfs-server", "glusterfs-client"])?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        let gluster = Self { dir: dir.to_owned(), host };
        fs::create_dir_all(dir)?;
        sh(START, &[&gluster.show("")]).context("starting glusterd")?;
        let bricks: Vec<String> = (0..BRICKS).map(|at| gluster.show(&format!("brick{at}"))).collect();
        bricks.iter().try_for_each(fs::create_dir_all)?;
        let bricks: Vec<String> = bricks.iter().map(|brick| format!("{}:{brick}", gluster.host)).collect();
        let (place, host) = (gluster.show(""), gluster.host.clone());
        let arguments: Vec<&str> =
            [place.as_str(), host.as_str()].into_iter().chain(bricks.iter().map(String::as_str)).collect();
        sh(VOLUME, &arguments).context("making and mounting a volume")?;
        Ok(gluster)
    }

    /// Where it is mounted.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// A new client.
    pub fn remount(&self) -> Result<()> {
        let script = "umount \"$1/mount\"; mount -t glusterfs \"$2:/bench\" \"$1/mount\"";
        sh(script, &[&self.show(""), &self.host]).map(drop)
    }

    fn show(&self, name: &str) -> String {
        let path = if name.is_empty() { self.dir.clone() } else { self.dir.join(name) };
        path.display().to_string()
    }
}

impl Drop for Gluster {
    fn drop(&mut self) {
        if let Err(error) = sh(STOP, &[&self.show("")]) {
            eprintln!("bench: stopping GlusterFS: {error:#}");
        }
    }
}
