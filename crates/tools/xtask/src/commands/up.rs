//! `cargo xtask up`: the main use of BraidFS, from nothing, on real data.
//!
//! Builds `braid` and starts a metadata server and four I/O daemons in one process, mounted where
//! this user may mount. Stores a directory tree and one large file, reads both back and compares
//! every byte; copies the tree through the mount with `cp` and compares again. Then it shows which
//! daemons hold the stripes and prints the next steps. With `--once` it stops the cluster, which
//! unmounts, and removes its files.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use braid_testbed::{
    braid::BRAID_BIN,
    mounts,
    process::{Finished, Process},
    random::Random,
};

use crate::context::Context;

/// Maximum time of one step.
const STEP_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Size of the large file without `--size`.
const SIZE_DEFAULT: u64 = 3 << 30;
/// The disk holds the data three times (source, cluster, copy), and some space must stay free.
const SPACE_FACTOR: u64 = 4;
/// Trees of a Debian machine; the first one that exists is stored.
const TREES: [&str; 3] = ["/usr/include", "/usr/share/doc", "/usr/share/zoneinfo"];

struct Options {
    once: bool,
    json: bool,
    release: bool,
    dir: Option<PathBuf>,
    bytes: u64,
}

/// Runs the command; an error names the failed step and the reason.
pub fn run(args: &[String]) -> Result<bool> {
    let options = parse(args)?;
    let context = Context::new(false)?;
    let braid = build(&context, &options)?;
    let home = Home::new(&options)?;
    let outcome = main_job(&braid, &home, &options);
    if options.once || outcome.is_err() {
        home.stop(&braid);
    }
    let facts = outcome?;
    ensure!(
        !options.once || !home.mounted(),
        "{} is still mounted after braid down",
        home.mount().display()
    );
    if options.json {
        println!("{}", serde_json::to_string_pretty(&facts)?);
    } else if !options.once {
        next_steps(&braid, &home);
    }
    Ok(true)
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options =
        Options { once: false, json: false, release: true, dir: None, bytes: SIZE_DEFAULT };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--once" => options.once = true,
            "--json" => options.json = true,
            "--dev" => options.release = false,
            "--dir" => {
                options.dir = Some(args.next().context("up: --dir needs a directory")?.into())
            }
            "--size" => {
                let text = args.next().context("up: --size needs a number of MiB, such as 512")?;
                let mib: u64 = text
                    .parse()
                    .with_context(|| format!("up: --size {text} is not a number of MiB"))?;
                options.bytes = mib.checked_mul(1 << 20).context("up: --size is too large")?;
            }
            other => bail!(
                "up: unknown argument `{other}`; try: cargo xtask up [--once] [--json] [--dir DIR] \
                 [--size MIB] [--dev]"
            ),
        }
    }
    Ok(options)
}

/// The tested binary: the one that `BRAID_BIN` names (CI has built one), else one built now.
fn build(context: &Context, options: &Options) -> Result<PathBuf> {
    if let Some(built) = std::env::var_os(BRAID_BIN) {
        return Ok(built.into());
    }
    print_progress(options, "building braid (the first time takes a few minutes)");
    let profile: &[&str] = if options.release { &["--release"] } else { &[] };
    context
        .cargo(["build", "--locked", "--quiet", "--package", "braid-cli"])
        .args(profile)
        .limit(STEP_LIMIT)
        .run()?;
    let folder = if options.release { "release" } else { "debug" };
    let braid = context.metadata.target_directory.join(folder).join("braid");
    ensure!(braid.is_file(), "build braid: {} does not exist", braid.display());
    Ok(braid)
}

/// The directories of one run.
struct Home {
    root: PathBuf,
    cluster: PathBuf,
}

impl Home {
    fn new(options: &Options) -> Result<Self> {
        let root = match &options.dir {
            Some(dir) => dir.clone(),
            None => std::env::temp_dir().join(format!("braid-up-{}", std::process::id())),
        };
        fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        ensure!(
            fs::read_dir(&root)?.next().is_none(),
            "{} is not empty; try: --dir with a new one",
            root.display()
        );
        Ok(Self { cluster: root.join("cluster"), root })
    }

    /// The mount point of the cluster.
    fn mount(&self) -> PathBuf {
        self.cluster.join("mnt")
    }

    fn mounted(&self) -> bool {
        mounts::is_mounted(&self.mount()).unwrap_or(false)
    }

