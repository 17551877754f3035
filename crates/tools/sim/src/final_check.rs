//! The end of a run. All faults are over and every process runs: now every client must see the
//! same, and the disks must hold exactly what the names describe.

use std::{collections::BTreeMap, time::Duration};

use braid_client::{Error, OpenOptions, Status, asynchronous::Client};
use braid_store::ObjectStore;
use braid_types::{FileIndex, ObjectId};
use braid_wire::message::{mds::FsckFile, types::Attributes};

use crate::{
    checker::Checker,
    cluster::{Cluster, Node},
    driver::SimDriver,
    model::Violation,
    workload::seen,
};

/// Maximum time until the sessions of dead clients end, deletions finish and sizes are recorded.
pub const CLEANUP_MAX: Duration = Duration::from_secs(240);
/// Bytes of each file that are read.
const BYTES: usize = 128 * 1024;

type Checked<T = ()> = Result<T, Violation>;

/// Ends all faults and starts every process.
pub fn end_faults(cluster: &Cluster) {
    cluster.world.trace_event(format_args!("all faults are over"));
    cluster.network.set_link_conditions(crate::network::LinkConditions::default());
    cluster.network.heal_all();
    cluster.iods.iter().for_each(|iod| iod.store.faults().clear());
    cluster.restart(Node::Mds);
    (0..cluster.iods.len()).for_each(|iod| cluster.restart(Node::Iod(iod)));
}

/// Checks everything. `strict`: the metadata server's host lost no power. Only then every object
/// must belong to a file: a loss of power may undo the creation of a file that was not flushed, or
/// a deletion at an I/O daemon.
pub fn final_check(cluster: &Cluster, judge: &Checker, strict: bool) {
    let outcome = trees(cluster, judge).and_then(|()| disks(cluster, strict));
    judge.check(outcome);
}

fn failed(what: &str) -> impl Fn(Error) -> Violation + '_ {
    move |error| {
        let rule = if error.status() == Status::ObjectLost { "I11" } else { "I8" };
        Violation::new(rule, format!("{what} after all faults were over: {error}"))
    }
}

/// Checks every tree, as every client sees it.
fn trees(cluster: &Cluster, judge: &Checker) -> Checked {
    let count = judge.state().trees.len();
    for tree in 0..count {
        let (root, paths) = {
            let state = judge.state();
            (state.trees[tree].root.clone(), state.trees[tree].names.paths())
        };
        for client in 0..cluster.clients.len() {
            for path in &paths {
                look(cluster, judge, client, tree, &root, path)?;
            }
        }
    }
    Ok(())
}

fn look(
    cluster: &Cluster,
    judge: &Checker,
    client: usize,
    tree: usize,
    root: &str,
    path: &str,
) -> Checked {
    let full = format!("/{root}/{path}");
    let place = full.clone();
    let attributes = cluster.client(client, |api| async move { api.lstat(place.as_str()).await });
    let shown = match &attributes {
        Ok(attributes) => Ok(seen(attributes)),
        Err(error) if matches!(error.status(), Status::NotFound | Status::NotDirectory) => {
            Err(error.status())
        }
        Err(error) => return Err(failed("stat")(error.clone())),
    };
    cluster.world.trace_event(format_args!("audit: client{} sees {full} as {shown:?}", client + 1));
    judge.state().trees[tree].names.stat(path, shown)?;
    let Ok(attributes) = attributes else { return Ok(()) };
    match attributes.kind {
        braid_wire::message::FileKind::File => content(cluster, judge, client, &full, &attributes),
        braid_wire::message::FileKind::Directory => {
            let place = full.clone();
            let names = cluster.client(client, |api| async move { list(&api, &place).await });
            let names = names.map_err(failed("list"))?;
            judge.state().trees[tree].names.list(path, Ok(&names))
        }
        _ => Ok(()),
    }
}

/// Lists a directory's names.
async fn list(client: &Client<SimDriver>, path: &str) -> Result<Vec<String>, Error> {
    let mut listing = client.read_dir(path, false).await?;
    let mut names = Vec::new();
    while let Some(entry) = listing.next().await {
        names.push(String::from_utf8_lossy(&entry?.name).into_owned());
    }
    Ok(names)
}

