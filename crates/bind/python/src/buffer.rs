//! Memory of Python objects as slices: bytes go between it and the sockets without a copy.
//!
//! A slice is made from an object that exports it (the buffer protocol) or that nobody else has yet, and lives as long as it is held
//! here. Other threads of the program may touch the memory during a call, as with `readinto` of Python's own files: what is read or
//! written then is their affair. This crate looks at no byte of it: the kernel fills and empties it.
#![allow(unsafe_code)]

use std::slice;

use pyo3::{buffer::PyUntypedBuffer, exceptions::PyBufferError, ffi, prelude::*, types::PyBytes};

/// The memory of an object, to be read from or written into.
pub(crate) struct Memory(PyUntypedBuffer);

impl Memory {
    /// Memory that the program lets be read.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = PyUntypedBuffer::get(object)?;
        if memory.is_c_contiguous() {
            Ok(Self(memory))
        } else {
            Err(PyBufferError::new_err("the buffer is not contiguous; try: a copy of it"))
        }
    }

    /// Memory that the program lets be changed.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::readable(object)?;
        if memory.0.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only; try: a bytearray"));
        }
        Ok(memory)
    }

    /// How long it is, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: contiguous memory of this length, which its owner keeps in place until the buffer is released (PEP 3118); for
        // writes of other threads see above.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.len()) }
    }

    /// Its bytes, to be changed; made by [`Memory::writable`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as `bytes`; its owner lets it be changed. Two buffers of one object are two slices of the same bytes when the program
        // asks for that, as in `readinto` of two threads; nothing here depends on the content.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.len()) }
    }
}

/// A `bytes` object that nobody has seen yet: it may still be changed.
pub(crate) struct FreshBytes<'py>(Bound<'py, PyBytes>);

impl<'py> FreshBytes<'py> {
    /// Zeros.
    pub(crate) fn new(py: Python<'py>, bytes: usize) -> PyResult<Self> {
        PyBytes::new_with(py, bytes, |_| Ok(())).map(Self)
    }

    /// Its bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.as_bytes().len();
        // The empty object is one for all who ask for it.
        if bytes == 0 {
            return &mut [];
        }
        // SAFETY: an object of the right type.
        let start = unsafe { ffi::PyBytes_AsString(self.0.as_ptr()) };
        // SAFETY: the object is ours alone until `finish`, its memory is as long as it says and initialised.
        unsafe { slice::from_raw_parts_mut(start.cast(), bytes) }
    }

    /// The first `bytes` bytes, to be seen by everybody; no copy when that is all.
    pub(crate) fn finish(self, bytes: usize) -> Bound<'py, PyBytes> {
        match self.0.as_bytes() {
            all if bytes >= all.len() => self.0,
            all => PyBytes::new(self.0.py(), &all[..bytes]),
        }
    }
}
