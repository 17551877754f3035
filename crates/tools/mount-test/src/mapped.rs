//! A file that is mapped on one mount, and written, truncated or executed on another.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use braid_types::Random;

use crate::{
    cases::{Case, Outcome, TestDirs},
    mapping::{Mapping, PAGE},
    scratch_cluster::{ScratchCase, ScratchCluster},
    stage::TestCluster,
};

/// Longer than several stripes of the default size.
const LENGTH: u64 = 4 << 20;
const TURNS: u64 = 2_000;
const TURNS_FULL: u64 = 50_000;
/// A page is read in each way after every turn.
const TURNS_PRIVATE: u64 = 500;
const TURNS_PRIVATE_FULL: u64 = 10_000;
/// Number of mappings that are made and unmapped.
const UNMAPS: u64 = 200;

pub const CASES: &[Case] = &[
    Case { name: "mapped::writes_of_another_mount_are_in_the_mapping", run: written_there },
    Case { name: "mapped::stores_synced_from_a_mapping_are_read_elsewhere", run: synced },
    Case { name: "mapped::unsynced_stores_in_a_mapping_are_read_elsewhere", run: not_synced },
    Case { name: "mapped::bytes_truncated_by_another_mount_leave_the_mapping", run: cut },
    Case { name: "mapped::stores_in_a_private_mapping_stay_private", run: private },
    Case { name: "mapped::a_program_runs_from_the_mount", run: executed },
    Case { name: "mapped::a_program_replaced_by_another_mount_is_the_new_one", run: replaced },
];

/// Cases with a client that is no mount.
pub const OWN: &[ScratchCase] =
    &[ScratchCase { name: "mapped::stores_are_at_the_daemons_after_munmap", run: unmapped }];

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.with_context(|| format!("opening {}", path.display()))
}

fn pair(ground: &TestDirs, name: &str) -> Result<(File, File)> {
    let here = open(&ground.first().join(name))?;
    here.set_len(LENGTH)?;
    Ok((here, open(&ground.last().join(name))?))
}

fn written_there(ground: &TestDirs) -> Result<Outcome> {
    let (here, there) = pair(ground, "mapped-read")?;
    let mapping = Mapping::shared(&here, LENGTH, false)?;
    let mut random = Random::new(ground.seed);
    let turns = ground.size(TURNS, TURNS_FULL);
    for turn in 1..=turns {
        let offset = random.below(LENGTH / 8) * 8;
        let mut found = [0; 8];
        // Reads first, so that the page is cached here when it changes there.
        mapping.read(offset, &mut found)?;
        there.write_all_at(&turn.to_le_bytes(), offset)?;
        mapping.read(offset, &mut found)?;
        let found = u64::from_le_bytes(found);
        ensure!(
            found == turn,
            "turn {turn}: {turn} was written at {offset} there, but the mapping here has {found}"
        );
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}

fn synced(ground: &TestDirs) -> Result<Outcome> {
    written_here(ground, "mapped-synced", true)
}

fn not_synced(ground: &TestDirs) -> Result<Outcome> {
    written_here(ground, "mapped-stored", false)
}

fn written_here(ground: &TestDirs, name: &str, sync: bool) -> Result<Outcome> {
    let (here, there) = pair(ground, name)?;
    let mapping = Mapping::shared(&here, LENGTH, true)?;
    let mut random = Random::new(ground.seed);
    let turns = ground.size(TURNS, TURNS_FULL);
    for turn in 1..=turns {
        let offset = random.below(LENGTH / 8) * 8;
        let mut found = [0; 8];
        there.read_exact_at(&mut found, offset)?;
        mapping.write(offset, &turn.to_le_bytes())?;
        if sync {
            mapping.sync()?;
        }
        there.read_exact_at(&mut found, offset)?;
        let found = u64::from_le_bytes(found);
        ensure!(
            found == turn,
            "turn {turn}: {turn} was stored at {offset} here, but {found} is read"
        );
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}

fn unmapped(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = TestCluster::start(&yard.braid, &yard.dir, 1)?;
    let here = open(&stage.dirs("mapped")?.remove(0).join("file"))?;
    here.set_len(LENGTH)?;
    // Reads from the daemons, without a recall of the mount's leases.
    let there = stage
        .cluster
        .client()?
        .open("/mapped/file", &braid_client::OpenOptions::new().read(true))?;
    let mut random = Random::new(yard.seed);
    for turn in 1..=UNMAPS {
        let offset = random.below(LENGTH / 8) * 8;
        let mapping = Mapping::shared(&here, LENGTH, true)?;
        mapping.write(offset, &turn.to_le_bytes())?;
        drop(mapping);
        let mut found = [0; 8];
        ensure!(there.read_at(&mut found, offset)? == 8, "turn {turn}: nothing is at {offset}");
        let found = u64::from_le_bytes(found);
        ensure!(
            found == turn,
            "turn {turn}: stored at {offset} and unmapped, but the daemons have {found}"
        );
    }
    stage.check()?;
    Ok(Outcome::Passed(format!("{UNMAPS} turns")))
}

fn cut(ground: &TestDirs) -> Result<Outcome> {
    let (here, there) = pair(ground, "mapped-cut")?;
    there.write_all_at(&vec![7; 4 * PAGE as usize], 0)?;
    let mapping = Mapping::shared(&here, LENGTH, true)?;
    let mut found = [0; 8];
    mapping.read(3 * PAGE, &mut found)?;
    ensure!(found == [7; 8], "before the truncate: {found:?}");
    there.set_len(PAGE + 10)?;
    // A fault behind the end, or zeros: the kernel may have requested the page before it learned
    // the new end.
    let outcome = mapping.read(3 * PAGE, &mut found);
    let behind_the_end =
        outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT));
    ensure!(
        behind_the_end || found == [0; 8],
        "bytes truncated there are still here: {outcome:?}, {found:?}"
    );
    there.set_len(LENGTH)?;
    // A page fault uses the size that the kernel knows, and sends no query to a FUSE file system:
    // docs/consistency.md.
    here.metadata()?;
    mapping.read(3 * PAGE, &mut found)?;
    ensure!(found == [0; 8], "truncated and extended: zeros, not {found:?}");
    mapping.read(PAGE + 8, &mut found)?;
    ensure!(found == [7, 7, 0, 0, 0, 0, 0, 0], "in the page of the truncate: {found:?}");
    Outcome::passed()
}

