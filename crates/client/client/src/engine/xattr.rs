//! Extended attributes.

use braid_net::Driver;
use braid_wire::message::{
    mds::{GetXattr, ListXattrs, RemoveXattr, SetXattr, XattrMode},
    types::At,
};

use super::Caller;
use crate::error::Result;

impl<D: Driver> Caller<D> {
    /// The value of an extended attribute; `name` with its `user.` or other prefix.
    pub async fn xattr(&self, at: &At, name: &[u8]) -> Result<Vec<u8>> {
        self.ask("get xattr of", at, GetXattr { at: at.clone(), name: name.to_vec() }).await
    }

    /// Sets an extended attribute.
    pub async fn set_xattr(&self, at: &At, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let call = SetXattr { at: at.clone(), name: name.to_vec(), value: value.to_vec(), mode };
        self.change("set xattr of", at, call).await
    }

    /// Names of all extended attributes.
    pub async fn xattrs(&self, at: &At) -> Result<Vec<Vec<u8>>> {
        self.ask("list xattrs of", at, ListXattrs { at: at.clone() }).await
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(&self, at: &At, name: &[u8]) -> Result<()> {
        self.change("remove xattr of", at, RemoveXattr { at: at.clone(), name: name.to_vec() }).await
    }
}
