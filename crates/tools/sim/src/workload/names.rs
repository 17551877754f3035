//! Calls on names.

use braid_client::{
    Error, OpenOptions, Status,
    message::{
        FileKind,
        types::{Attributes, DistributionHint, LayoutHint},
    },
};

use super::{ClientWorkload, OPEN_MAX, OpenFile, call::is_unknown};
use crate::{
    checker::TreeCall,
    model::{
        Violation,
        names::{Kind, Op, SeenAttributes, rename_mode, xattr_mode},
    },
};

const DIRECTORIES: &[&str] = &["", "d", "e", "d/s"];
const NAMES: &[&str] = &["a", "b", "c", "d", "e", "s"];
const XATTRS: &[&str] = &["user.x", "user.y"];

pub(crate) fn seen(attributes: &Attributes) -> SeenAttributes {
    let kind = match attributes.kind {
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => Kind::Symlink,
        _ => Kind::File,
    };
    SeenAttributes {
        index: attributes.file.0,
        kind,
        mode: attributes.mode,
        links: attributes.links,
    }
}

impl ClientWorkload {
    pub(super) async fn names_step(&mut self) {
        let tree = self.random.below(self.judge.state().trees.len() as u64) as usize;
        let Some(mut entered) = self.judge.enter(tree) else { return };
        let root = self.judge.state().trees[tree].root.clone();
        match self.random.below(100) {
            0..24 => self.open_step(&mut entered, &root).await,
            24..54 => self.stat_step(&entered, &root).await,
            54..60 => self.list_step(&entered, &root).await,
            60..64 => self.sync_directory_step(&entered, &root).await,
            64..67 => self.xattr_step(&entered, &root).await,
            _ => self.change_step(&mut entered, &root).await,
        }
    }

    fn path(&self) -> String {
        match (*self.random.pick(DIRECTORIES), *self.random.pick(NAMES)) {
            ("", name) => name.to_owned(),
            (directory, name) => format!("{directory}/{name}"),
        }
    }

    fn directory(&self) -> String {
        (*self.random.pick(DIRECTORIES)).to_owned()
    }

    fn random_op(&self) -> Op {
        let (path, mode) = (self.path(), 0o600 + self.random.below(0o100) as u32);
        match self.random.below(16) {
            0..3 => Op::Create { path, mode, exclusive: self.random.chance(500_000) },
            3 | 4 => Op::Mkdir {
                path: if self.random.chance(600_000) { "d".into() } else { path },
                mode: 0o755,
            },
            5 => Op::Symlink { path, target: b"/nowhere/at/all".to_vec() },
            6 | 7 => Op::Unlink { path },
            8 => Op::Rmdir { path },
            9..12 => {
                Op::Rename { from: path, to: self.path(), mode: self.random.within(1..4) as u8 }
            }
            12 => Op::Link { from: path, to: self.path() },
            13 => Op::Chmod { path, mode },
            14 => {
                let name = self.random.pick(XATTRS).as_bytes().to_vec();
                let value = self.random.next().to_le_bytes().to_vec();
                Op::SetXattr { path, name, value, mode: self.random.within(1..4) as u8 }
            }
            _ => Op::RemoveXattr { path, name: self.random.pick(XATTRS).as_bytes().to_vec() },
        }
    }

    async fn change_step(&mut self, entered: &mut TreeCall, root: &str) {
        let op = self.random_op();
        let number = entered.begin(&op);
        let outcome = self.call(format!("{root}: {op:?}"), self.make(root, &op)).await;
        let known = !outcome.as_ref().is_err_and(|error| is_unknown(error.status()));
        self.cached.changed(&op.paths(), known, self.world.now());
        entered.end(known);
        if known {
            let outcome = outcome.map_err(|error| error.status());
            entered.check_names(|names| names.done(number, &op, outcome));
            self.check_new(&op, outcome.ok().flatten());
        }
    }

    /// A file index is never used twice.
    fn check_new(&self, op: &Op, seen: Option<SeenAttributes>) {
        if let (Op::Create { exclusive: true, .. } | Op::Mkdir { .. }, Some(seen)) = (op, seen) {
            if self.judge.is_known(seen.index) {
                self.judge.add_violation(
                    "I6",
                    format!("{op:?} gave file index {:x}, which was used before", seen.index),
                );
            }
            self.judge.add_index(seen.index);
        }
    }

    async fn make(&self, root: &str, op: &Op) -> Result<Option<SeenAttributes>, Error> {
        let at = |path: &str| format!("/{root}/{path}");
        let client = &self.client;
        match op {
            Op::Create { path, mode, exclusive } => {
                let reply =
                    client.touch(at(path).as_str(), *mode, *exclusive, self.layout_hint()).await?;
                // An existing file keeps its mode; the model compares it with what it knows.
                Ok(Some(seen(&reply.attributes)))
            }
            Op::Mkdir { path, mode } => {
                Ok(Some(seen(&client.mkdir(at(path).as_str(), *mode).await?)))
            }
            Op::Symlink { path, target } => {
                Ok(Some(seen(&client.symlink(at(path).as_str(), target).await?)))
            }
            Op::Unlink { path } => client.unlink(at(path).as_str()).await.map(|()| None),
            Op::Rmdir { path } => client.rmdir(at(path).as_str()).await.map(|()| None),
            Op::Rename { from, to, mode } => client
                .rename(at(from).as_str(), at(to).as_str(), rename_mode(*mode))
                .await
                .map(|()| None),
            Op::Link { from, to } => {
                Ok(Some(seen(&client.hard_link(at(from).as_str(), at(to).as_str()).await?)))
            }
            Op::Chmod { path, mode } => {
                let changes = braid_client::message::mds::AttributeChanges {
                    mode: Some(*mode),
                    ..braid_client::message::mds::AttributeChanges::none()
                };
                Ok(Some(seen(&client.set_attributes(at(path).as_str(), false, changes).await?)))
            }
            Op::SetXattr { path, name, value, mode } => client
                .set_xattr(at(path).as_str(), name, value, xattr_mode(*mode))
                .await
                .map(|()| None),
            Op::RemoveXattr { path, name } => {
                client.remove_xattr(at(path).as_str(), name).await.map(|()| None)
            }
        }
    }