/// A page that was stored into belongs to the mapping, complete, as it was at that time. The others
/// are those of the file as they are now. (mmap(2) leaves that open; Linux takes them from its page
/// cache, which is coherent.)
fn private(ground: &TestDirs) -> Result<Outcome> {
    let (here, there) = pair(ground, "mapped-private")?;
    let mut file = vec![7; LENGTH as usize];
    there.write_all_at(&file, 0)?;
    let mapping = Mapping::private(&here, LENGTH)?;
    let mut own: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut random = Random::new(ground.seed);
    let turns = ground.size(TURNS_PRIVATE, TURNS_PRIVATE_FULL);
    for turn in 1..=turns {
        let (page, word) = (random.below(LENGTH / PAGE), random.below(PAGE / 8) * 8);
        let (start, bytes) = (page * PAGE, turn.to_le_bytes());
        let (in_file, in_page) =
            (start as usize..(start + PAGE) as usize, word as usize..word as usize + 8);
        match random.below(3) {
            0 => {
                mapping.write(start + word, &bytes)?;
                own.entry(page).or_insert_with(|| file[in_file.clone()].to_vec())[in_page]
                    .copy_from_slice(&bytes);
            }
            way => {
                let writer = if way == 1 { &here } else { &there };
                writer.write_all_at(&bytes, start + word)?;
                file[in_file.clone()][in_page].copy_from_slice(&bytes);
            }
        }
        let in_file = &file[in_file];
        let in_mapping = own.get(&page).map_or(in_file, Vec::as_slice);
        let mut found = vec![0; PAGE as usize];
        mapping.read(start, &mut found)?;
        ensure!(
            found == in_mapping,
            "turn {turn}: page {page} of the mapping, own: {}",
            own.contains_key(&page)
        );
        for (by, opened) in [("here", &here), ("there", &there)] {
            opened.read_exact_at(&mut found, start)?;
            ensure!(found == in_file, "turn {turn}: page {page}, read {by}");
        }
    }
    mapping.sync()?;
    drop(mapping);
    for dir in &ground.dirs {
        let found = std::fs::read(dir.join("mapped-private"))?;
        ensure!(found == file, "after munmap {} has the private mapping's bytes", dir.display());
    }
    Ok(Outcome::Passed(format!("{turns} turns, {} pages of its own", own.len())))
}

fn executed(ground: &TestDirs) -> Result<Outcome> {
    let source = ["/bin/echo", "/usr/bin/echo"].into_iter().find(|path| Path::new(path).exists());
    let source = source.context("there is no echo")?;
    std::fs::copy(source, ground.first().join("program"))?;
    for dir in &ground.dirs {
        says(&dir.join("program"), &["from the mount"], "from the mount\n")?;
    }
    Outcome::passed()
}

fn replaced(ground: &TestDirs) -> Result<Outcome> {
    for turn in 0..20 {
        let text = format!("#!/bin/sh\necho turn {turn}\n");
        let (new, program) = (ground.first().join("script.new"), ground.first().join("script"));
        std::fs::write(&new, text)?;
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755))?;
        std::fs::rename(&new, &program)?;
        says(&ground.last().join("script"), &[], &format!("turn {turn}\n"))?;
    }
    Outcome::passed()
}

fn says(program: &Path, arguments: &[&str], wanted: &str) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said == wanted,
        "{}: {}: {said}",
        program.display(),
        output.status
    );
    Ok(())
}
