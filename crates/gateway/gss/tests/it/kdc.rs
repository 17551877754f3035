//! A KDC of MIT Kerberos in a temporary directory, on a free port of the loopback interface.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub const REALM: &str = "TEST.BRAIDFS";

/// The programs, which Debian installs where a user's `PATH` does not look.
const PROGRAMS: [&str; 3] = ["krb5kdc", "kdb5_util", "kadmin.local"];

/// A running KDC with the principals of the scenarios; killed when dropped.
pub struct Kdc {
    directory: TempDir,
    process: Child,
}

impl Kdc {
    /// Starts a KDC. The error is the reason why the test cannot run.
    pub fn start() -> Result<Self, String> {
        let missing = PROGRAMS.iter().find(|program| find(program).is_none());
        if let Some(missing) = missing {
            return Err(format!(
                "{missing} is not installed; try: apt install krb5-kdc krb5-admin-server"
            ));
        }
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path();
        write_configuration(path, free_port());
        run(path, "kdb5_util", &["create", "-s", "-r", REALM, "-P", "master key of the test"]);
        for (principal, keytab) in [
            ("nfs/localhost", "nfs.keytab"),
            ("host/localhost", "host.keytab"),
            ("alice", "alice.keytab"),
            ("nfs/other", "other.keytab"),
            // A user that every system has.
            ("daemon", "daemon.keytab"),
        ] {
            let file = path.join(keytab);
            let file = file.to_str().expect("a path in UTF-8");
            run(path, "kadmin.local", &["-q", &format!("addprinc -randkey {principal}")]);
            run(path, "kadmin.local", &["-q", &format!("ktadd -k {file} {principal}")]);
        }
        let mut process = command(path, "krb5kdc")
            .arg("-n")
            .stderr(Stdio::piped())
            .spawn()
            .expect("krb5kdc starts");
        let mut lines = BufReader::new(process.stderr.take().expect("its log")).lines();
        let mut log = String::new();
        loop {
            let line = lines.next().map(|line| line.expect("a line of krb5kdc's log"));
            let Some(line) = line else { panic!("krb5kdc ended:\n{log}") };
            log += &format!("{line}\n");
            if line.contains("commencing operation") {
                break;
            }
        }
        // The log is read to its end, so that the KDC never waits for a full pipe.
        let mut file = File::create(path.join("kdc.log")).expect("the log");
        file.write_all(log.as_bytes()).expect("the log");
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = writeln!(file, "{line}");
            }
        });
        Ok(Self { directory, process })
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn environment(&self) -> [(&'static str, PathBuf); 4] {
        environment(self.directory())
    }

    /// What the KDC has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory().join("kdc.log")).unwrap_or_default()
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn environment(directory: &Path) -> [(&'static str, PathBuf); 4] {
    [
        ("KRB5_CONFIG", directory.join("krb5.conf")),
        ("KRB5_KDC_PROFILE", directory.join("kdc.conf")),
        ("KRB5RCACHEDIR", directory.to_owned()),
        ("KRB5CCNAME", directory.join("tickets")),
    ]
}

/// The path of a program of the KDC.
fn find(program: &str) -> Option<PathBuf> {
    let directories = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/lib/mit/sbin"];
    directories.iter().map(|directory| Path::new(directory).join(program)).find(|p| p.is_file())
}

fn command(directory: &Path, program: &str) -> Command {
    let mut command = Command::new(find(program).expect("an installed program"));
    command.envs(environment(directory)).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let output = command(directory, program)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}

/// A port that is free for TCP and UDP.
fn free_port() -> u16 {
    (0..100)
        .find_map(|_| {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            let port = tcp.local_addr().ok()?.port();
            UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
            Some(port)
        })
        .expect("a free port")
}

fn write_configuration(directory: &Path, port: u16) {
    let path = directory.display();
    let client = format!(
        "[libdefaults]
            default_realm = {REALM}
            dns_lookup_kdc = false
            dns_lookup_realm = false
            dns_canonicalize_hostname = false
            rdns = false
        [realms]
            {REALM} = {{
                kdc = 127.0.0.1:{port}
            }}
        [domain_realm]
            localhost = {REALM}
        [logging]
            kdc = STDERR
        "
    );
    let server = format!(
        "[kdcdefaults]
            kdc_listen = 127.0.0.1:{port}
            kdc_tcp_listen = 127.0.0.1:{port}
        [realms]
            {REALM} = {{
                database_name = {path}/principal
                key_stash_file = {path}/stash
                acl_file = {path}/kadm5.acl
            }}
        [logging]
            kdc = STDERR
        "
    );
    fs::write(directory.join("krb5.conf"), client).expect("krb5.conf");
    fs::write(directory.join("kdc.conf"), server).expect("kdc.conf");
}