    pub(super) fn layout_hint(&self) -> LayoutHint {
        let stripe_bytes = Some(4096 << self.random.below(2));
        let wish = LayoutHint { stripe_bytes, ..LayoutHint::none() };
        match self.random.below(5) {
            0 => LayoutHint {
                distribution: Some(DistributionHint::Single),
                stripe_bytes: None,
                ..wish
            },
            1 => LayoutHint {
                distribution: Some(DistributionHint::VarStrip),
                stripe_bytes: None,
                parts: Some(3),
                strips: vec![(0, 4096), (1, 12288), (2, 8192)],
                ..wish
            },
            2 => LayoutHint {
                distribution: Some(DistributionHint::Grouped),
                parts: Some(4),
                group_width: Some(2),
                group_depth: Some(2),
                ..wish
            },
            3 => LayoutHint { parts: Some(self.random.within(1..7) as u16), ..wish },
            _ => wish,
        }
    }

    async fn stat_step(&mut self, entered: &TreeCall, root: &str) {
        let path = if self.random.chance(200_000) { self.directory() } else { self.path() };
        let full = format!("/{root}/{path}");
        if self.random.chance(800_000) {
            let outcome = self.call(format!("look up {full}"), self.look_up(&full)).await;
            return self.judge_stat(entered, &path, outcome.map_err(|error| error.status()));
        }
        let outcome = self.call(format!("stat {full}"), self.client.lstat(full.as_str())).await;
        self.judge_stat(entered, &path, outcome.as_ref().map(seen).map_err(Error::status));
    }

    fn judge_stat(&self, entered: &TreeCall, path: &str, outcome: Result<SeenAttributes, Status>) {
        if !outcome.is_err_and(is_unknown) {
            entered.check_names(|names| names.stat(path, outcome));
        }
    }

    async fn list_step(&mut self, entered: &TreeCall, root: &str) {
        let path = self.directory();
        let outcome =
            self.call(format!("list /{root}/{path}"), self.list(&format!("/{root}/{path}"))).await;
        match outcome {
            Err(error) if is_unknown(error.status()) => {}
            outcome => {
                let outcome = outcome.as_deref().map_err(Error::status);
                entered.check_names(|names| names.list(&path, outcome));
            }
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, Error> {
        let mut listing = self.client.read_dir(path, false).await?;
        let mut names = Vec::new();
        while let Some(entry) = listing.next().await {
            names.push(String::from_utf8_lossy(&entry?.name).into_owned());
        }
        Ok(names)
    }

    async fn sync_directory_step(&mut self, entered: &TreeCall, root: &str) {
        let path = self.directory();
        let full = format!("/{root}/{path}");
        let outcome = self
            .call(format!("sync directory {full}"), self.client.sync_directory(full.as_str()))
            .await;
        if outcome.is_ok() {
            // There is one log: what was committed before is forced with it.
            entered.check_names(|names| {
                names.synced();
                Ok::<(), Violation>(())
            });
        }
    }

    async fn xattr_step(&mut self, entered: &TreeCall, root: &str) {
        let (path, name) = (self.path(), *self.random.pick(XATTRS));
        let full = format!("/{root}/{path}");
        let call = self.client.xattr(full.as_str(), name.as_bytes());
        let outcome = self.call(format!("xattr {name} of {full}"), call).await;
        if !outcome.as_ref().is_err_and(|error| is_unknown(error.status())) {
            let outcome = outcome.as_deref().map_err(Error::status);
            entered.check_names(|names| names.xattr(&path, name.as_bytes(), outcome));
        }
    }

    async fn open_step(&mut self, entered: &mut TreeCall, root: &str) {
        if self.open.len() == OPEN_MAX {
            return;
        }
        let (path, create) = (self.path(), self.random.chance(500_000));
        let op = Op::Create { path: path.clone(), mode: 0o644, exclusive: false };
        let full = format!("/{root}/{path}");
        let options =
            OpenOptions::new().read(true).write(true).layout(self.layout_hint()).create(create);
        let number = if create { entered.begin(&op) } else { self.judge.number() };
        let what = format!("{} {full}", if create { "open or create" } else { "open" });
        let client = self.client.clone();
        let outcome = self.call(what, client.open(full.as_str(), &options)).await;
        let known = !outcome.as_ref().is_err_and(|error| is_unknown(error.status()));
        self.cached.changed(&[&path], known, self.world.now());
        entered.end(known);
        if !known {
            return;
        }
        let shown =
            outcome.as_ref().map(|file| seen(&file.opened_attributes())).map_err(Error::status);
        if create {
            entered.check_names(|names| names.done(number, &op, shown.map(Some)));
        } else {
            entered.check_names(|names| names.open(&path, shown));
        }
        if let Ok(file) = outcome {
            let index = file.index().0;
            self.judge.set_layout(index, file.layout());
            self.judge.opened(index, number, &self.name);
            self.open.push(OpenFile { file, index, handle: number });
        }
    }
}