fn content(
    cluster: &Cluster,
    judge: &Checker,
    client: usize,
    path: &str,
    attributes: &Attributes,
) -> Checked {
    let (file, size) = (attributes.file.0, attributes.bytes.0);
    let place = path.to_owned();
    let read = cluster.client(client, |api| async move {
        let file = api.open(place.as_str(), &OpenOptions::new().read(true)).await?;
        let mut buffer = vec![0xee; BYTES];
        let got = file.read_at(&mut buffer, 0).await?;
        buffer.truncate(got);
        Ok::<_, Error>(buffer)
    });
    let bytes = read.map_err(failed("read"))?;
    let on = judge.begin(file, None);
    on.check_seen(|data| {
        data.check_size(size)?;
        data.check_end_of_file(0, bytes.len() as u64, BYTES as u64)?;
        data.check_bytes(0, &bytes)
    });
    let failed = judge.state().violation.clone();
    failed.map_or(Ok(()), Err)
}

/// Checks that the disks hold what the names describe, after every client has stopped.
fn disks(cluster: &Cluster, strict: bool) -> Checked {
    for client in 0..cluster.clients.len() {
        cluster.client(client, |api| async move { api.close().await });
        cluster.kill(Node::Client(client));
    }
    settle(cluster)?;
    let (files, problems) = cluster
        .client(0, |api| async move {
            let (mut files, mut problems) = (Vec::new(), Vec::new());
            for shard in api.fsck_shards().await? {
                problems.extend(api.fsck_namespace(shard, false).await?.problems);
                let mut after = FileIndex(u64::from(shard.0) << 48);
                loop {
                    let page = api.fsck_files(shard, after, 1000).await?;
                    let Some(last) = page.last() else { break };
                    after = last.file;
                    files.extend(page);
                }
            }
            Ok((files, problems))
        })
        .map_err(failed("fsck"))?;
    if !problems.is_empty() {
        return Err(Violation::new("I7", format!("fsck finds {problems:?}")));
    }
    objects(cluster, &files, strict)
}

/// Waits until no work is pending.
fn settle(cluster: &Cluster) -> Checked {
    let end = cluster.world.now() + CLEANUP_MAX;
    loop {
        let status = cluster
            .client(0, |api| async move { api.mds_status().await })
            .map_err(failed("status"))?;
        let pending = status.deletions_pending + status.intents_pending + status.sizes_in_objects;
        // The session of this check itself.
        let others = status.sessions > 1;
        if pending == 0 && !status.grace && !others {
            return Ok(());
        }
        if cluster.world.now() > end {
            let what = format!(
                "{} deletions, {} intents, {} sizes pending, {} sessions, \
                     long after all faults were over",
                status.deletions_pending,
                status.intents_pending,
                status.sizes_in_objects,
                status.sessions
            );
            return Err(Violation::new("I8", what));
        }
        cluster.advance(Duration::from_secs(2));
    }
}

fn objects(cluster: &Cluster, files: &[FsckFile], strict: bool) -> Checked {
    let known: BTreeMap<FileIndex, &FsckFile> =
        files.iter().map(|file| (file.file, file)).collect();
    for iod in &cluster.iods {
        let Some(id) = iod.known_id() else { continue };
        let page = iod
            .store
            .list(None, usize::MAX)
            .map_err(|why| Violation::new("I8", why.to_string()))?;
        for object in &page.objects {
            let placed = known.get(&object.file).is_some_and(|file| {
                let placement = file.layout.placement(object.part);
                placement.is_some_and(|p| p.iods.contains(&id) && p.generation == object.generation)
            });
            if !placed && strict {
                return Err(Violation::new(
                    "I7",
                    format!("object {object} on {} belongs to no file", iod.name),
                ));
            }
        }
        for file in files {
            for (part, placement) in file.layout.placements().filter(|(_, p)| p.iods.contains(&id))
            {
                let recorded =
                    file.existing_parts.get(usize::from(part.0) / 8).copied().unwrap_or(0);
                let object = ObjectId { file: file.file, part, generation: placement.generation };
                if recorded >> (part.0 % 8) & 1 == 1 && !page.objects.contains(&object) {
                    return Err(Violation::new(
                        "I11",
                        format!("object {object} is recorded and not on {}", iod.name),
                    ));
                }
            }
        }
    }
    Ok(())
}
