//! One host: a namespace, and how to run code in it.

use std::{fs::File, os::fd::AsFd, path::PathBuf, process::Command, thread};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{counters::Counters, lab_cleanup::NAMESPACES};

/// A host of a lab.
#[derive(Clone, Debug)]
pub struct Host {
    /// `iod0`, `client2`, `mds`.
    pub name: String,
    /// Its namespace, by its name in `ip netns`.
    pub namespace: String,
    /// Its addresses, one for each network interface.
    pub addresses: Vec<String>,
    /// Its ports of the switch, one for each interface.
    pub ports: Vec<String>,
    /// Line rate of each interface, in bits per second.
    pub rate: u64,
}

impl Host {
    /// The address of its first interface.
    pub fn address(&self) -> &str {
        self.addresses.first().map_or("", String::as_str)
    }

    /// A command that runs `program` on this host.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let [nsenter, arguments @ ..] = &self.prefix();
        let mut command = Command::new(nsenter);
        command.args(arguments).arg(program);
        command
    }

    /// Prefix for a command that must run on this host. Not `ip netns exec`, which hides mounts.
    pub fn prefix(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.path().display())]
    }

    /// Runs `work` in a thread on this host. Sockets, threads and processes of that thread are on
    /// the host too.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().map_err(|_| anyhow!("a thread on {} panicked", self.name))?
        })
    }

    /// Moves the calling thread to this host permanently.
    pub fn enter(&self) -> Result<()> {
        let file = File::open(self.path())
            .with_context(|| format!("{} does not exist any more", self.namespace))?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), network)
            .with_context(|| format!("entering {}", self.namespace))
    }

    /// The TCP counters of the host.
    pub fn counters(&self) -> Result<Counters> {
        self.inside(Counters::read)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(NAMESPACES).join(&self.namespace)
    }
}
