//! The agent.
use std::path::Path;
use crate::{config::Proof, error::{Error, Result}};
pub(crate) fn ask(path: &Path) -> Result<Proof> {
    Err(Error::new(braid_types::Status::Unsupported, "").during("ask the agent at", path.display()))
}
