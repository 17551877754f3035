//! The operations, and how each is captured.

use std::{path::Path, sync::Arc, thread::sleep, time::Duration};

use anyhow::{Result, ensure};
use braid_client::{Client, OpenOptions};
use braid_fuse::{
    fs::FileSystem,
    kernel::{
        PoolOptions,
        mount::{MountOptions, Mounted},
    },
};
use braid_vfs::Vfs;

use crate::{counters, servers::Servers};

/// Bytes of the small read.
const READ_BYTES: usize = 4096;
/// How often each operation runs before it is captured.
const WARM_UP: usize = 100;
/// Captures of each operation, and of doing nothing.
const CAPTURES: usize = 9;
/// What a server does after its reply ends within this time.
const AFTER: Duration = Duration::from_millis(20);

/// Captures all operations into files of this directory, which exists.
pub fn capture(dir: &Path) -> Result<()> {
    ensure!(cfg!(counted), "this build has no counters; try: cargo xtask walk");
    let home = tempfile::tempdir()?;
    let mut captures = Captures { dir, servers: Servers::start(home.path())? };
    let client = Client::connect(captures.servers.config.clone())?;
    read(&mut captures, &client)?;
    create(&mut captures, &client)?;
    mount_read(&mut captures)?;
    counters::write_at_exit(&dir.join("client.end.profraw"))
}

struct Captures<'a> {
    dir: &'a Path,
    servers: Servers,
}

impl Captures<'_> {
    /// Warms the operation up, then captures it, and an idle time after each capture.
    fn of(&mut self, name: &str, mut operation: impl FnMut() -> Result<()>) -> Result<()> {
        for _ in 0..WARM_UP {
            operation()?;
        }
        for number in 0..CAPTURES {
            self.one(&format!("{name}.operation.{number}"), &mut operation)?;
            self.one(&format!("{name}.idle.{number}"), &mut || Ok(()))?;
        }
        Ok(())
    }

    /// The client's counters are reset last and written first, so that they hold nothing else.
    fn one(&mut self, name: &str, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let file = |side: &str| self.dir.join(format!("{side}.{name}.profraw"));
        let (of_client, of_servers) = (file("client"), file("servers"));
        sleep(AFTER);
        self.servers.reset()?;
        counters::reset();
        operation()?;
        sleep(AFTER);
        counters::write(&of_client)?;
        self.servers.write(&of_servers)
    }
}

fn bytes() -> Vec<u8> {
    vec![7; 64 * READ_BYTES]
}

/// A read of an open file by the library.
fn read(captures: &mut Captures, client: &Client) -> Result<()> {
    let options = OpenOptions::new().read(true).write(true);
    let (file, _) = client.create("/read", &options)?;
    file.write_at(&bytes(), 0)?;
    let mut buffer = [0; READ_BYTES];
    captures.of("read", || {
        let count = file.read_at(&mut buffer, 0)?;
        ensure!(count == READ_BYTES && buffer == [7; READ_BYTES], "a read returned other bytes");
        Ok(())
    })
}

/// Creation of a file by the library: it is open for writing afterwards, and stays so.
fn create(captures: &mut Captures, client: &Client) -> Result<()> {
    let options = OpenOptions::new().write(true);
    let mut files = Vec::new();
    captures.of("create", || {
        let (file, created) = client.create(format!("/create{}", files.len()), &options)?;
        ensure!(created, "a file was there already");
        files.push(file);
        Ok(())
    })
}

/// A read on a mount, of a file that is open for writing: it bypasses the kernel's page cache.
fn mount_read(captures: &mut Captures) -> Result<()> {
    let point = tempfile::tempdir()?;
    let vfs = Arc::new(Vfs::new(Client::connect(captures.servers.config.clone())?)?);
    let options = MountOptions::new("braid", point.path());
    let file_system = Arc::new(FileSystem::new(Arc::clone(&vfs)));
    let mounted = Mounted::new(&options, PoolOptions::default(), file_system)?;
    let done = read_mounted(captures, point.path());
    mounted.end();
    vfs.end_session();
    done
}

fn read_mounted(captures: &mut Captures, point: &Path) -> Result<()> {
    use std::os::unix::fs::FileExt as _;

    let path = point.join("mounted");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(path)?;
    file.write_all_at(&bytes(), 0)?;
    file.sync_all()?;
    let mut buffer = [0; READ_BYTES];
    captures.of("mount", || Ok(file.read_exact_at(&mut buffer, 0)?))
}
