//! Numbers of users, groups and Kerberos principals, by the user database of this host
//! (nsswitch.conf(5)).
//!
//! | principal | acts as |
//! |---|---|
//! | `alice@REALM`, the realm of the keytab | user `alice` of this host, with all its groups |
//! | `host/…`, `nfs/…`, `root/…@REALM`: root of a client without a ticket of its own | user 0 |
//! | everything else: no such user, another realm, `alice/admin@REALM` | the anonymous user |
//!
//! The squash of the export comes after that: by default, user 0 becomes the anonymous user.

use std::{ffi::CString, io};

use braid_nfs::{
    names::{NameKind, UserDatabase},
    rpc::kerberos::Users,
};
use braid_share::Identity;
use nix::{
    errno::Errno,
    unistd::{Gid, Group, Uid, User, getgrouplist},
};

/// Services whose principals Linux's rpc.gssd(8) uses for root.
const HOST_SERVICES: [&str; 3] = ["host", "nfs", "root"];

/// The users of this host.
#[derive(Debug)]
pub struct SystemUsers {
    /// Realms of the keytab: users of others are not those of this host.
    pub realms: Vec<String>,
}

/// What a principal stands for.
#[derive(PartialEq, Eq, Debug)]
enum Named<'a> {
    User(&'a str),
    Host,
    Nobody,
}

impl SystemUsers {
    fn named<'a>(&self, principal: &'a str) -> Named<'a> {
        // The library quotes special characters of a name with backslashes. No user has any.
        if principal.contains('\\') {
            return Named::Nobody;
        }
        let Some((name, realm)) = principal.rsplit_once('@') else { return Named::Nobody };
        if !self.realms.iter().any(|own| own == realm) || name.contains(['@', '\0']) {
            return Named::Nobody;
        }
        match name.split('/').collect::<Vec<_>>()[..] {
            [""] => Named::Nobody,
            [name] => Named::User(name),
            [service, host] if HOST_SERVICES.contains(&service) && !host.is_empty() => Named::Host,
            _ => Named::Nobody,
        }
    }
}

impl Users for SystemUsers {
    fn user(&self, principal: &str) -> io::Result<Option<Identity>> {
        let found = match self.named(principal) {
            Named::User(name) => user(name)?,
            Named::Host => Some(Identity { uid: 0, gid: 0, groups: Vec::new(), checked: false }),
            Named::Nobody => None,
        };
        if found.is_none() {
            tracing::info!("{principal} is no user of this host: it acts as the anonymous user");
        }
        Ok(found)
    }
}

/// An answer of the database. `None`: it has no such name or number.
pub fn found<T>(answer: nix::Result<Option<T>>) -> io::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(found),
        // getpwnam(3): some databases report a missing name like this.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Names of users and groups in attributes, as this host knows them.
#[derive(Debug)]
pub struct HostDatabase;

impl UserDatabase for HostDatabase {
    fn number(&self, kind: NameKind, name: &str) -> io::Result<Option<u32>> {
        Ok(match kind {
            NameKind::User => found(User::from_name(name))?.map(|user| user.uid.as_raw()),
            NameKind::Group => found(Group::from_name(name))?.map(|group| group.gid.as_raw()),
        })
    }

    fn name(&self, kind: NameKind, number: u32) -> io::Result<Option<String>> {
        Ok(match kind {
            NameKind::User => found(User::from_uid(Uid::from_raw(number)))?.map(|user| user.name),
            NameKind::Group => {
                found(Group::from_gid(Gid::from_raw(number)))?.map(|group| group.name)
            }
        })
    }
}

fn user(name: &str) -> io::Result<Option<Identity>> {
    let Some(user) = found(User::from_name(name))? else { return Ok(None) };
    let name = CString::new(name)?;
    let groups = getgrouplist(&name, user.gid)?;
    let (uid, gid) = (user.uid.as_raw().into(), u64::from(user.gid.as_raw()));
    let groups = groups.iter().map(|group| u64::from(group.as_raw())).filter(|id| *id != gid);
    Ok(Some(Identity { uid, gid, groups: groups.collect(), checked: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> SystemUsers {
        SystemUsers { realms: vec!["R.ORG".to_owned()] }
    }

    #[test]
    fn only_names_of_the_own_realm_are_users_and_hosts() {
        for (principal, expected) in [
            ("alice@R.ORG", Named::User("alice")),
            ("root@R.ORG", Named::User("root")),
            ("alice@OTHER.ORG", Named::Nobody),
            ("alice@r.org", Named::Nobody),
            ("alice", Named::Nobody),
            ("@R.ORG", Named::Nobody),
            ("alice/admin@R.ORG", Named::Nobody),
            ("host/client.r.org@R.ORG", Named::Host),
            ("nfs/client@R.ORG", Named::Host),
            ("root/client@R.ORG", Named::Host),
            ("host/client@OTHER.ORG", Named::Nobody),
            ("host/@R.ORG", Named::Nobody),
            ("host/a/b@R.ORG", Named::Nobody),
            ("HTTP/client@R.ORG", Named::Nobody),
            (r"root\@R.ORG@OTHER.ORG", Named::Nobody),
            (r"a\/b@R.ORG", Named::Nobody),
            ("root@OTHER.ORG@R.ORG", Named::Nobody),
        ] {
            assert_eq!(users().named(principal), expected, "{principal}");
        }
    }

    #[test]
    fn users_have_the_numbers_of_this_host() {
        let root = users().user("root@R.ORG").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(!root.groups.contains(&0), "the group is not named twice");
        assert_eq!(users().user("no-such-user@R.ORG").unwrap(), None);
        let host = users().user("host/client@R.ORG").unwrap().unwrap();
        assert_eq!((host.uid, host.gid), (0, 0));
    }

    #[test]
    fn names_in_attributes_are_those_of_this_host() {
        for kind in [NameKind::User, NameKind::Group] {
            assert_eq!(HostDatabase.number(kind, "root").unwrap(), Some(0));
            assert_eq!(HostDatabase.name(kind, 0).unwrap().as_deref(), Some("root"));
            assert_eq!(HostDatabase.number(kind, "no-such-name").unwrap(), None);
            assert_eq!(HostDatabase.name(kind, 4_000_000_017).unwrap(), None);
        }
    }
}