    /// Stops the cluster and removes everything; attempts both after any failure.
    fn stop(&self, braid: &Path) {
        let down = Process::new(braid)
            .args(["down".as_ref(), self.cluster.as_os_str()])
            .limit(STEP_LIMIT)
            .finish();
        if !down.is_ok_and(|d| d.status.success()) {
            eprintln!("up: the cluster in {} was not running at the end", self.cluster.display());
        }
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("up: removing {}: {error}", self.root.display());
        }
    }

    /// Runs `braid ARGS` on this cluster.
    fn braid(&self, braid: &Path, args: &[&str], options: &Options) -> Result<Finished> {
        print_progress(options, &format!("$ braid {}", args.join(" ")));
        let finished = Process::new(braid)
            .env("BRAID_CONFIG", self.cluster.join("braid.toml"))
            .env_remove("BRAID_MDS")
            .env_remove("BRAID_KEY")
            .env_remove("BRAID_AGENT")
            .args(args)
            .limit(STEP_LIMIT)
            .run()?;
        let shown = finished.output();
        if !shown.trim().is_empty() {
            print_progress(options, shown.trim_end());
        }
        Ok(finished)
    }
}

/// Runs all steps; returns a summary.
fn main_job(braid: &Path, home: &Home, options: &Options) -> Result<Value> {
    let bytes = check_space(home, options)?;
    let started = Instant::now();
    let cluster = home.cluster.to_string_lossy().into_owned();
    print_progress(options, &format!("$ braid up {cluster} --iods 4 --port 0 --detach"));
    let up = Process::new(braid)
        .args(["up", &cluster, "--iods", "4", "--port", "0", "--detach"])
        .limit(STEP_LIMIT)
        .run()?;
    print_progress(options, up.output().trim_end());
    let ready_seconds = started.elapsed().as_secs_f64();

    let tree = TREES.iter().map(Path::new).find(|tree| tree.is_dir());
    let tree = tree.with_context(|| format!("find a tree to store: none of {TREES:?} exists"))?;
    let big = home.root.join("big.bin");
    print_progress(options, &format!("writing a file of {} MiB of random bytes", bytes >> 20));
    write_random(&big, bytes)?;

    let back = home.root.join("back");
    fs::create_dir(&back)?;
    let (tree_text, big_text, back_text) = (path_text(tree)?, path_text(&big)?, path_text(&back)?);
    let name = tree.file_name().context("a tree has a name")?.to_string_lossy().into_owned();
    let put_tree = timed(|| home.braid(braid, &["put", "-r", tree_text, "/"], options))?;
    let put_big = timed(|| home.braid(braid, &["put", big_text, "/big.bin"], options))?;
    let layout = home.braid(braid, &["layout", "show", "/big.bin"], options)?;
    ensure!(
        layout.stdout.matches("I/O daemon").count() == 4,
        "the large file is not on four I/O daemons"
    );
    home.braid(braid, &["ls", "-l", "/"], options)?;
    let get_tree =
        timed(|| home.braid(braid, &["get", "-r", &format!("/{name}"), back_text], options))?;
    let get_big = timed(|| home.braid(braid, &["get", "/big.bin", back_text], options))?;

    let compared = compare_trees(tree, &back.join(&name))?;
    compare_files(&big, &back.join("big.bin"))?;
    print_progress(
        options,
        &format!(
            "every byte is the same: {} files, {} directories, {} MiB",
            compared.files + 1,
            compared.directories,
            (compared.bytes + bytes) >> 20
        ),
    );
    let through_mount = through_mount(home, options, (tree, &name), &big)?;
    home.braid(braid, &["fsck"], options)?;
    home.braid(braid, &["status"], options)?;
    Ok(json!({
        "ready_seconds": ready_seconds,
        "tree": { "path": tree, "files": compared.files,
                "directories": compared.directories, "links": compared.links,
            "bytes": compared.bytes, "put_seconds": put_tree, "get_seconds": get_tree },
        "big_file": { "bytes": bytes, "put_seconds": put_big, "get_seconds": get_big },
        "every_byte_came_back": true,
        "through_the_mount": through_mount,
        "cluster": if options.once { Value::Null } else { json!(cluster) },
    }))
}

/// The same files through the mount: files that were put are visible, and a tree that `cp` copies
/// in is the same when read.
fn through_mount(
    home: &Home,
    options: &Options,
    (tree, name): (&Path, &str),
    big: &Path,
) -> Result<Value> {
    if !home.mounted() {
        print_progress(
            options,
            "not mounted (that needs root or fusermount3): the steps through a mount are left out",
        );
        return Ok(Value::Null);
    }
    let mount = home.mount();
    compare_trees(tree, &mount.join(name))?;
    let read = Instant::now();
    compare_files(big, &mount.join("big.bin"))?;
    let read = read.elapsed().as_secs_f64();
    let copy = mount.join("copied");
    print_progress(options, &format!("$ cp -a {} {}", tree.display(), copy.display()));
    let copied = timed(|| {
        Process::new("cp")
            .args(["-a".as_ref(), tree.as_os_str(), copy.as_os_str()])
            .limit(STEP_LIMIT)
            .run()
    })?;
    let compared = compare_trees(tree, &copy)?;
    print_progress(
        options,
        &format!("every byte is the same through the mount: {} files", compared.files + 1),
    );
    Ok(json!({ "point": mount, "cp_seconds": copied, "big_file_read_seconds": read }))
}

