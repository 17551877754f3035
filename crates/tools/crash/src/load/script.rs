//! Operations from a seed, each possible in the state of the model.

use super::model::{Model, NameTarget, Operation};
use braid_types::Random;

/// Names in each directory: few, so that they are reused often.
const NAMES: u64 = 6;
/// Files stay at about this size, in bytes: a few stripes.
const FILE_BYTES: u64 = 160 << 10;
/// The largest write, in bytes.
const WRITE_BYTES: u64 = 48 << 10;

/// A source of operations below one directory.
#[derive(Clone, Debug)]
pub struct Script {
    random: Random,
    below: String,
    fills: u64,
}

impl Script {
    /// Operations below `below`, a path without a final `/`.
    pub fn new(seed: u64, below: &str) -> Self {
        Self { random: Random::new(seed), below: below.to_owned(), fills: seed << 20 }
    }

    /// An operation that is possible now.
    pub fn next(&mut self, model: &Model) -> Operation {
        loop {
            let drawn = self.random.below(100);
            if let Some(operation) = self.drawn(drawn, model) {
                return operation;
            }
        }
    }

    fn drawn(&mut self, drawn: u64, model: &Model) -> Option<Operation> {
        Some(match drawn {
            0..10 => Operation::Create(self.free(model)?),
            10..14 => Operation::MakeDirectory(
                self.free(model).filter(|path| path.matches('/').count() < 5)?,
            ),
            14..40 => self.write(model)?,
            40..46 => {
                let path = self.some_file(model)?;
                Operation::Resize(path, self.random.below(FILE_BYTES) as usize)
            }
            46..49 => {
                let (path, at) = (self.some_file(model)?, self.random.below(FILE_BYTES) as usize);
                Operation::Punch(path, at, 1 + self.random.below(WRITE_BYTES) as usize)
            }
            49..65 => Operation::Sync(self.some_file(model)?),
            65..70 => Operation::Close(self.some_file(model)?),
            70..80 => self.rename(model)?,
            80..84 => Operation::Link(self.some_file(model)?, self.free(model)?),
            84..86 => Operation::Symbolic(format!("to-{drawn}"), self.free(model)?),
            86..93 => Operation::Unlink(self.some(model, |named| *named != NameTarget::Directory)?),
            93..96 => {
                let path = self.some(model, |named| *named == NameTarget::Directory)?;
                let inside = format!("{path}/");
                let full = path == self.below
                    || model.names.keys().any(|other| other.starts_with(&inside));
                return (!full).then_some(Operation::RemoveDirectory(path));
            }
            _ => {
                Operation::SyncDirectory(self.some(model, |named| *named == NameTarget::Directory)?)
            }
        })
    }

    fn write(&mut self, model: &Model) -> Option<Operation> {
        let path = self.some_file(model)?;
        let end = model.size(model.file(&path)?) as u64;
        // Mostly at the end or inside; sometimes after a hole.
        let offset = match self.random.below(4) {
            0 | 1 => end.min(FILE_BYTES),
            2 => self.random.below(end + 1),
            _ => self.random.below(FILE_BYTES),
        };
        let bytes = 1 + self.random.below(WRITE_BYTES) as usize;
        self.fills += 1;
        Some(Operation::Write { path, offset: offset as usize, bytes, fill: self.fills })
    }

    fn rename(&mut self, model: &Model) -> Option<Operation> {
        let from = self.some(model, |_| true).filter(|path| *path != self.below)?;
        // Over another file, or to a new name; a directory only to a new name outside itself.
        let directory = model.names.get(&from) == Some(&NameTarget::Directory);
        let to = match self.random.below(2) {
            0 if !directory => self.some(model, |named| *named != NameTarget::Directory)?,
            _ => self.free(model)?,
        };
        (!to.starts_with(&format!("{from}/")) && to != from).then_some(Operation::Rename(from, to))
    }

    fn some_file(&mut self, model: &Model) -> Option<String> {
        self.some(model, |named| matches!(named, NameTarget::File(_)))
    }

    fn some(&mut self, model: &Model, which: impl Fn(&NameTarget) -> bool) -> Option<String> {
        let inside = format!("{}/", self.below);
        let paths: Vec<_> = model
            .names
            .iter()
            .filter(|(_, named)| which(named))
            .map(|(path, _)| path.clone())
            .collect();
        let paths: Vec<_> = paths
            .into_iter()
            .filter(|path| *path == self.below || path.starts_with(&inside))
            .collect();
        self.random.pick(&paths).cloned()
    }

    /// An unused name in an existing directory.
    fn free(&mut self, model: &Model) -> Option<String> {
        let directory = self.some(model, |named| *named == NameTarget::Directory)?;
        let path = format!("{directory}/n{}", self.random.below(NAMES));
        (!model.names.contains_key(&path)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_operations_and_draws_every_kind() {
        let run = |seed| {
            let (mut model, mut script) = (Model::default(), Script::new(seed, "/w"));
            model.apply(&Operation::MakeDirectory("/w".into()));
            let mut done = Vec::new();
            for _ in 0..400 {
                done.push(script.next(&model));
                model.apply(&done[done.len() - 1]);
            }
            done
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let kinds: std::collections::HashSet<_> =
            run(7).iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 13);
    }
}
