//! Bytes, sizes, attributes and modes of files.

use super::*;

impl Replay {
    pub(super) fn write(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let Some(file) = self.open_file(call, 0)? else { return Ok(()) };
        let Target::Node(node) = file.target else { return Ok(()) };
        let mut bytes = match call.name {
            "write" | "pwrite64" => text::bytes(argument(call, 1)?)?,
            _ => text::vectors(argument(call, 1)?)?,
        };
        ensure!(
            bytes.len() as i64 >= returned,
            "{returned} bytes were written, {} seen",
            bytes.len()
        );
        bytes.truncate(returned as usize);
        let explicit = match call.name {
            "write" | "writev" => None,
            "pwritev2" => Some(number(call, 3)?).filter(|offset| *offset >= 0),
            _ => Some(number(call, 3)?),
        };
        let end = self.tree.bytes(node).len() as u64;
        let offset = if file.append {
            end
        } else {
            explicit.map_or(file.position.get(), |offset| offset as u64)
        };
        if explicit.is_none() {
            file.position.set(offset + bytes.len() as u64);
        }
        ensure!(
            offset as i64 <= FILE_BYTES_MAX,
            "a write at {offset}: the file is too large to be recorded"
        );
        let flags = call.arguments.get(4).copied().unwrap_or_default();
        let lasting = file.synchronous
            || text::has_flag(flags, "RWF_DSYNC")
            || text::has_flag(flags, "RWF_SYNC");
        self.change(Change::Write { node, offset, bytes, synchronous: lasting });
        Ok(())
    }

    pub(super) fn resize(&mut self, call: &Call<'_>) -> Result<()> {
        let node = if call.name == "truncate" {
            let path = self.full_path(call, None, 0)?;
            self.existing(path.as_deref())?
        } else {
            self.node(call, 0)?
        };
        let Some(node) = node else { return Ok(()) };
        if call.name != "fallocate" {
            let bytes = number(call, 1)?;
            // A daemon finds the largest possible file with a file that it never writes or names.
            if bytes > FILE_BYTES_MAX && self.tree.name_of(node).is_none() {
                return Ok(());
            }
            ensure!(
                bytes <= FILE_BYTES_MAX,
                "a size of {bytes}: the file is too large to be recorded"
            );
            self.change(Change::Resize(node, bytes as u64));
            return Ok(());
        }
        let (mode, offset, bytes) =
            (argument(call, 1)?, number(call, 2)? as u64, number(call, 3)? as u64);
        let keep_size = text::has_flag(mode, "FALLOC_FL_KEEP_SIZE");
        if text::has_flag(mode, "FALLOC_FL_PUNCH_HOLE")
            || text::has_flag(mode, "FALLOC_FL_ZERO_RANGE")
        {
            ensure!(keep_size, "a zeroed range that may extend the file is not supported");
            self.change(Change::Punch(node, offset, bytes));
        } else {
            ensure!(
                mode == b"0" || keep_size,
                "fallocate {} is not supported",
                text::excerpt(mode)
            );
            if !keep_size && offset + bytes > self.tree.bytes(node).len() as u64 {
                self.change(Change::Resize(node, offset + bytes));
            }
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let Some(to) = self.open_file(call, 2)? else { return Ok(()) };
        let from = self
            .open_file(call, 0)?
            .context("a copy from a file that is not recorded is not supported")?;
        let (Target::Node(source), Target::Node(node)) = (from.target, to.target) else {
            bail!("a copy of marks is not supported");
        };
        ensure!(!to.append, "a copy to the end of a file is not supported");
        let start = copy_offset(call, 1)?.unwrap_or(from.position.get());
        let offset = copy_offset(call, 3)?.unwrap_or(to.position.get());
        for (file, at) in [(&from, 1), (&to, 3)] {
            if copy_offset(call, at)?.is_none() {
                file.position.set(file.position.get() + returned as u64);
            }
        }
        let start = start as usize;
        let bytes = self
            .tree
            .bytes(source)
            .get(start..start + returned as usize)
            .context("a copy from beyond the end")?
            .to_vec();
        self.change(Change::Write { node, offset, bytes, synchronous: to.synchronous });
        Ok(())
    }

    pub(super) fn refuse(&mut self, call: &Call<'_>, to: usize) -> Result<()> {
        match self.open_file(call, to)? {
            Some(_) => bail!("{} into a recorded file is not supported", call.name),
            None => Ok(()),
        }
    }

    pub(super) fn map(&mut self, call: &Call<'_>) -> Result<()> {
        let (protection, flags) = (argument(call, 2)?, argument(call, 3)?);
        let shared =
            text::has_flag(flags, "MAP_SHARED") || text::has_flag(flags, "MAP_SHARED_VALIDATE");
        if !shared || !text::has_flag(protection, "PROT_WRITE") {
            return Ok(());
        }
        let Some(node) = self.node(call, 4)? else { return Ok(()) };
        let name = self.tree.name_of(node).unwrap_or_default();
        ensure!(
            name == READERS_TABLE.as_bytes(),
            "{} is mapped writable and shared: stores through it cannot be recorded \
             nor ordered by a sync",
            String::from_utf8_lossy(&name)
        );
        Ok(())
    }

    pub(super) fn attribute(&mut self, call: &Call<'_>) -> Result<()> {
        let node = if call.name.starts_with('f') {
            self.node(call, 0)?
        } else {
            let path = self.full_path(call, None, 0)?;
            self.existing(path.as_deref())?
        };
        let Some(node) = node else { return Ok(()) };
        let value = match call.name.contains("set") {
            true => Some(text::bytes(argument(call, 2)?)?),
            false => None,
        };
        self.change(Change::Attribute(node, text::bytes(argument(call, 1)?)?, value));
        Ok(())
    }

    /// Permission bits are not checked; they are taken as if they had always been set.
    pub(super) fn mode(&mut self, call: &Call<'_>) -> Result<()> {
        let (path, mode) = match call.name {
            "fchmod" => (None, 1),
            "chmod" => (self.full_path(call, None, 0)?, 1),
            _ => (self.full_path(call, Some(0), 1)?, 2),
        };
        let node = if call.name == "fchmod" {
            self.node(call, 0)?
        } else {
            self.existing(path.as_deref())?
        };
        if let Some(node) = node {
            let mode = octal(argument(call, mode)?);
            self.tree.set_mode(node, mode);
            self.history.nodes[node.0] = self.tree.kind(node).clone();
        }
        Ok(())
    }

    pub(super) fn sync_all(&mut self) -> Result<()> {
        let since = self.history.events.len();
        let mut volumes = self.history.volumes.clone();
        volumes.sort_unstable();
        volumes.dedup();
        let syncs =
            volumes.into_iter().map(|volume| Event::Sync { synced: Synced::Volume(volume), since });
        self.history.events.extend(syncs);
        Ok(())
    }
}

/// `NULL`, or the offset as `[7]`.
fn copy_offset(call: &Call<'_>, at: usize) -> Result<Option<u64>> {
    let text = argument(call, at)?;
    if text == b"NULL" {
        return Ok(None);
    }
    let inner = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let inner = inner.with_context(|| format!("no offset: {}", text::excerpt(text)))?;
    Ok(Some(text::number(inner)? as u64))
}
