//! Extended attributes.

use braid_net::Driver;
use braid_wire::message::{
    mds::{GetXattr, ListXattrs, RemoveXattr, SetXattr, XattrMode},
    types::PathRef,
};

use super::Caller;
use crate::error::Result;

impl<D: Driver> Caller<D> {
    /// The value of an extended attribute. `name` includes its prefix, such as `user.`.
    pub async fn xattr(&self, at: &PathRef, name: &[u8]) -> Result<Vec<u8>> {
        self.repeatable("get xattr of", at, GetXattr { at: at.clone(), name: name.to_vec() })
            .send()
            .await
    }

    /// Sets an extended attribute.
    pub async fn set_xattr(
        &self,
        at: &PathRef,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let call = SetXattr {
            at: at.clone(),
            name: name.to_vec(),
            value: value.to_vec(),
            mode,
            drop_setgid: false,
        };
        self.once("set xattr of", at, call).send().await
    }

    /// As [`Caller::set_xattr`] for an access control list, and clears the set-group-ID bit. The
    /// caller has checked the user, who is not in the file's group.
    pub async fn set_acl_dropping_setgid(
        &self,
        at: &PathRef,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let (at, name, value) = (at.clone(), name.to_vec(), value.to_vec());
        let call =
            SetXattr { at: at.clone(), name, value, mode: XattrMode::Either, drop_setgid: true };
        self.once("set access control list of", &at, call).send().await
    }

    /// The names of all extended attributes.
    pub async fn xattrs(&self, at: &PathRef) -> Result<Vec<Vec<u8>>> {
        self.repeatable("list xattrs of", at, ListXattrs { at: at.clone() }).send().await
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(&self, at: &PathRef, name: &[u8]) -> Result<()> {
        self.once("remove xattr of", at, RemoveXattr { at: at.clone(), name: name.to_vec() })
            .send()
            .await
    }
}
