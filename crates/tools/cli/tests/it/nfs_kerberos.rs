//! `braid nfs` with Kerberos: a KDC of MIT Kerberos, the command, and a client with tickets.
//!
//! The library reads its configuration from the environment, which a process with threads cannot
//! change. So the test starts itself again with the environment of the KDC.
#![cfg(target_os = "linux")]

#[path = "nfs_kerberos/client.rs"]
mod client;
#[path = "../../../../gateway/gss/tests/it/kdc.rs"]
mod kdc;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use braid_nfs_wire::{
    nfs4::{NfsStatus, ResOp},
    rpc::gss::Service,
};
use client::Client;
use kdc::Kdc;

use crate::harness::{Cluster, Daemon, binary, daemon_logging};

/// Set in the process that runs the scenario: the directory of the KDC.
const DIRECTORY: &str = "BRAID_NFS_TEST_KDC";
const NAME: &str = "nfs_kerberos::exports_with_kerberos_are_used_by_users_with_tickets";

#[test]
fn exports_with_kerberos_are_used_by_users_with_tickets() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return scenario(directory.as_ref());
    }
    let kdc = match Kdc::start() {
        Ok(kdc) => kdc,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let output = Command::new(env::current_exe().expect("this test's file"))
        .args(["--exact", NAME, "--nocapture"])
        .env(DIRECTORY, kdc.directory())
        .envs(kdc.environment())
        .output()
        .expect("this test again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}\n{}", kdc.log());
    assert!(text.contains("the scenario ends"), "{text}");
}

/// A gateway over a cluster.
struct Gateway {
    _daemon: Daemon,
    address: String,
    log: PathBuf,
}

impl Gateway {
    fn start(cluster: &Cluster, keytab: &Path, export: &str) -> Self {
        let path = |name: &str| cluster.path().join(name);
        let log = path(&format!("{}.log", keytab.file_name().unwrap().to_str().unwrap()));
        let mut command = binary().command();
        command.arg("--config").arg(path("braid.toml"));
        command.arg("nfs").arg("--key").arg(path("keys/client.key"));
        command.args(["--listen", "127.0.0.1:0", "--export", export]).arg("--keytab").arg(keytab);
        let _daemon = daemon_logging(&mut command, &log);
        let port = Self::wait(&log, "next: mount -t nfs4 -o vers=4.2,port=");
        let port = port.split("port=").nth(1).unwrap().split(',').next().unwrap();
        Self { _daemon, address: format!("127.0.0.1:{port}"), log }
    }

    /// The first line of the log with these words.
    fn wait(log: &Path, words: &str) -> String {
        loop {
            let text = fs::read_to_string(log).unwrap();
            if let Some(line) = text.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn logs(&self, words: &str) -> String {
        Self::wait(&self.log, words)
    }
}

fn scenario(directory: &Path) {
    let keytab = |name: &str| directory.join(format!("{name}.keytab"));
    let cluster = Cluster::up(1);
    cluster.ok(&["mkdir", "-m", "1777", "/scratch"]);
    let gateway = Gateway::start(&cluster, &keytab("nfs"), "/=127.0.0.1,sec=krb5p:krb5i");
    gateway.logs("Kerberos: nfs/localhost@TEST.BRAIDFS of ");
    gateway.logs(",sec=krb5p localhost:/ /mnt");
    let user = |principal: &str, service| {
        Client::connect(
            &gateway.address,
            &keytab(principal.split(['/', '@']).next().unwrap()),
            principal,
            service,
        )
    };

    // The user `daemon` has the number 1 in Debian; others act as the anonymous user.
    let mut daemon = user("daemon@TEST.BRAIDFS", Service::Privacy).unwrap();
    assert_eq!(daemon.make_directory("scratch", "of-daemon"), Ok("1".to_owned()));
    for (principal, name) in [("alice@TEST.BRAIDFS", "a"), ("host/localhost@TEST.BRAIDFS", "h")] {
        let mut client = user(principal, Service::Integrity).unwrap();
        let owner = client.make_directory("scratch", name);
        assert_eq!(owner, Ok("65534".to_owned()), "{principal}");
    }
    gateway.logs("alice@TEST.BRAIDFS is no user of this host");
    cluster.ok(&["stat", "/scratch/of-daemon"]);
    let flavours = daemon.security_of("scratch");
    assert_eq!(flavours, [3, 2], "krb5p, then krb5i, as the export names them");
    drop(daemon);

    // Authentication alone is not what the export names; nor is AUTH_SYS.
    let mut weak = user("daemon@TEST.BRAIDFS", Service::None).unwrap();
    assert_eq!(weak.make_directory("scratch", "weak"), Err(NfsStatus::WrongSec));
    gateway.logs("export /: a client used sec=krb5; it has sec=krb5p:krb5i");
    let mut plain = Client::plain(&gateway.address);
    assert_eq!(plain.make_directory("scratch", "plain"), Err(NfsStatus::WrongSec));

    // The keytab of another host: its gateway starts, and says why it refuses clients.
    let wrong = Gateway::start(&cluster, &keytab("other"), "/=127.0.0.1,sec=krb5");
    wrong.logs("the keytab is not for ");
    let daemon = "daemon@TEST.BRAIDFS";
    assert!(Client::connect(&wrong.address, &keytab("daemon"), daemon, Service::None).is_err());
    let line = wrong.logs("a Kerberos client was refused");
    assert!(line.contains("peer=127.0.0.1:") && line.contains("nfs/localhost"), "{line}");
    assert!(line.contains("WARN") && line.contains("klist -k"), "{line}");

    println!("the scenario ends");
}

/// Fails the test: a result of another operation.
fn unexpected(result: &ResOp) -> ! {
    panic!("{result:?}")
}
