//! `join.toml` in the metadata directory: the pool is joining a cluster, or has joined it (ADR
//! 0050). From its first moment on, the union is not mounted any more.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{BRANCH_FILE, Pool, PoolError, Union, error::During, pool::write_durably};

const JOIN_FILE: &str = "join.toml";
const FORMAT: u32 = 1;

/// The content of `join.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinState {
    format: u32,
    /// The cluster.
    pub cluster: String,
    /// The directory of the cluster that gets the files.
    pub to: String,
    /// Its file index there.
    pub directory: u64,
    /// Every file has joined, or was left on purpose.
    pub finished: bool,
}

impl JoinState {
    /// A join that begins.
    pub fn new(cluster: String, to: String, directory: u64) -> Self {
        Self { format: FORMAT, cluster, to, directory, finished: false }
    }
}

impl Pool {
    /// Whether the pool is joining a cluster, or has joined one.
    ///
    /// # Errors
    /// The file cannot be read, or is of a newer version.
    pub fn join_state(&self) -> Result<Option<JoinState>, PoolError> {
        let path = self.join_file();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.during(|| format!("reading {}", path.display()))?,
        };
        let damaged = |why: String| PoolError::Config { path: path.clone(), why };
        let state: JoinState =
            toml::from_str(&text).map_err(|error| damaged(error.message().to_owned()))?;
        match state.format {
            FORMAT => Ok(Some(state)),
            other => Err(damaged(format!("its format is {other}; this version knows {FORMAT}"))),
        }
    }

    /// Records how far the join is, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_join_state(&self, state: &JoinState) -> Result<(), PoolError> {
        let path = self.join_file();
        let text = toml::to_string(state)
            .map_err(|error| PoolError::Config { path: path.clone(), why: error.to_string() })?;
        write_durably(&path, &text)
    }

    /// Ends a join that was interrupted after its last file.
    ///
    /// # Errors
    /// Another process has the pool; a mark cannot be removed.
    pub fn end_join(&self) -> Result<(), PoolError> {
        let _lock = self.lock()?;
        self.remove_marks()
    }

    /// Removes the `.braid-branch` of each disk: the pool has joined a cluster.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove_marks(&self) -> Result<(), PoolError> {
        for branch in &self.config.branches {
            if self.check_identity(branch).is_ok() {
                let path = branch.path.join(BRANCH_FILE);
                fs::remove_file(&path).during(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Refuses to use a pool that is joining a cluster.
    pub(crate) fn expect_no_join(&self) -> Result<(), PoolError> {
        let meta = self.meta().to_owned();
        match self.join_state()? {
            None => Ok(()),
            Some(JoinState { finished: false, cluster, .. }) => {
                Err(PoolError::Joining { meta, cluster })
            }
            Some(JoinState { cluster, to, .. }) => Err(PoolError::Joined { meta, cluster, to }),
        }
    }

    fn join_file(&self) -> PathBuf {
        self.meta().join(JOIN_FILE)
    }
}

impl Union {
    /// Opens the branches for a join: as [`Union::open`], also if a join was begun. No other
    /// process can open the pool as long as the result exists.
    ///
    /// # Errors
    /// As for [`Union::open`].
    pub fn open_to_join(pool: &Pool) -> Result<Self, PoolError> {
        Self::open_whole(pool)
    }
}
