//! Descriptors: opened, duplicated, moved.

use super::*;

impl Replay {
    pub(super) fn open(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let (directory, path, flags) = match call.name {
            "openat" | "openat2" => (Some(0), 1, argument(call, 2)?),
            "creat" => (None, 1, &b"O_CREAT|O_TRUNC"[..]),
            _ => (None, 0, argument(call, 1)?),
        };
        let path = if call.name == "creat" { 0 } else { path };
        let full = self.full_path(call, directory, path)?;
        let target = if let Some(number) = self.descriptor_behind(call, path)? {
            let Some(node) = self.node_of(call.thread, number) else {
                self.descriptors.close(call.thread, returned);
                return Ok(());
            };
            Target::Node(node)
        } else if text::has_flag(flags, "O_TMPFILE") {
            let Some(directory) = self.existing(full.as_deref())? else {
                self.descriptors.close(call.thread, returned);
                return Ok(());
            };
            Target::Node(self.make_nameless(Kind::File(mode_of(call)), directory))
        } else if full.as_deref() == Some(&*self.marks) {
            Target::Marks
        } else {
            match self.locate(full.as_deref())? {
                Some(Ok(place)) => Target::Node(self.opened(&place, call, flags)?),
                Some(Err(node)) => Target::Node(node),
                None => {
                    // Something else has this number now.
                    self.descriptors.close(call.thread, returned);
                    return Ok(());
                }
            }
        };
        let lasting = text::has_flag(flags, "O_DSYNC") || text::has_flag(flags, "O_SYNC");
        let append = text::has_flag(flags, "O_APPEND");
        let file =
            Rc::new(OpenFile { target, position: Cell::new(0), append, synchronous: lasting });
        let until_exec = text::has_flag(flags, "O_CLOEXEC");
        self.descriptors.open(
            call.thread,
            returned,
            Descriptor { file, close_on_exec: until_exec },
        );
        Ok(())
    }

    /// The node of an open, created or truncated if the flags say so.
    pub(super) fn opened(
        &mut self,
        place: &NameLocation,
        call: &Call<'_>,
        flags: &[u8],
    ) -> Result<Node> {
        if let Some(node) = self.tree.lookup(place.directory, &place.name) {
            if text::has_flag(flags, "O_TRUNC") && !self.tree.bytes(node).is_empty() {
                self.change(Change::Resize(node, 0));
            }
            return Ok(node);
        }
        let node = self.make(Kind::File(mode_of(call)), place);
        Ok(node)
    }

    pub(super) fn duplicate(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let command = call.arguments.get(1).copied().unwrap_or_default();
        if call.name == "fcntl" && !command.starts_with(b"F_DUPFD") {
            return Ok(());
        }
        let number = number(call, 0)?;
        match self.descriptors.find(call.thread, number) {
            Some(descriptor) => {
                let until_exec = call.arguments.iter().any(|a| a.ends_with(b"CLOEXEC"));
                self.descriptors.open(
                    call.thread,
                    returned,
                    Descriptor { close_on_exec: until_exec, ..descriptor },
                );
            }
            None => self.descriptors.close(call.thread, returned),
        }
        Ok(())
    }

    pub(super) fn seek(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        if let Some(file) = self.open_file(call, 0)? {
            file.position.set(returned as u64);
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        if let Some(file) = self.open_file(call, 0)? {
            file.position.set(file.position.get() + returned as u64);
        }
        Ok(())
    }
}

/// The mode that a new file is created with.
fn mode_of(call: &Call<'_>) -> u32 {
    octal(if call.name == "openat2" {
        &b"0644"[..]
    } else {
        call.arguments.last().copied().unwrap_or(b"0644")
    })
}
