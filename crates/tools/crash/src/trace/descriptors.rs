//! Maps the descriptors of each process to recorded files.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use crate::disk::Node;

/// What a descriptor refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Node(Node),
    Marks,
}

/// An open file; duplicated descriptors share it and its position.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) target: Target,
    pub(super) position: Cell<u64>,
    pub(super) append: bool,
    pub(super) synchronous: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub(super) file: Rc<OpenFile>,
    pub(super) close_on_exec: bool,
}

/// Tables of all processes; threads share one.
#[derive(Default)]
pub(super) struct Descriptors {
    tables: Vec<HashMap<i64, Descriptor>>,
    of_thread: HashMap<u32, usize>,
}

impl Descriptors {
    pub(super) fn open(&mut self, thread: u32, number: i64, descriptor: Descriptor) {
        self.table(thread).insert(number, descriptor);
    }

    pub(super) fn close(&mut self, thread: u32, number: i64) {
        self.table(thread).remove(&number);
    }

    pub(super) fn close_range(&mut self, thread: u32, first: i64, last: i64) {
        self.table(thread).retain(|number, _| *number < first || *number > last);
    }

    pub(super) fn find(&mut self, thread: u32, number: i64) -> Option<Descriptor> {
        self.table(thread).get(&number).cloned()
    }

    pub(super) fn executed(&mut self, thread: u32) {
        // The other threads of the process have ended. A child of `vfork` has its own table from
        // the start.
        self.table(thread).retain(|_, descriptor| !descriptor.close_on_exec);
    }

    /// A thread appears for the first time, created by `maker`.
    pub(super) fn thread_started(&mut self, thread: u32, maker: Option<(u32, bool)>) {
        if self.of_thread.contains_key(&thread) {
            return;
        }
        let table = match maker {
            Some((maker, true)) => *self.of_thread.get(&maker).unwrap_or(&self.tables.len()),
            Some((maker, false)) => {
                let copy = self.table(maker).clone();
                self.tables.push(copy);
                self.tables.len() - 1
            }
            None => self.tables.len(),
        };
        if table == self.tables.len() {
            self.tables.push(HashMap::new());
        }
        self.of_thread.insert(thread, table);
    }

    fn table(&mut self, thread: u32) -> &mut HashMap<i64, Descriptor> {
        let next = self.tables.len();
        let table = *self.of_thread.entry(thread).or_insert(next);
        if table == next {
            self.tables.push(HashMap::new());
        }
        &mut self.tables[table]
    }
}
