//! What may talk to a server when it is dropped: done without the interpreter.

use pyo3::prelude::*;

/// A value whose end waits for servers perhaps: the end of a session, the close of a file.
#[derive(Debug)]
pub(crate) struct Detached<T: Send>(Option<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The value, no longer taken care of.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        let Some(value) = self.0.take() else { return };
        // Where the interpreter is gone or not ours there is nothing to let go of: the closure is dropped with the value.
        let _ = Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
