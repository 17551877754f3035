//! Kerberos of a gateway: the keytab, and what can be wrong with it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use braid_client::settings::NfsSection;
use braid_gss::{Acceptor, KeytabEntry, read_keytab};
use braid_nfs::rpc::kerberos::Kerberos;
use braid_nfs_wire::rpc::gss::{GssLimits, GssServer};

use super::{Started, users::SystemUsers};
use crate::{connect, output::Fault, private_file};

const DOING: &str = "starting Kerberos of the NFS gateway";
/// The keytab of a host. krb5.conf(5).
const KEYTAB_DEFAULT: &str = "/etc/krb5.keytab";
/// The service of NFS servers. RFC 8881 2.2.1.1.1.
const SERVICE: &str = "nfs";
/// Largest difference between two clocks that Kerberos accepts by default. krb5.conf(5).
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// Starts Kerberos with the keytab of the section.
pub fn start(section: &NfsSection, started: &mut Started) -> Result<(), Fault> {
    let library =
        braid_gss::Kerberos::load().map_err(|why| Fault::usage(DOING, why.to_string()))?;
    let path = section.keytab.clone().unwrap_or_else(|| PathBuf::from(KEYTAB_DEFAULT));
    private_file::check(&path, DOING, &format!("--keytab FILE, or {}", make_keytab(&path)))?;
    let entries = read_keytab(&path)
        .map_err(|why| Fault::usage(DOING, format!("{}: {why}", path.display())))?;
    let usable = usable(&path, &entries, section.principal.as_deref())?;
    let acceptor = match &section.principal {
        None => Acceptor::new(library, Some(&path), SERVICE),
        Some(_) => Acceptor::for_principal(library, Some(&path), &usable[0].principal()),
    };
    let acceptor = acceptor.map_err(|why| Fault::usage(DOING, why.to_string()))?;
    check_clock(&usable, SystemTime::now(), &mut started.notes);

    let principals: BTreeSet<_> = usable.iter().map(|entry| entry.principal()).collect();
    let hosts: BTreeSet<_> = usable.iter().map(|entry| entry.components[1].clone()).collect();
    let realms: BTreeSet<_> = usable.iter().map(|entry| entry.realm.clone()).collect();
    let shown = principals.iter().cloned().collect::<Vec<_>>().join(", ");
    started.notes.push(format!("Kerberos: {shown} of {}", path.display()));
    let own = connect::host();
    let of_this_host = |host: &String| *host == own || host.starts_with(&format!("{own}."));
    if !hosts.iter().any(of_this_host) {
        let names = hosts.iter().cloned().collect::<Vec<_>>().join(" or ");
        started.notes.push(format!("the keytab is not for {own}: clients must mount {names}:/…"));
    }
    started.host = hosts.first().filter(|_| hosts.len() == 1).cloned();
    let users = SystemUsers { realms: realms.into_iter().collect() };
    let server = GssServer::new(acceptor, GssLimits::default());
    started.protection.kerberos = Some(Kerberos::new(Arc::new(server), Arc::new(users)));
    Ok(())
}

/// The command that makes the missing keytab.
fn make_keytab(path: &Path) -> String {
    let host = connect::host();
    format!(
        "kadmin -q 'addprinc -randkey nfs/{host}' && kadmin -q 'ktadd -k {} nfs/{host}'",
        path.display()
    )
}

/// The entries whose principals clients may use; at least one.
fn usable(
    path: &Path,
    entries: &[KeytabEntry],
    principal: Option<&str>,
) -> Result<Vec<KeytabEntry>, Fault> {
    let matches = |entry: &&KeytabEntry| match principal {
        None => entry.service() == Some(SERVICE),
        Some(principal) => {
            entry.service().is_some()
                && (entry.principal() == principal || entry.components.join("/") == principal)
        }
    };
    let found: Vec<_> = entries.iter().filter(matches).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let all: BTreeSet<_> = entries.iter().map(KeytabEntry::principal).collect();
    let all = match all.len() {
        0 => "it is empty".to_owned(),
        _ => format!("it has {}", all.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let wanted = principal.unwrap_or("nfs/HOST");
    let why = format!("{}: no key of {wanted}; {all}", path.display());
    Err(Fault::usage(DOING, why).hint(make_keytab(path)))
}

/// Notes a clock that is certainly wrong: keys cannot be written in the future. Whether it is that
/// of the KDC, only a ticket of a client shows.
fn check_clock(entries: &[KeytabEntry], now: SystemTime, notes: &mut Vec<String>) {
    let written = entries.iter().map(|entry| u64::from(entry.written)).max().unwrap_or(0);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if now + CLOCK_SKEW < Duration::from_secs(written) {
        let hours = (Duration::from_secs(written) - now).as_secs().div_ceil(3600);
        notes.push(format!(
            "the keytab was written {hours} hours in the future: is the clock of this host right? \
             Kerberos refuses clients whose clock differs by more than 5 minutes; try: date"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(principal: &str, written: u32) -> KeytabEntry {
        let (name, realm) = principal.split_once('@').unwrap();
        let components = name.split('/').map(str::to_owned).collect();
        KeytabEntry { components, realm: realm.to_owned(), written }
    }

    #[test]
    fn keys_of_the_service_or_of_the_named_principal_are_used() {
        let all = [entry("host/a@R", 1), entry("nfs/a@R", 1), entry("nfs/b@R", 1)];
        let found = |principal| usable(Path::new("k"), &all, principal);
        assert_eq!(found(None).unwrap(), all[1..]);
        assert_eq!(found(Some("nfs/b@R")).unwrap(), all[2..]);
        assert_eq!(found(Some("nfs/b")).unwrap(), all[2..]);
        let fault = found(Some("nfs/c")).unwrap_err().to_string();
        let expected = "k: no key of nfs/c; it has host/a@R, nfs/a@R, nfs/b@R; try: kadmin -q";
        assert!(fault.contains(expected), "{fault}");
        let fault = usable(Path::new("k"), &all[..1], None).unwrap_err().to_string();
        assert!(fault.contains("no key of nfs/HOST; it has host/a@R"), "{fault}");
    }

    #[test]
    fn clock_before_the_keytab_is_noted() {
        let notes = |seconds: u64| {
            let mut notes = Vec::new();
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            check_clock(&[entry("nfs/a@R", 100_000)], now, &mut notes);
            notes
        };
        assert!(notes(100_001).is_empty() && notes(99_700).is_empty());
        assert!(notes(99_699)[0].contains("1 hours in the future"), "{:?}", notes(99_699));
    }
}
