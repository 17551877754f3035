//! GlusterFS from Debian: three volumes over a brick on each I/O daemon's host.
//!
//! The volume files for bricks and clients are written as `glusterd` writes them, without
//! translators that are idle here. No `glusterd` is needed, whose ports and paths exist once on a
//! machine.

use std::{fmt::Write as _, fs, net::TcpStream, time::Duration};

use anyhow::{Context, Result, bail};
use braid_netlab::{Host, Lab};
use braid_testbed::programs::need;

use super::{
    super::one_client::DAEMONS,
    subject::{Server, Subject},
};

/// The port of the first volume's brick; the next volume's is one higher.
const PORT: u16 = 24_101;
/// How often a brick is polled until it listens, and the pause between polls.
const TRIES_MAX: u32 = 300;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A volume: its name as a subject, and the translators over the bricks: name, type, options.
type Kind = (&'static str, &'static [Translator]);
type Translator = (&'static str, &'static str, &'static [&'static str]);

const DISTRIBUTE: Translator = ("dht", "cluster/distribute", &[]);
const KINDS: [Kind; 3] = [
    // A file is on one brick.
    ("gluster_distribute", &[DISTRIBUTE]),
    // Files are split into blocks on all bricks.
    ("gluster_shard", &[DISTRIBUTE, ("shard", "features/shard", &["shard-block-size 4MB"])]),
    // 3 + 1: three bricks store the bytes, the fourth the redundancy.
    ("gluster_disperse", &[("ec", "cluster/disperse", &["redundancy 1"])]),
];
/// The translators above each of them, as by default.
const CLIENT: [Translator; 6] = [
    ("utime", "features/utime", &[]),
    ("write-behind", "performance/write-behind", &[]),
    ("open-behind", "performance/open-behind", &[]),
    ("quick-read", "performance/quick-read", &[]),
    ("md-cache", "performance/md-cache", &[]),
    ("io-threads", "performance/io-threads", &[]),
];

/// The ports of the bricks of all volumes.
pub fn ports() -> impl Iterator<Item = u16> {
    (PORT..).take(KINDS.len())
}

/// The volumes, each a subject.
pub fn start(lab: &Lab) -> Result<Vec<Subject>> {
    need("glusterfsd", &["glusterfs-server", "glusterfs-client"])?;
    KINDS.into_iter().zip(ports()).map(|(kind, port)| volume(lab, kind, port)).collect()
}

fn volume(lab: &Lab, (name, over): Kind, port: u16) -> Result<Subject> {
    let hosts = (0..DAEMONS)
        .map(|iod| lab.network().host(&format!("iod{iod}")))
        .collect::<Result<Vec<_>>>()?;
    let dir = lab.dir().join(name);
    fs::create_dir(&dir)?;
    let show = |file: &str| dir.join(file).display().to_string();
    let mut servers = Vec::new();
    for host in &hosts {
        let (brick, file, log) = (
            show(&host.name),
            show(&format!("{}.vol", host.name)),
            show(&format!("{}.log", host.name)),
        );
        fs::create_dir(&brick)?;
        fs::write(&file, of_brick(&brick, host.address(), port))?;
        let said = dir.join(format!("{}.said", host.name));
        servers.push(Server::start(host, &said, "glusterfsd", &["-N", "-f", &file, "-l", &log])?);
    }
    for (host, server) in hosts.iter().zip(&mut servers) {
        listens(host, port, server)
            .with_context(|| format!("a brick of {name} on {}", host.name))?;
    }
    let file = show("client.vol");
    let addresses: Vec<&str> = hosts.iter().map(|host| host.address()).collect();
    fs::write(&file, of_client(&addresses, port, over))?;
    let log = show("client.log");
    Subject::new(name, lab, servers, |point| {
        ["glusterfs", "-f", &file, "-l", &log, &point].map(str::to_owned).to_vec()
    })
}

fn listens(host: &Host, port: u16, server: &mut Server) -> Result<()> {
    for _ in 0..TRIES_MAX {
        server.check()?;
        if host.inside(|| Ok(TcpStream::connect((host.address(), port)).is_ok()))? {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("no process listens on port {port}")
}

/// One translator of a volume file.
fn translator(text: &mut String, (name, kind, options): (&str, &str, &[&str]), below: &[String]) {
    let _ = writeln!(text, "volume {name}\n  type {kind}");
    for option in options {
        let _ = writeln!(text, "  option {option}");
    }
    if !below.is_empty() {
        let _ = writeln!(text, "  subvolumes {}", below.join(" "));
    }
    text.push_str("end-volume\n");
}

fn of_brick(brick: &str, address: &str, port: u16) -> String {
    let mut text = String::new();
    let below = |name: &str| [name.to_owned()];
    let (directory, listen, bind) = (
        format!("directory {brick}"),
        format!("transport.socket.listen-port {port}"),
        format!("transport.socket.bind-address {address}"),
    );
    translator(&mut text, ("posix", "storage/posix", &[&directory]), &[]);
    translator(&mut text, ("locks", "features/locks", &[]), &below("posix"));
    translator(&mut text, ("threads", "performance/io-threads", &[]), &below("locks"));
    let server = [
        "transport-type tcp",
        "transport.address-family inet",
        &listen,
        &bind,
        "auth.addr.threads.allow *",
    ];
    translator(&mut text, ("server", "protocol/server", &server), &below("threads"));
    text
}

fn of_client(addresses: &[&str], port: u16, over: &[Translator]) -> String {
    let mut text = String::new();
    let mut below = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        let (name, host, port) =
            (format!("brick{at}"), format!("remote-host {address}"), format!("remote-port {port}"));
        // Bricks in memory do not support O_DIRECT; the client's own cache is bypassed
        // nevertheless.
        let options = [
            "transport-type tcp",
            "transport.address-family inet",
            &host,
            &port,
            "remote-subvolume threads",
            "filter-O_DIRECT on",
        ];
        translator(&mut text, (&name, "protocol/client", &options), &[]);
        below.push(name);
    }
    for one in over.iter().chain(&CLIENT) {
        translator(&mut text, *one, &below);
        below = vec![one.0.to_owned()];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_spread_over_all_its_bricks() {
        let text = of_client(&["10.0.0.1", "10.0.0.2"], 7, KINDS[1].1);
        let wanted = "volume dht\n  type cluster/distribute\n  subvolumes brick0 \
            brick1\nend-volume\n\
                      volume shard\n  type features/shard\n  option shard-block-size 4MB\n  \
                      subvolumes dht\nend-volume\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("  option remote-host 10.0.0.2\n  option remote-port 7\n"), "{text}");
        assert!(text.ends_with(
            "volume io-threads\n  type performance/io-threads\n  subvolumes md-cache\nend-volume\n"
        ));
        assert!(of_brick("/brick", "10.0.0.1", 7).contains("  option directory /brick\n"));
    }
}
