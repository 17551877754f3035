//! Reservations on real disks: daemons with small file systems, one client that buffers, and
//! another one that fills the disks.

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs::File as Image, path::Path, process::Command};

    use braid_client::{
        Client, File, LayoutHint, OpenOptions, Reservation, Status,
        message::types::{DistributionHint, PathRef},
    };

    use braid_vfs::{Access, FileIndex, NewFile, Options, SlowRates, User, WriteAs};

    use crate::support::Cluster;

    const MIB: u64 = 1 << 20;
    const DISK_BYTES: u64 = 64 * MIB;
    const FILES: usize = 12;
    /// The buffered bytes of each file.
    const GATHERED: u64 = 96 << 10;

    /// A small file system, unmounted when dropped.
    struct Disk(tempfile::TempDir);

    impl Disk {
        /// `None` where it cannot be mounted; prints why.
        fn new(kind: &str) -> Option<Self> {
            let disk = Self(tempfile::tempdir().unwrap());
            let (image, point) = (disk.0.path().join("image"), disk.point());
            std::fs::create_dir(&point).unwrap();
            Image::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
            let size = format!("size={DISK_BYTES}");
            let mut mount = Command::new("mount");
            let mounted = match kind {
                "tmpfs" => run(mount.args(["-t", kind, "-o", &size, kind]).arg(&point)),
                _ => run(Command::new("mkfs.ext4")
                    .args(["-q", "-F", "-b", "4096", "-m", "0"])
                    .arg(&image))
                .and_then(|()| run(mount.args(["-o", "loop"]).arg(&image).arg(&point))),
            };
            mounted.map_err(|why| println!("skipped: a disk of {kind}: {why}")).ok().map(|()| disk)
        }

        fn point(&self) -> std::path::PathBuf {
            self.0.path().join("disk")
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            // A failure shows as a directory that cannot be removed; nothing more can be done in a
            // drop.
            let _ = Command::new("umount").arg("-l").arg(self.point()).output();
        }
    }

    fn run(command: &mut Command) -> Result<(), String> {
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn create(client: &Client, path: &str, stripe_bytes: u64) -> File {
        let wish = LayoutHint {
            distribution: Some(DistributionHint::SimpleStripe),
            stripe_bytes: Some(stripe_bytes),
            ..LayoutHint::none()
        };
        client.touch(PathRef::root(path.as_bytes()), 0o644, true, wish).unwrap();
        client.open(path, &OpenOptions::new().read(true).write(true)).unwrap()
    }

    fn pattern(file: usize, bytes: u64) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + file as u64 * 7 + at / 4096) as u8 | 1).collect()
    }

    /// Writes directly until every daemon of the file has granted space, and reserves it.
    fn hold(file: &File, bytes: u64) -> Reservation {
        let mut held = Reservation::default();
        for _ in 0..4 {
            if file.reserve_space(0, bytes, &mut held) {
                return held;
            }
            file.write_at(&[1; 256 << 10], 0).unwrap();
        }
        panic!("no reservation of {bytes} bytes");
    }

    /// Writes smaller and smaller pieces until a disk is full.
    fn fill(client: &Client, path: &str, stripe_bytes: u64) -> File {
        let file = create(client, path, stripe_bytes);
        let mut end = 0;
        for bytes in [MIB, 64 << 10, 4096] {
            // One full daemon refuses its part: the next piece may belong to another one.
            for _ in 0..2 * DISK_BYTES / MIB {
                match file.write_at(&vec![2; bytes as usize], end) {
                    Ok(_) => end += bytes,
                    Err(error) => {
                        assert_eq!(error.status(), Status::NoSpace, "{error}");
                        end += bytes;
                    }
                }
            }
        }
        file
    }

    fn what_was_held_is_written_on_a_full_disk(kind: &str, stripe_bytes: u64) {
        let (Some(one), Some(two)) = (Disk::new(kind), Disk::new(kind)) else { return };
        let points = [one.point(), two.point()];
        let disks: Vec<&Path> = points.iter().map(|point| point.as_path()).collect();
        let cluster = Cluster::start_on(&disks);
        let (gathers, other) = (cluster.client(), cluster.client());
        // The first file has brought the reservation; the daemons must create the objects of the
        // others.
        drop(hold(&create(&gathers, "/first", stripe_bytes), GATHERED));
        let files: Vec<File> =
            (0..FILES).map(|n| create(&gathers, &format!("/{n}"), stripe_bytes)).collect();
        let mut held: Vec<Reservation> = files.iter().map(|file| hold(file, GATHERED)).collect();
        let (mut taken, full) = (0, fill(&other, "/large", stripe_bytes));
        let refused = full.write_at(&[3; GATHERED as usize], 1 << 30).unwrap_err();
        assert_eq!(refused.status(), Status::NoSpace);
        for n in 0..FILES {
            // The other client takes all space that is released.
            while full.write_at(&[3; 4096], (2 << 30) + taken * 4096).is_ok() {
                taken += 1;
            }
            let data = pattern(n, GATHERED);
            assert_eq!(
                files[n].write_reserved(&mut held[n], &data, 0).unwrap(),
                data.len(),
                "file {n}"
            );
            files[n].sync().unwrap();
            let mut back = vec![0; data.len()];
            assert_eq!(files[n].read_at(&mut back, 0).unwrap(), data.len());
            assert!(back == data, "file {n}");
        }
        drop((files, held, full, gathers, other));
        drop(cluster);
    }

    #[test]
    fn reserved_bytes_are_written_on_ext4_that_another_client_filled() {
        what_was_held_is_written_on_a_full_disk("ext4", MIB);
    }

    #[test]
    fn reserved_bytes_on_several_disks_are_written_on_each() {
        what_was_held_is_written_on_a_full_disk("ext4", 16 << 10);
        what_was_held_is_written_on_a_full_disk("tmpfs", 16 << 10);
    }

    /// Large writes of a mount with slow daemons, until the disks are full.
    fn no_write_that_returned_meets_a_full_disk(kind: &str) {
        const PIECE: u64 = 512 << 10;
        let (Some(one), Some(two)) = (Disk::new(kind), Disk::new(kind)) else { return };
        let points = [one.point(), two.point()];
        let cluster = Cluster::start_on(&points.each_ref().map(|point| point.as_path()));
        let options = Options { slow: SlowRates::ALL, ..Options::default() };
        let vfs = cluster.serving_mount_with(cluster.config(), options);
        let new = NewFile {
            mode: 0o666,
            umask: 0,
            access: Access::READ_WRITE,
            exclusive: true,
            truncate: false,
        };
        let (opened, _) = vfs.create(User { uid: 0, gid: 0 }, FileIndex::ROOT, b"f", &new).unwrap();
        let (handle, mut pieces) = (opened.handle, 0);
        let refused = loop {
            let data = pattern(pieces, PIECE);
            match vfs.write(handle, pieces as u64 * PIECE, &data, WriteAs::default()) {
                Ok(_) => pieces += 1,
                Err(error) => break error,
            }
            assert!(pieces as u64 * PIECE < 4 * DISK_BYTES, "more was accepted than fits");
        };
        assert_eq!(refused.status(), Some(Status::NoSpace), "{refused}");
        assert!(pieces as u64 * PIECE > DISK_BYTES / 2, "{pieces} pieces");
        vfs.sync(handle).unwrap();
        let mut back = vec![0; PIECE as usize];
        for n in 0..pieces {
            assert_eq!(vfs.read(handle, n as u64 * PIECE, &mut back).unwrap(), back.len());
            assert!(back == pattern(n, PIECE), "piece {n} of {pieces}");
        }
        vfs.release(handle, None).unwrap();
        drop(vfs);
        drop(cluster);
    }

    #[test]
    fn buffered_large_writes_are_on_the_disks_that_they_fill() {
        no_write_that_returned_meets_a_full_disk("ext4");
        no_write_that_returned_meets_a_full_disk("tmpfs");
    }
}
