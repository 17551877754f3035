//! Create a regular file or find it, with or without opening it, in one batch.

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::{Failure, FileIndex, Status};

use super::open::{self, OpenArgs};
use super::{make, name};
use crate::acl::NewMode;
use crate::identity::{Call, Want, permit};
use crate::namespace::Namespace;
use crate::nfs4_permissions::permit_add;
use crate::record::{DirectoryChange, DirectoryDefault, FileKind, Inode, Outcome, layout_fits};
use crate::tx::{Op, Tx};

/// How a file is created. `P` decides its layout.
pub struct CreateArgs<P> {
    /// Permission bits.
    pub mode: NewMode,
    /// Fail if the name exists (`O_EXCL`).
    pub exclusive: bool,
    /// Open the file too, also one that exists.
    pub open: Option<OpenArgs>,
    /// Decides the layout, given the directory's default and the file's index. Called only if a
    /// file is created, under the namespace's lock: it must be quick.
    pub place: P,
}

/// The result of `create`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// The file.
    pub inode: Arc<Inode>,
    /// Whether this call created it.
    pub created: bool,
    /// The change of the directory; `None` in the answer to a retry from a record of an earlier
    /// version.
    pub directory: Option<DirectoryChange>,
}

impl Namespace {
    /// Creates a regular file; without `exclusive`, finds the one that has the name. If a symbolic
    /// link has the name, the caller must follow it: it gets [`Status::Exists`], and the link
    /// stays.
    pub fn create<P, L>(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        args: CreateArgs<P>,
    ) -> Result<Created, Failure>
    where
        P: FnOnce(Option<&DirectoryDefault>, FileIndex) -> Result<L, Failure>,
        L: Into<Arc<Layout>>,
    {
        let open = args.open;
        let directories = [directory];
        let at = (directory, &directories[..]);
        let (outcome, changes) =
            self.change_directories(call, Op::Create, at, |tx| {
                match existing(tx, call, directory, name)? {
                    Some(_) if args.exclusive => Err(Status::Exists.into()),
                    Some(inode) => find(tx, call, inode, args.open),
                    None => make(tx, call, directory, name, args),
                }
            })?;
        if let (Outcome::File(inode), Some(open)) = (&outcome, open) {
            open::check_replayed_open(call, inode, open)?;
        }
        let created = matches!(outcome, Outcome::Created(_));
        let inode = outcome.inode().ok_or(Status::Internal)?;
        Ok(Created { inode, created, directory: changes.first().copied() })
    }
}

fn existing(
    tx: &Tx<'_>,
    call: &Call<'_>,
    directory: FileIndex,
    name: &[u8],
) -> Result<Option<Arc<Inode>>, Failure> {
    if matches!(name, b"." | b"..") {
        return Err(Status::IsDirectory.into());
    }
    name::check(name)?;
    let directory = tx.directory(directory)?;
    permit(call.who, &directory, Want::EXECUTE)?;
    tx.entry(directory.file, name)?.map(|entry| tx.target(&entry)).transpose()
}

fn find(
    tx: &mut Tx<'_>,
    call: &Call<'_>,
    inode: Arc<Inode>,
    open: Option<OpenArgs>,
) -> Result<Outcome, Failure> {
    match inode.kind {
        FileKind::Directory => return Err(Status::IsDirectory.into()),
        FileKind::Symlink => {
            return Err(Failure::new(Status::Exists, "a symbolic link has the name"));
        }
        _ => {}
    }
    match open {
        Some(open) => open::open(tx, call.who, &inode, open).map(Outcome::File),
        None => Ok(Outcome::File(inode)),
    }
}

fn make<P, L>(
    tx: &mut Tx<'_>,
    call: &Call<'_>,
    directory: FileIndex,
    name: &[u8],
    args: CreateArgs<P>,
) -> Result<Outcome, Failure>
where
    P: FnOnce(Option<&DirectoryDefault>, FileIndex) -> Result<L, Failure>,
    L: Into<Arc<Layout>>,
{
    // `existing` has checked the name, that it is free, and search permission.
    let parent = tx.directory(directory)?;
    permit_add(call.who, &parent, false)?;
    let mut inode = regular(tx, call, &parent, args.mode, args.place)?;
    if let Some(open) = args.open {
        // The creator of a file may open it whatever its mode (POSIX open()).
        open::add_open(tx, &mut inode, open)?;
    }
    Ok(Outcome::Created(make::add(tx, make::ParentDirectory { directory: parent }, name, inode)))
}

/// A new regular file with its layout, as if created in `parent`.
pub(super) fn regular<P, L>(
    tx: &mut Tx<'_>,
    call: &Call<'_>,
    parent: &Inode,
    mode: NewMode,
    place: P,
) -> Result<Inode, Failure>
where
    P: FnOnce(Option<&DirectoryDefault>, FileIndex) -> Result<L, Failure>,
    L: Into<Arc<Layout>>,
{
    let default = tx.default_of(parent)?;
    let file = tx.new_file(parent.file.shard())?;
    let mut inode = make::inode(call.who, parent, file, FileKind::Regular, mode, tx.now)?;
    let layout = place(default.as_ref(), file)?.into();
    if !layout_fits(&layout) {
        return Err(Failure::new(Status::Invalid, "the layout does not fit its record"));
    }
    inode.layout = Some(tx.intern_layout(layout));
    Ok(inode)
}
