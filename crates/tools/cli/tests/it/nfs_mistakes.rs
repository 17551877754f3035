//! What `braid nfs` says about keytabs and certificates that it cannot use. None of these tests
//! needs a cluster: the gateway checks its own files first.
#![cfg(target_os = "linux")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use tempfile::TempDir;

use crate::harness::{braid, text};

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A file with this content and mode.
    fn file(&self, name: &str, content: &[u8], mode: u32) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn missing(&self) -> String {
        self.0.path().join("missing").to_str().unwrap().to_owned()
    }
}

/// `braid nfs ARGS` must not start, and print this.
fn refused(args: &[&str], says: &[&str]) {
    let output = braid().arg("nfs").args(args).output().unwrap();
    let text = text(&output);
    // systemd starts a daemon with this status no more.
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    for part in says {
        assert!(text.contains(part), "{args:?}: {part:?} is not in {text}");
    }
}

#[test]
fn keytab_that_cannot_be_used_is_named_with_the_command_that_helps() {
    let files = Files::new();
    let kerberos = |keytab: &str, says: &[&str]| {
        refused(&["--export", "/=127.0.0.1,sec=krb5p", "--keytab", keytab], says);
    };
    kerberos(&files.missing(), &["No such file", "try: --keytab FILE", "ktadd -k", "nfs/"]);
    let open = files.file("open", b"\x05\x02", 0o644);
    kerberos(&open, &["its mode is 0644", &format!("try: chmod 600 {open}")]);
    kerberos(&files.file("text", b"secret", 0o600), &["it is no keytab of version 2"]);
    kerberos(&files.file("cut", b"\x05\x02\0\0\0\x09\0", 0o600), &["it is damaged"]);
    kerberos(&files.file("empty", b"\x05\x02", 0o600), &["no key of nfs/HOST; it is empty"]);
    kerberos(files.0.path().to_str().unwrap(), &["it is no file"]);
}

#[test]
fn certificate_and_key_that_cannot_be_used_are_named() {
    let files = Files::new();
    let certificates =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gateway/nfs/tests/certificates");
    let of = |name: &str, mode| files.file(name, &fs::read(certificates.join(name)).unwrap(), mode);
    let (certificate, key) = (of("server.pem", 0o644), of("server.key", 0o600));
    let tls = |certificate: &str, key: &str, says: &[&str]| {
        refused(&["--tls-cert", certificate, "--tls-key", key], says);
    };
    refused(&["--tls-cert", &certificate], &["--tls-key"]);
    refused(&["--tls-client-ca", &certificate], &["try: --tls-cert FILE --tls-key FILE"]);
    tls(&certificate, &files.missing(), &["missing: No such file"]);
    tls(&files.missing(), &key, &["missing: No such file"]);
    tls(&certificate, &of("renewed.key", 0o640), &["its mode is 0640", "try: chmod 600"]);
    tls(&certificate, &of("client.key", 0o600), &["client.key: no key of the certificate"]);
    tls(&key, &key, &["server.key: no certificate in PEM"]);
}

#[test]
fn export_that_cannot_be_read_is_named() {
    for (export, says) in [
        ("/=*,sec=krb6", "unknown security flavour \"krb6\""),
        ("/=*,sec=sys,xprtsec=ssl", "unknown xprtsec mode \"ssl\": use none, tls or mtls"),
    ] {
        refused(&["--export", export], &[says]);
    }
}
