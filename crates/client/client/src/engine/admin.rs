//! Calls of administrators and tools: keys, status, daemons, fsck.

use braid_net::Driver;
use braid_types::{FileIndex, IodId, KeyId, ObjectId, ShardId};
use braid_wire::message::{
    DaemonStatus, DaemonStatusReply,
    import::{ImportEntry, ImportedEntry},
    mds::{
        AgentCheck, AgentCheckReply, FsckAffected, FsckAffectedReply, FsckFile, FsckFiles,
        FsckMend, FsckMendFile, FsckNamespace, FsckNamespaceReply, FsckOrphans, FsckShards,
        GatewaySecretReply, GetClusterMap, GetGatewaySecret, ImportEntries, IodRemove, KeyAdd,
        KeyAddReply, KeyInfo, KeyList, KeyRevoke, KeyRights, MdsStatus, MdsStatusReply, NeedsFsck,
        ReserveFiles, SetIodState,
    },
    types::{ClusterMap, Identity, IodState, PathRef},
};

use super::Caller;
use crate::error::Result;

impl<D: Driver> Caller<D> {
    /// The identity that the metadata server assigns to this client.
    pub async fn whoami(&self) -> Result<Identity> {
        self.engine.check_process()?;
        Ok(self.engine.mds_connection(self.engine.deadline()).await?.session.identity.clone())
    }

    /// Whether this client may act as other identities: true for the holder of a client key, false
    /// for a ticket.
    pub async fn vouches(&self) -> Result<bool> {
        self.engine.check_process()?;
        Ok(self.engine.mds_connection(self.engine.deadline()).await?.session.vouches)
    }

    /// The cluster map. The engine uses its I/O daemon addresses from now on.
    pub async fn cluster_map(&self) -> Result<ClusterMap> {
        let map =
            self.repeatable("get the cluster map of", &cluster(), GetClusterMap {}).send().await?;
        self.engine.apply_map(&map);
        Ok(map)
    }

    /// The values that an agent writes into tickets.
    pub async fn agent_check(&self) -> Result<AgentCheckReply> {
        self.repeatable("check the agent's session in", &cluster(), AgentCheck {}).send().await
    }

    /// What gateways share.
    pub async fn gateway_secret(&self) -> Result<GatewaySecretReply> {
        self.repeatable("get the secret of gateways of", &cluster(), GetGatewaySecret {})
            .send()
            .await
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

    /// Makes a client key. Its secret is returned only this once.
    pub async fn key_add(&self, name: &str, rights: KeyRights) -> Result<KeyAddReply> {
        self.once("add a key to", &cluster(), KeyAdd { name: name.to_owned(), rights }).send().await
    }

    /// All client keys.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>> {
        self.repeatable("list the keys of", &cluster(), KeyList {}).send().await
    }

    /// Revokes a client key: ends its sessions and fences them.
    pub async fn key_revoke(&self, key: KeyId) -> Result<()> {
        self.once("revoke a key of", &cluster(), KeyRevoke { key }).send().await
    }

    /// Sets an I/O daemon to draining, or back to up.
    pub async fn set_iod_state(&self, iod: IodId, state: IodState) -> Result<()> {
        self.once("set the state of a daemon of", &cluster(), SetIodState { iod, state })
            .send()
            .await
    }

    /// Removes an I/O daemon from the cluster for good. Refused while the daemon is up or while
    /// files have parts on it, unless `lost` is set: then the data on it is given up.
    pub async fn remove_iod(&self, iod: IodId, lost: bool) -> Result<()> {
        let call = IodRemove { iod, lost };
        // Repeating it changes nothing. The deadline is never shortened: the server needs time to
        // look through all files.
        let deadline = self.engine.deadline();
        self.repeatable("remove a daemon of", &cluster(), call).until(deadline).send().await
    }

    /// Files of a shard, after `after`, that have a part on an I/O daemon, or may have one.
    pub async fn fsck_affected(
        &self,
        iod: IodId,
        shard: ShardId,
        after: FileIndex,
    ) -> Result<FsckAffectedReply> {
        self.repeatable("check", &cluster(), FsckAffected { iod, shard, after }).send().await
    }

    /// The shards in use.
    pub async fn fsck_shards(&self) -> Result<Vec<ShardId>> {
        self.repeatable("check", &cluster(), FsckShards {}).send().await
    }

    /// Files of a shard, after `after`, in the order of their index.
    pub async fn fsck_files(
        &self,
        shard: ShardId,
        after: FileIndex,
        count_max: u32,
    ) -> Result<Vec<FsckFile>> {
        self.repeatable("check", &cluster(), FsckFiles { shard, after, count_max }).send().await
    }

    /// Checks names, link counts and reachability of a shard. `mend` repairs what is wrong.
    pub async fn fsck_namespace(&self, shard: ShardId, mend: bool) -> Result<FsckNamespaceReply> {
        let call = FsckNamespace { shard, mend };
        // A second repair repairs nothing more. So no replay slot is needed, and the check of a
        // large shard does not occupy one.
        let deadline = self.engine.deadline();
        self.repeatable("check", &cluster(), call).until(deadline).send().await
    }

    /// Repairs the record of a file.
    pub async fn fsck_mend(&self, file: FileIndex, mend: FsckMend) -> Result<()> {
        self.once("mend", &PathRef::file(file), FsckMendFile { file, mend }).send().await
    }

    /// Those of the given objects that belong to no file and to no pending deletion.
    pub async fn fsck_orphans(&self, objects: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
        self.repeatable("check", &cluster(), FsckOrphans { objects }).send().await
    }

    /// Reserves indexes of files for [`Caller::import`]: `count` of them, from the returned one on.
    pub async fn reserve_files(&self, count: u32) -> Result<FileIndex> {
        // A repetition reserves others: these are lost, and there are 2^48.
        self.repeatable("reserve files in", &cluster(), ReserveFiles { count }).send().await
    }

    /// Makes existing files of disks files of the cluster. Returns the outcome of each, in order,
    /// once all survive a loss of power. Repeating it changes nothing.
    pub async fn import(&self, entries: Vec<ImportEntry>) -> Result<Vec<ImportedEntry>> {
        self.repeatable("import into", &cluster(), ImportEntries { entries }).send().await
    }

    /// The reason why the file system must be checked, or `None`. `clear` clears the needs-fsck
    /// flag.
    pub async fn fsck_mark(&self, clear: bool) -> Result<Option<String>> {
        self.repeatable("check", &cluster(), NeedsFsck { clear }).send().await
    }
}

/// The path in errors of calls about the whole cluster.
fn cluster() -> PathRef {
    PathRef::root(b"")
}
