//! Names of users and groups on this host.

use std::{collections::HashMap, process::Command};

use crate::output::{Exit, Fault};

/// The program that looks names up. It also finds those of a directory service.
const NAMES: &str = "getent";

/// The number of a user or group with a name of this host.
pub fn id_of_name(database: &str, what: &str, name: &str) -> Result<u64, Fault> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let unknown = || {
        let why = "this host does not know the name";
        Fault::new(Exit::NotFound, format!("{what} {name}"), why)
            .hint(format!("--{what} with the number"))
    };
    let found = Command::new(NAMES).args([database, name]).output().map_err(|_| unknown())?;
    let line = String::from_utf8_lossy(&found.stdout).into_owned();
    line.split(':').nth(2).and_then(|number| number.trim().parse().ok()).ok_or_else(unknown)
}

/// The name of a number, or the number itself if this host has none.
pub fn name_of_id(database: &str, number: u64) -> String {
    let found = Command::new(NAMES).args([database, &number.to_string()]).output();
    let line =
        found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    line.split(':')
        .next()
        .filter(|name| !name.is_empty())
        .map_or_else(|| number.to_string(), str::to_owned)
}

/// A cache of names: each lookup starts a process, and a listing has few owners.
#[derive(Default)]
pub struct UserNames(HashMap<(&'static str, u64), String>);

impl UserNames {
    /// The name of a user.
    pub fn user(&mut self, uid: u64) -> &str {
        self.of("passwd", uid)
    }

    /// The name of a group.
    pub fn group(&mut self, gid: u64) -> &str {
        self.of("group", gid)
    }

    fn of(&mut self, database: &'static str, number: u64) -> &str {
        self.0.entry((database, number)).or_insert_with(|| name_of_id(database, number))
    }
}
