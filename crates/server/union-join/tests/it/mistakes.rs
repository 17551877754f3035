//! Wrong disks, clusters and directories are refused before anything changes.

use std::fs;

use braid_store::LocalStore;
use braid_types::{ClusterUuid, FileIndex};
use braid_union::{BRANCH_FILE, BranchMode};
use braid_union_join::{Disk, JoinError, JoinOptions, OBJECTS_DIRECTORY};

use crate::harness::{CLUSTER, World};

fn open(world: &World, cluster: ClusterUuid) -> JoinError {
    Disk::open(&world.pool().config.branches[0], cluster).err().unwrap()
}

#[test]
fn a_disk_without_objects_of_this_cluster_is_refused() {
    let world = World::new();
    let error = open(&world, ClusterUuid([9; 16]));
    assert!(matches!(error, JoinError::NoObjects { .. }), "{error}");
    fs::remove_dir_all(world.at("a").join(OBJECTS_DIRECTORY)).unwrap();
    assert!(matches!(open(&world, CLUSTER), JoinError::NoObjects { .. }));
    LocalStore::init(world.at("a").join(OBJECTS_DIRECTORY), CLUSTER, None).unwrap();
    let error = open(&world, CLUSTER);
    assert!(matches!(error, JoinError::NotRegistered { .. }), "{error}");
}

#[test]
fn a_read_only_disk_is_refused() {
    let world = World::new();
    world.pool().set_mode(0, BranchMode::Ro).unwrap();
    let error = open(&world, CLUSTER);
    assert!(matches!(error, JoinError::ReadOnly { .. }), "{error}");
}

#[test]
fn a_missing_disk_is_refused_before_any_change() {
    let (world, _) = World::with_tree();
    fs::remove_file(world.at("b").join(BRANCH_FILE)).unwrap();
    let error = world.join().err().unwrap();
    assert!(error.to_string().contains("probably not mounted"), "{error}");
    assert_eq!(world.cluster.imports(), 0);
    assert!(world.pool().join_state().unwrap().is_none());
}

#[test]
fn another_cluster_or_directory_cannot_go_on_with_a_join() {
    let (world, _) = World::with_tree();
    let mut steps = 0;
    let stopped = world.join_until(World::options(), &mut || {
        steps += 1;
        steps == 8
    });
    assert!(matches!(stopped, Err(JoinError::Stopped)));
    let other = JoinOptions { cluster: "another".into(), ..World::options() };
    let error = world.join_as(other).err().unwrap();
    assert!(matches!(error, JoinError::OtherCluster { .. }), "{error}");
    let other = JoinOptions { directory: FileIndex(77), ..World::options() };
    let error = world.join_as(other).err().unwrap();
    assert!(matches!(error, JoinError::OtherTarget { .. }), "{error}");
    assert!(world.join().unwrap().finished);
}
