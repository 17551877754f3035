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

use super::{Caller, mds_call::Kind};
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
        let map = self.ask("get the cluster map of", &cluster(), GetClusterMap {}).await?;
        self.engine.take_map(&map);
        Ok(map)
    }

    /// What an agent writes into tickets.
    pub async fn agent_check(&self) -> Result<AgentCheckReply> {
        self.ask("check the agent's session in", &cluster(), AgentCheck {}).await
    }

    /// The metadata server's status.
    pub async fn mds_status(&self) -> Result<MdsStatusReply> {
        self.ask("get the status of", &cluster(), MdsStatus {}).await
    }

    /// Counters of the metadata server.
    pub async fn daemon_status(&self) -> Result<DaemonStatusReply> {
        let engine = &self.engine;
        engine.check_process()?;
        engine.common_call(DaemonStatus {}, engine.deadline()).await
    }

    /// Makes a client key. Its secret is shown once.
    pub async fn key_add(&self, name: &str, rights: KeyRights) -> Result<KeyAddReply> {
        self.change("add a key to", &cluster(), KeyAdd { name: name.to_owned(), rights }).await
    }

    /// All client keys.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>> {
        self.ask("list the keys of", &cluster(), KeyList {}).await
    }

    /// Revokes a client key: its sessions end and are fenced.
    pub async fn key_revoke(&self, key: KeyId) -> Result<()> {
        self.change("revoke a key of", &cluster(), KeyRevoke { key }).await
    }

    /// Sets an I/O daemon draining, or up again.
    pub async fn set_iod_state(&self, iod: IodId, state: IodState) -> Result<()> {
        self.change("set the state of a daemon of", &cluster(), SetIodState { iod, state }).await
    }

    /// Takes an I/O daemon out of the cluster for good. Refused while it is up or while files have parts on it, unless
    /// `lost`: then what lies on it is given up.
    pub async fn remove_iod(&self, iod: IodId, lost: bool) -> Result<()> {
        let call = IodRemove { iod, lost };
        // Done twice it is done once; it is given the time to look through all files.
        let deadline = self.engine.deadline();
        let removed = self.engine.call(self.identity.number(), &call, Kind::Free, deadline).await;
        removed.map_err(|error| error.during("remove a daemon of", super::show(&cluster())))
    }

    /// Files of a shard after `after` of which an I/O daemon has a part, or may have one.
    pub async fn fsck_affected(
        &self,
        iod: IodId,
        shard: ShardId,
        after: FileIndex,
    ) -> Result<FsckAffectedReply> {
        self.ask("check", &cluster(), FsckAffected { iod, shard, after }).await
    }

    /// Shards in use.
    pub async fn fsck_shards(&self) -> Result<Vec<ShardId>> {
        self.ask("check", &cluster(), FsckShards {}).await
    }

    /// Files of a shard after `after`, in the order of their index.
    pub async fn fsck_files(
        &self,
        shard: ShardId,
        after: FileIndex,
        count_max: u32,
    ) -> Result<Vec<FsckFile>> {
        self.ask("check", &cluster(), FsckFiles { shard, after, count_max }).await
    }

    /// Checks names, link counts and reachability of a shard; with `mend`, mends them.
    pub async fn fsck_namespace(&self, shard: ShardId, mend: bool) -> Result<FsckNamespaceReply> {
        let call = FsckNamespace { shard, mend };
        // Mending twice mends nothing more: no slot is needed, and a check of a large shard holds none.
        let deadline = self.engine.deadline();
        let reply = self.engine.call(self.identity.number(), &call, Kind::Free, deadline).await;
        reply.map_err(|error| error.during("check", super::show(&cluster())))
    }

    /// Mends the record of a file.
    pub async fn fsck_mend(&self, file: FileIndex, mend: FsckMend) -> Result<()> {
        self.change("mend", &At::file(file), FsckMendFile { file, mend }).await
    }

    /// Which of these objects belong to no file and to no pending deletion.
    pub async fn fsck_orphans(&self, objects: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
        self.ask("check", &cluster(), FsckOrphans { objects }).await
    }

    /// Why the file system must be checked, where it must. `clear` takes the mark off.
    pub async fn fsck_mark(&self, clear: bool) -> Result<Option<String>> {
        self.ask("check", &cluster(), FsckMark { clear }).await
    }
}

/// Calls about the whole cluster name its root in errors.
fn cluster() -> At {
    At::root(b"")
}
