//! What administrators and tools ask: keys, status, daemons, fsck.

use braid_net::Driver;
use braid_types::{FileIndex, IodId, KeyId, ObjectId, ShardId};
use braid_wire::message::{
    DaemonStatus, DaemonStatusReply,
    mds::{
        AgentCheck, AgentCheckReply, FsckAffected, FsckAffectedReply, FsckFile, FsckFiles,
        FsckMark, FsckMend, FsckMendFile, FsckNamespace, FsckNamespaceReply, FsckOrphans,
        FsckShards, GetClusterMap, IodRemove, KeyAdd, KeyAddReply, KeyInfo, KeyList, KeyRevoke,
        KeyRights, MdsStatus, MdsStatusReply, SetIodState,
    },
    types::{At, ClusterMap, Identity, IodState},
};

use super::Caller;
use crate::error::Result;

impl<D: Driver> Caller<D> {
    /// Who the metadata server takes this client for.
    pub async fn whoami(&self) -> Result<Identity> {
        self.engine.check_process()?;
        Ok(self.engine.link(self.engine.deadline()).await?.session.identity.clone())
    }

    /// Whether this client may name other identities: the holder of a client key, not of a ticket.
    pub async fn vouches(&self) -> Result<bool> {
        self.engine.check_process()?;
        Ok(self.engine.link(self.engine.deadline()).await?.session.vouches)
    }

    /// The cluster map; addresses of I/O daemons are taken from it at once.
    pub async fn cluster_map(&self) -> Result<ClusterMap> {
        let map =
            self.repeatable("get the cluster map of", &cluster(), GetClusterMap {}).send().await?;
        self.engine.take_map(&map);
        Ok(map)
    }

    /// What an agent writes into tickets.
    pub async fn agent_check(&self) -> Result<AgentCheckReply> {
        self.repeatable("check the agent's session in", &cluster(), AgentCheck {}).send().await
    }

    /// The metadata server's status.
    pub async fn mds_status(&self) -> Result<MdsStatusReply> {
        self.repeatable("get the status of", &cluster(), MdsStatus {}).send().await
    }

    /// Counters of the metadata server.
    pub async fn daemon_status(&self) -> Result<DaemonStatusReply> {
        let engine = &self.engine;
        engine.check_process()?;
        engine.call_without_envelope(DaemonStatus {}, engine.deadline()).await
    }

    /// Makes a client key. Its secret is shown once.
    pub async fn key_add(&self, name: &str, rights: KeyRights) -> Result<KeyAddReply> {
        self.once("add a key to", &cluster(), KeyAdd { name: name.to_owned(), rights }).send().await
    }

    /// All client keys.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>> {
        self.repeatable("list the keys of", &cluster(), KeyList {}).send().await
    }

    /// Revokes a client key: its sessions end and are fenced.
    pub async fn key_revoke(&self, key: KeyId) -> Result<()> {
        self.once("revoke a key of", &cluster(), KeyRevoke { key }).send().await
    }

    /// Sets an I/O daemon draining, or up again.
    pub async fn set_iod_state(&self, iod: IodId, state: IodState) -> Result<()> {
        self.once("set the state of a daemon of", &cluster(), SetIodState { iod, state })
            .send()
            .await
    }

    /// Takes an I/O daemon out of the cluster for good. Refused while it is up or while files have parts on it, unless
    /// `lost`: then what lies on it is given up.
    pub async fn remove_iod(&self, iod: IodId, lost: bool) -> Result<()> {
        let call = IodRemove { iod, lost };
        // Done twice it is done once; it is given the time to look through all files.
        let deadline = self.engine.deadline();
        self.repeatable("remove a daemon of", &cluster(), call).until(deadline).send().await
    }

    /// Files of a shard after `after` of which an I/O daemon has a part, or may have one.
    pub async fn fsck_affected(
        &self,
        iod: IodId,
        shard: ShardId,
        after: FileIndex,
    ) -> Result<FsckAffectedReply> {
        self.repeatable("check", &cluster(), FsckAffected { iod, shard, after }).send().await
    }

    /// Shards in use.
    pub async fn fsck_shards(&self) -> Result<Vec<ShardId>> {
        self.repeatable("check", &cluster(), FsckShards {}).send().await
    }

    /// Files of a shard after `after`, in the order of their index.
    pub async fn fsck_files(
        &self,
        shard: ShardId,
        after: FileIndex,
        count_max: u32,
    ) -> Result<Vec<FsckFile>> {
        self.repeatable("check", &cluster(), FsckFiles { shard, after, count_max }).send().await
    }

    /// Checks names, link counts and reachability of a shard; with `mend`, mends them.
    pub async fn fsck_namespace(&self, shard: ShardId, mend: bool) -> Result<FsckNamespaceReply> {
        let call = FsckNamespace { shard, mend };
        // Mending twice mends nothing more: no slot is needed, and a check of a large shard holds none.
        let deadline = self.engine.deadline();
        self.repeatable("check", &cluster(), call).until(deadline).send().await
    }

    /// Mends the record of a file.
    pub async fn fsck_mend(&self, file: FileIndex, mend: FsckMend) -> Result<()> {
        self.once("mend", &At::file(file), FsckMendFile { file, mend }).send().await
    }

    /// Which of these objects belong to no file and to no pending deletion.
    pub async fn fsck_orphans(&self, objects: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
        self.repeatable("check", &cluster(), FsckOrphans { objects }).send().await
    }

    /// Why the file system must be checked, where it must. `clear` takes the mark off.
    pub async fn fsck_mark(&self, clear: bool) -> Result<Option<String>> {
        self.repeatable("check", &cluster(), FsckMark { clear }).send().await
    }
}

/// Calls about the whole cluster name its root in errors.
fn cluster() -> At {
    At::root(b"")
}
