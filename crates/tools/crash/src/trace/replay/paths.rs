//! Finds the node of an argument.

use super::*;

impl Replay {
    /// The absolute path of an argument; `None` if it is relative to something that is not
    /// recorded.
    pub(super) fn full_path(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<Option<PathBuf>> {
        let bytes = text::bytes(argument(call, path)?)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
        if path.is_absolute() {
            return Ok(Some(path.to_owned()));
        }
        let Some(directory) = directory else { return Ok(None) };
        if argument(call, directory)?.starts_with(b"AT_FDCWD") {
            return Ok(None);
        }
        let Some(node) = self.node(call, directory)? else { return Ok(None) };
        let above = self.tree.path_of(node).context("a directory without a name")?;
        Ok(Some(self.root.join(above).join(path)))
    }

    /// The location of a path below the root: the last name in its directory, or the root itself.
    pub(super) fn locate(&self, path: Option<&Path>) -> Result<Option<Result<NameLocation, Node>>> {
        let Some(below) = path.and_then(|path| path.strip_prefix(&self.root).ok()) else {
            return Ok(None);
        };
        let mut names = Vec::new();
        for component in below.components() {
            match component {
                Component::Normal(name) => names.push(name.as_bytes().to_vec()),
                Component::CurDir => {}
                _ => bail!("the path {} is not supported", below.display()),
            }
        }
        let Some(last) = names.pop() else { return Ok(Some(Err(Node::ROOT))) };
        let mut directory = Node::ROOT;
        for name in &names {
            directory = self
                .tree
                .lookup(directory, name)
                .with_context(|| format!("{} is unknown", below.display()))?;
        }
        Ok(Some(Ok(NameLocation { directory, name: last })))
    }

    pub(super) fn locate_argument(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<Option<NameLocation>> {
        let full = self.full_path(call, directory, path)?;
        Ok(self.locate(full.as_deref())?.and_then(Result::ok))
    }

    pub(super) fn existing(&self, path: Option<&Path>) -> Result<Option<Node>> {
        Ok(match self.locate(path)? {
            Some(Ok(place)) => self.tree.lookup(place.directory, &place.name),
            Some(Err(node)) => Some(node),
            None => None,
        })
    }

    pub(super) fn open_file(
        &mut self,
        call: &Call<'_>,
        descriptor: usize,
    ) -> Result<Option<Rc<OpenFile>>> {
        let number = number(call, descriptor)?;
        Ok(self.descriptors.find(call.thread, number).map(|descriptor| descriptor.file))
    }

    pub(super) fn node(&mut self, call: &Call<'_>, descriptor: usize) -> Result<Option<Node>> {
        Ok(self.node_of(call.thread, number(call, descriptor)?))
    }

    pub(super) fn node_of(&mut self, thread: u32, descriptor: i64) -> Option<Node> {
        match self.descriptors.find(thread, descriptor)?.file.target {
            Target::Node(node) => Some(node),
            Target::Marks => None,
        }
    }

    /// The descriptor that a path in `/proc` stands for.
    pub(super) fn descriptor_behind(&self, call: &Call<'_>, path: usize) -> Result<Option<i64>> {
        let path = text::bytes(argument(call, path)?)?;
        let number = path
            .strip_prefix(b"/proc/self/fd/")
            .and_then(|number| std::str::from_utf8(number).ok());
        Ok(number.and_then(|number| number.parse().ok()))
    }
}
