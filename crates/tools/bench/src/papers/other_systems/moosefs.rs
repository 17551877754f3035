//! MooseFS from Debian: a master on the metadata server's host, a chunk server on each I/O
//! daemon's, one copy of each chunk.
//!
//! Its processes set a nice level of -19, which on a machine with other work would measure the
//! scheduler: here they have the normal level.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use braid_netlab::Lab;
use braid_testbed::{programs::need, shell::sh};

use super::{
    super::one_client::DAEMONS,
    subject::{Server, Subject},
};

/// The ports of the master and of a chunk server.
pub const MASTER_PORT: u16 = 9421;
pub const SERVER_PORT: u16 = 9422;
const PROBE: &str =
    "timeout 5 dd if=/dev/zero of=\"$1\" bs=1M count=8 conv=fsync status=none; rm \"$1\"";
/// Maximum time until the master knows the chunk servers, and the poll interval: some seconds are
/// usual.
const READY_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The initial metadata of a master.
const EMPTY: &str = "/var/lib/mfs/metadata.mfs.empty";

/// The file system, as a subject.
pub fn start(lab: &Lab) -> Result<Vec<Subject>> {
    need("mfsmaster", &["moosefs-master", "moosefs-chunkserver", "moosefs-client"])?;
    let dir = lab.dir().join("moosefs");
    let show = |name: &str| dir.join(name).display().to_string();
    fs::create_dir(&dir)?;
    let host = lab.network().host("mds")?;
    let master = host.address();
    fs::create_dir(dir.join("master"))?;
    fs::copy(EMPTY, dir.join("master/metadata.mfs")).with_context(|| EMPTY.to_owned())?;
    fs::write(dir.join("exports.cfg"), "* / rw,alldirs,admin,maproot=0:0\n* . rw\n")?;
    let common = "NICE_LEVEL=0\nWORKING_USER=root\nWORKING_GROUP=root\n";
    let settings = format!(
        "{common}DATA_PATH={}\nEXPORTS_FILENAME={}\nMATOML_LISTEN_HOST={master}\n\
            MATOCS_LISTEN_HOST={master}\n\
         MATOCL_LISTEN_HOST={master}\nMATOCL_LISTEN_PORT={MASTER_PORT}\n",
        show("master"),
        show("exports.cfg")
    );
    fs::write(dir.join("master.cfg"), settings)?;
    let start = |host, name: &str, program| {
        Server::start(
            host,
            &dir.join(format!("{name}.log")),
            program,
            &["-f", "-c", &show(&format!("{name}.cfg")), "start"],
        )
    };
    let mut servers = vec![start(host, "master", "mfsmaster")?];
    for iod in 0..DAEMONS {
        let host = lab.network().host(&format!("iod{iod}"))?;
        let (name, address) = (&host.name, host.address());
        for place in ["state", "data"] {
            fs::create_dir(dir.join(format!("{name}.{place}")))?;
        }
        fs::write(dir.join(format!("{name}.disks")), show(&format!("{name}.data")))?;
        let settings = format!(
            "{common}DATA_PATH={}\nHDD_CONF_FILENAME={}\nMASTER_HOST={master}\n\
                BIND_HOST={address}\nCSSERV_LISTEN_HOST={address}\n\
             CSSERV_LISTEN_PORT={SERVER_PORT}\nHDD_LEAVE_SPACE_DEFAULT=256MiB\n\
             MASTER_RECONNECTION_DELAY=1\n",
            show(&format!("{name}.state")),
            show(&format!("{name}.disks"))
        );
        fs::write(dir.join(format!("{name}.cfg")), settings)?;
        servers.push(start(host, name, "mfschunkserver")?);
    }
    ready(Subject::new("moosefs", lab, servers, |point| {
        ["mfsmount", &point, "-H", master, "-o", "mfsnice=0"].map(str::to_owned).to_vec()
    })?)
}

/// Waits until a write succeeds.
fn ready(subject: Subject) -> Result<Vec<Subject>> {
    let start = Instant::now();
    let probe = || -> Result<()> {
        subject.cold()?;
        // It connects to the master itself, not through the mount.
        subject.on_its_host("mfssetgoal", &["-r", "1", &subject.path("")])?;
        sh(PROBE, &[&subject.path("probe")]).map(drop)
    };
    loop {
        match probe() {
            Ok(()) => return Ok(vec![subject]),
            Err(error) if start.elapsed() > READY_MAX => {
                return Err(error.context("MooseFS accepts no writes"));
            }
            Err(_) => thread::sleep(LOOK_EVERY),
        }
    }
}
