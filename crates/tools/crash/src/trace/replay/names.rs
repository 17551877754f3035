//! Names: created, moved, removed.

use super::*;

impl Replay {
    pub(super) fn names(&mut self, call: &Call<'_>) -> Result<()> {
        match call.name {
            "rename" => self.rename(call, (None, 0), (None, 1)),
            "renameat" | "renameat2" => self.rename(call, (Some(0), 1), (Some(2), 3)),
            "unlink" | "rmdir" => self.remove(call, None, 0),
            "unlinkat" => self.remove(call, Some(0), 1),
            "mkdir" => self.make_directory(call, None, 0),
            "mkdirat" => self.make_directory(call, Some(0), 1),
            "link" => self.link(call, (None, 0), (None, 1)),
            "linkat" => self.link(call, (Some(0), 1), (Some(2), 3)),
            "symlink" => self.symbolic(call, None, 1),
            "symlinkat" => self.symbolic(call, Some(1), 2),
            // A socket or pipe, or something outside the root.
            _ => Ok(()),
        }
    }

    pub(super) fn rename(
        &mut self,
        call: &Call<'_>,
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
    ) -> Result<()> {
        let from = self.locate_argument(call, from.0, from.1)?;
        let to = self.locate_argument(call, to.0, to.1)?;
        let (Some(from), Some(to)) = (&from, &to) else {
            ensure!(
                from.is_none() && to.is_none(),
                "a rename into or out of the recorded directory"
            );
            return Ok(());
        };
        let node =
            self.tree.lookup(from.directory, &from.name).context("a rename of an unknown file")?;
        let flags = call.arguments.get(4).copied().unwrap_or_default();
        let exchanged = match text::has_flag(flags, "RENAME_EXCHANGE") {
            true => self.tree.lookup(to.directory, &to.name),
            false => None,
        };
        let old = (from.directory, from.name.clone(), exchanged);
        self.change(Change::Names(vec![old, (to.directory, to.name.clone(), Some(node))]));
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<()> {
        if let Some(place) = self.locate_argument(call, directory, path)? {
            self.change(Change::Names(vec![(place.directory, place.name, None)]));
        }
        Ok(())
    }

    pub(super) fn make_directory(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<()> {
        let full = self.full_path(call, directory, path)?;
        if let Some(Ok(place)) = self.locate(full.as_deref())? {
            let mode = octal(argument(call, path + 1)?);
            if self.tree.lookup(place.directory, &place.name).is_none() {
                self.make(Kind::Directory(mode), &place);
            }
        }
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        call: &Call<'_>,
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
    ) -> Result<()> {
        let to = self.locate_argument(call, to.0, to.1)?;
        let node = match self.descriptor_behind(call, from.1)? {
            Some(number) => self.node_of(call.thread, number),
            None => match self.locate_argument(call, from.0, from.1)? {
                Some(from) => Some(
                    self.tree
                        .lookup(from.directory, &from.name)
                        .context("a link to an unknown file")?,
                ),
                None => None,
            },
        };
        let (Some(node), Some(to)) = (node, &to) else {
            ensure!(to.is_none(), "a link from outside the recorded directory");
            return Ok(());
        };
        self.change(Change::Names(vec![(to.directory, to.name.clone(), Some(node))]));
        Ok(())
    }

    pub(super) fn symbolic(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<()> {
        if let Some(place) = self.locate_argument(call, directory, path)? {
            let target = text::bytes(argument(call, 0)?)?;
            self.make(Kind::Link(target), &place);
        }
        Ok(())
    }

    /// A new node without a name.
    pub(super) fn make_nameless(&mut self, kind: Kind, directory: Node) -> Node {
        let is_directory = matches!(kind, Kind::Directory(_));
        let node = self.tree.add(kind.clone());
        self.history.nodes.push(kind);
        let above = self.history.volumes[directory.0];
        let top = directory == Node::ROOT && is_directory;
        self.history.volumes.push(if top { node } else { above });
        node
    }

    /// A new node and its name.
    pub(super) fn make(&mut self, kind: Kind, place: &NameLocation) -> Node {
        let node = self.make_nameless(kind, place.directory);
        self.change(Change::Names(vec![(place.directory, place.name.clone(), Some(node))]));
        node
    }

    pub(super) fn change(&mut self, change: Change) {
        self.tree.apply(&change);
        self.history.events.push(Event::Change(change));
    }
}
