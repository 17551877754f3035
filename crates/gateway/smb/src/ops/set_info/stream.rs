//! Renames of streams within their file. MS-FSA 2.1.5.15.11.1.

use braid_share::{
    Deny, FileKind, OpenMode, OpenTarget, Rights, Share, ShareClient, ShareFile, XattrMode,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{NotifyAction, RenameFlags, RenameTarget};
use braid_smb_wire::smb2::change_notify::CompletionFilter;

use super::Change;
use crate::status::failed;
use crate::streams::list;
use crate::streams::name::{StreamName, StreamPart};
use crate::streams::shared::{bytes_of, granted, too_large};

impl<S: Share> Change<'_, S> {
    /// Gives a stream another name.
    pub(super) async fn rename_stream(&self, target: &RenameTarget) -> Result<(), NtStatus> {
        // Windows does not rename a file through an open of its stream.
        if !target.name.starts_with(':') {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        let name = match StreamPart::parse(&target.name) {
            Ok(StreamPart::Named(name)) => name,
            Ok(StreamPart::Bytes) => return self.become_bytes(target.flags).await,
            Ok(StreamPart::Directory) | Err(_) => return Err(NtStatus::INVALID_PARAMETER),
        };
        let Some(open) = &self.open.stream else { return Err(NtStatus::NOT_SUPPORTED) };
        // No read and write comes between: they find the stream by its name.
        let _changing = open.shared.changing.lock().await;
        let before = open.shared.name();
        if before == name {
            return Ok(());
        }
        let is_same = before.folded() == name.folded();
        let known = self.attributes().await?;
        let (found, _) = list::find(self.client, self.who, &known, &name).await?;
        let replaced = found.filter(|_| !is_same);
        if let Some(replaced) = &replaced {
            self.check_replaced_stream(replaced, target.flags).await?;
        }
        let files = &self.context.server.files;
        files.rename_stream(open.key, &name)?;
        if let Err(status) = self.move_stream(&before, &name, replaced.as_ref()).await {
            // Only another open that has come meanwhile could have the old name.
            let _ = files.rename_stream(open.key, &before);
            return Err(status);
        }
        let (root, place) = (self.open.tree.root(), self.open.place());
        for (name, action) in
            [(&before, NotifyAction::REMOVED_STREAM), (&name, NotifyAction::ADDED_STREAM)]
        {
            let what = (action, CompletionFilter::STREAM_NAME);
            self.context.server.watches.report_stream(root, &place, name, what);
        }
        Ok(())
    }

    /// Makes the bytes of the stream those of the file, which must have none and no open. The open
    /// that asks for it has no stream afterwards: all that it is used for but its close is
    /// `FILE_CLOSED`.
    async fn become_bytes(&self, flags: RenameFlags) -> Result<(), NtStatus> {
        let Some(open) = &self.open.stream else { return Err(NtStatus::NOT_SUPPORTED) };
        let known = self.client.attributes(self.who, self.open.file).await.map_err(failed)?;
        if !flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let _changing = open.shared.changing.lock().await;
        let (client, who, name) = (self.client, granted(self.who), open.shared.name());
        let value = client.xattr(&who, known.file, &name.attribute()).await.map_err(failed)?;
        let bytes = bytes_of(value).map_err(failed)?;
        let is_empty = known.kind == FileKind::File && known.bytes.0 == 0;
        if !is_empty || self.context.server.files.is_open(known.file) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let mode = OpenMode { rights: Rights::WRITE, deny: Deny::READ | Deny::WRITE };
        let opened = client.open(&who, OpenTarget::File(known.file), mode).await.map_err(failed)?;
        let written = opened.file.write(0, bytes.into(), true).await;
        let closed = opened.file.close().await;
        written.and(closed).map_err(failed)?;
        list::remove(client, &who, known.file, &name).await.map_err(failed)?;
        let what = (NotifyAction::REMOVED_STREAM, CompletionFilter::STREAM_NAME);
        let (root, place) = (self.open.tree.root(), self.open.place());
        self.context.server.watches.report_stream(root, &place, &name, what);
        Ok(())
    }

    /// Checks that a stream that has the new name may be replaced.
    async fn check_replaced_stream(
        &self,
        replaced: &StreamName,
        flags: RenameFlags,
    ) -> Result<(), NtStatus> {
        if !flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let (who, file) = (granted(self.who), self.open.file);
        let value = self.client.xattr(&who, file, &replaced.attribute()).await.map_err(failed)?;
        // Only a stream without bytes is replaced.
        match bytes_of(value).map_err(failed)?.is_empty() {
            true => Ok(()),
            false => Err(NtStatus::INVALID_PARAMETER),
        }
    }

    /// Stores the stream under its new name before it is removed under the old one: a failure
    /// leaves both, and loses none.
    async fn move_stream(
        &self,
        before: &StreamName,
        name: &StreamName,
        replaced: Option<&StreamName>,
    ) -> Result<(), NtStatus> {
        let (client, who, file) = (self.client, granted(self.who), self.open.file);
        let value = client.xattr(&who, file, &before.attribute()).await.map_err(failed)?;
        let mode = if replaced.is_some() { XattrMode::Either } else { XattrMode::Create };
        let set = client.set_xattr(&who, file, &name.attribute(), &value, mode).await;
        set.map_err(too_large).map_err(failed)?;
        // The replaced one may differ in case.
        let gone = [Some(before), replaced.filter(|replaced| *replaced != name)];
        for gone in gone.into_iter().flatten() {
            list::remove(client, &who, file, gone).await.map_err(failed)?;
        }
        Ok(())
    }
}