fn timed(step: impl FnOnce() -> Result<Finished>) -> Result<f64> {
    let started = Instant::now();
    step().map(|_| started.elapsed().as_secs_f64())
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// The size of the large file; prints a notice when the disk is too small for the full size.
fn check_space(home: &Home, options: &Options) -> Result<u64> {
    let df = Process::new("df")
        .args(["--output=avail".as_ref(), "-B1".as_ref(), home.root.as_os_str()])
        .run()?;
    let free: u64 =
        df.stdout.lines().nth(1).and_then(|line| line.trim().parse().ok()).context("reading df")?;
    let fits = free / SPACE_FACTOR;
    if fits < options.bytes {
        ensure!(
            fits >= 64 << 20,
            "{} has {} MiB free; try: --dir on a larger disk",
            home.root.display(),
            free >> 20
        );
        eprintln!("up: only {} MiB are free, so the large file is {} MiB", free >> 20, fits >> 20);
    }
    Ok(options.bytes.min(fits))
}

/// Random bytes, which no hole and no compression can replace.
fn write_random(path: &Path, bytes: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(
        1 << 20,
        File::create(path).with_context(|| format!("making {}", path.display()))?,
    );
    let mut random = Random::new(1);
    let mut block = [0u8; 4096];
    let mut left = bytes;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        let now = left.min(block.len() as u64);
        out.write_all(&block[..now as usize])?;
        left -= now;
    }
    out.flush().with_context(|| format!("writing {}", path.display()))
}

#[derive(Default)]
struct Compared {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
}

/// Compares two trees: names, types, contents, link targets, modes and times.
fn compare_trees(a: &Path, b: &Path) -> Result<Compared> {
    let mut compared = Compared::default();
    let mut stack = vec![(a.to_path_buf(), b.to_path_buf())];
    while let Some((a, b)) = stack.pop() {
        let names = |dir: &Path| -> Result<Vec<_>> {
            let mut names: Vec<_> =
                fs::read_dir(dir)?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
            names.sort();
            Ok(names)
        };
        let there = names(&a)?;
        ensure!(there == names(&b)?, "{} and {} have different names", a.display(), b.display());
        compared.directories += 1;
        for name in there {
            let (a, b) = (a.join(&name), b.join(&name));
            let (meta, other) = (fs::symlink_metadata(&a)?, fs::symlink_metadata(&b)?);
            ensure!(
                meta.file_type() == other.file_type(),
                "{} has another type than {}",
                b.display(),
                a.display()
            );
            if meta.is_symlink() {
                ensure!(
                    fs::read_link(&a)? == fs::read_link(&b)?,
                    "{} has another link target than {}",
                    b.display(),
                    a.display()
                );
                compared.links += 1;
                continue;
            }
            ensure!(
                meta.permissions() == other.permissions(),
                "{} has another mode than {}",
                b.display(),
                a.display()
            );
            ensure!(
                meta.modified()? == other.modified()?,
                "{} has another modification time than {}",
                b.display(),
                a.display()
            );
            if meta.is_dir() {
                stack.push((a, b));
            } else {
                compare_files(&a, &b)?;
                compared.files += 1;
                compared.bytes += meta.len();
            }
        }
    }
    Ok(compared)
}

fn compare_files(a: &Path, b: &Path) -> Result<()> {
    let open =
        |path: &Path| File::open(path).with_context(|| format!("reading {}", path.display()));
    ensure!(
        open(a)?.metadata()?.len() == open(b)?.metadata()?.len(),
        "{} has another length than {}",
        b.display(),
        a.display()
    );
    let (mut left, mut right) =
        (BufReader::with_capacity(1 << 20, open(a)?), BufReader::with_capacity(1 << 20, open(b)?));
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut offset = 0u64;
    loop {
        let read = left.read(&mut x)?;
        if read == 0 {
            return Ok(());
        }
        right.read_exact(&mut y[..read])?;
        if let Some(at) = x[..read].iter().zip(&y[..read]).position(|(x, y)| x != y) {
            bail!("{} differs from {} at byte {}", b.display(), a.display(), offset + at as u64);
        }
        offset += read as u64;
    }
}

fn print_progress(options: &Options, text: &str) {
    if !options.json && !text.is_empty() {
        println!("{text}");
    }
}

fn next_steps(braid: &Path, home: &Home) {
    let folder = braid.parent().unwrap_or(braid).display();
    let cluster = home.cluster.display();
    println!("\nThe cluster keeps running in {cluster}. Next steps:\n");
    if home.mounted() {
        println!("  ls -l {cluster}/mnt         # the mount: use cp, tar, git and other programs");
    }
    println!("  export BRAID_CONFIG={cluster}/braid.toml PATH=\"{folder}:$PATH\"");
    println!("  braid ls -l /");
    println!("  braid put FILE /            # store a file of yours");
    println!("  braid layout show /big.bin  # which daemons hold its stripes");
    println!("  braid status");
    println!("  braid down {cluster}        # stop it\n");
}
