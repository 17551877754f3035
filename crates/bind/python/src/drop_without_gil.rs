//! Drops values that may call a server, without the GIL.

use pyo3::prelude::*;

/// A value whose drop may wait for servers: the end of a session, the close of a file.
#[derive(Debug)]
pub(crate) struct DropWithoutGil<T: Send>(Option<T>);

impl<T: Send> DropWithoutGil<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The value; its drop is no longer special.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send> Drop for DropWithoutGil<T> {
    fn drop(&mut self) {
        let Some(value) = self.0.take() else { return };
        // If the interpreter is finalized or belongs to another thread, the closure is dropped with
        // the value in it.
        let _ = Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
