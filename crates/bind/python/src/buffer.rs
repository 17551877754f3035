//! Memory of Python objects as slices: bytes go between it and the sockets without a copy.
//!
//! A slice is made from an object that exports it (the buffer protocol) or that nobody else has yet, and lives as long as it is held
//! here. Other threads of the program may touch the memory during a call, as with `readinto` of Python's own files: what is read or
//! written then is their affair. This crate looks at no byte of it: the kernel fills and empties it.
#![allow(unsafe_code)]

use std::{ptr, slice};

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyMemoryError},
    ffi,
    prelude::*,
    types::PyBytes,
};

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
///
/// Its bytes are at first what the interpreter's memory had: whoever makes one fills as many as it says to [`FreshBytes::finish`], and the
/// others are seen by nobody. Zeros would be written here only to be written over: 2 to 3 ms of 10,000 pieces of 4 KiB.
pub(crate) struct FreshBytes<'py>(Bound<'py, PyBytes>);

impl<'py> FreshBytes<'py> {
    /// Room for so many bytes.
    pub(crate) fn new(py: Python<'py>, bytes: usize) -> PyResult<Self> {
        let length = ffi::Py_ssize_t::try_from(bytes).map_err(|_| PyMemoryError::new_err(()))?;
        // SAFETY: the interpreter is held; without a source it makes an object of this length and leaves the bytes to the caller.
        let object = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), length) };
        // SAFETY: a new object, whose one reference is ours, or null with an exception set.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, object)? };
        // SAFETY: the function makes this type and no other.
        Ok(Self(unsafe { object.cast_into_unchecked() }))
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
        // SAFETY: the object is ours alone until `finish`, and its memory is as long as it says. It comes from the interpreter's allocator,
        // of which this program knows nothing: whatever it left there are bytes.
        unsafe { slice::from_raw_parts_mut(start.cast(), bytes) }
    }

    /// The first `bytes` bytes, which were filled, to be seen by everybody; no copy when that is all.
    pub(crate) fn finish(self, bytes: usize) -> Bound<'py, PyBytes> {
        match self.0.as_bytes() {
            all if bytes >= all.len() => self.0,
            all => PyBytes::new(self.0.py(), &all[..bytes]),
        }
    }
}
