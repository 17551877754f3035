//! MooseFS from Debian: a master and four chunk servers, one copy of each chunk.
//!
//! Its servers refuse a master on 127.x, so it runs in a network namespace whose loopback has
//! another address too. `nsenter --net` enters the namespace and leaves the mounts where they are.
//!
//! Its processes set a nice level of -19, which on a machine with other work would measure the
//! scheduler: here they have the normal level.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs::need, shell::sh};

const SERVERS: usize = crate::daemons::IODS;
const ADDRESS: &str = "10.77.0.1";

/// A running cluster. Dropping it stops it and removes the namespace.
pub struct MooseFs {
    dir: PathBuf,
    namespace: String,
    _cleanup: Cleanup,
}

const START: &str = r#"
dir=$1; namespace=$2; address=$3; servers=$4
enter() { nsenter --net="/run/netns/$namespace" "$@"; }
ip netns add "$namespace"; enter ip link set lo up; enter ip addr add "$address/24" dev lo
mkdir -p "$dir/master" "$dir/mount"; cp /var/lib/mfs/metadata.mfs.empty "$dir/master/metadata.mfs"
printf '%s\n' '* / rw,alldirs,admin,maproot=0:0' '* . rw' > "$dir/exports.cfg"
printf '%s\n' DATA_PATH="$dir/master" NICE_LEVEL=0 WORKING_USER=root \
  WORKING_GROUP=root EXPORTS_FILENAME="$dir/exports.cfg" \
  MATOML_LISTEN_HOST=$address MATOCS_LISTEN_HOST=$address \
  MATOCL_LISTEN_HOST=$address > "$dir/master.cfg"
enter mfsmaster -c "$dir/master.cfg" start
for i in $(seq "$servers"); do
  mkdir -p "$dir/state$i" "$dir/data$i"; echo "$dir/data$i" > "$dir/disks$i.cfg"
  printf '%s\n' DATA_PATH="$dir/state$i" NICE_LEVEL=0 WORKING_USER=root \
    WORKING_GROUP=root HDD_CONF_FILENAME="$dir/disks$i.cfg" \
    MASTER_HOST=$address BIND_HOST=$address CSSERV_LISTEN_HOST=$address \
    CSSERV_LISTEN_PORT=$((9421 + i)) \
    HDD_LEAVE_SPACE_DEFAULT=1GiB > "$dir/server$i.cfg"
  enter mfschunkserver -c "$dir/server$i.cfg" start
done
for try in $(seq 60); do
  if enter mfsmount "$dir/mount" -H $address -o mfsnice=0 &&
    dd if=/dev/zero of="$dir/mount/probe" bs=1M count=1 status=none; then break; fi
  umount -l "$dir/mount" 2>/dev/null || true; sleep 0.5
done
rm "$dir/mount/probe"; enter mfssetgoal -r 1 "$dir/mount"
"#;

const STOP: &str = r#"
dir=$1; namespace=$2
enter() { nsenter --net="/run/netns/$namespace" "$@"; }
umount -l "$dir/mount"
for config in "$dir"/server*.cfg; do enter mfschunkserver -c "$config" stop; done
enter mfsmaster -c "$dir/master.cfg" stop
for try in $(seq 50); do test -z "$(ip netns pids "$namespace")" && break; sleep 0.1; done
ip netns pids "$namespace" | xargs -r kill -9
ip netns del "$namespace"
"#;

impl MooseFs {
    /// Installs it if it is missing, and starts it in a new directory.
    pub fn start(dir: &Path) -> Result<Self> {
        need("mfsmaster", &["moosefs-master", "moosefs-chunkserver", "moosefs-client"])?;
        need("ip", &["iproute2"])?;
        fs::create_dir_all(dir)?;
        let namespace = format!("braid-bench-moosefs-{}", std::process::id());
        let cleanup = Cleanup::new(STOP, &[&dir.display().to_string(), &namespace])?;
        let moosefs = Self { dir: dir.to_owned(), namespace, _cleanup: cleanup };
        let servers = SERVERS.to_string();
        sh(START, &[&moosefs.show(), &moosefs.namespace, ADDRESS, &servers])
            .context("start MooseFS")?;
        Ok(moosefs)
    }

    /// The mount point.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// Mounts it again: a client with a cold cache.
    pub fn remount(&self) -> Result<()> {
        let script = "umount \"$1/mount\"; nsenter --net=\"/run/netns/$2\" mfsmount \"$1/mount\" \
            -H $3 -o mfsnice=0";
        sh(script, &[&self.show(), &self.namespace, ADDRESS]).map(drop)
    }

    fn show(&self) -> String {
        self.dir.display().to_string()
    }
}
