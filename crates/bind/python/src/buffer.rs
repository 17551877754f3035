//! Memory of Python objects as slices. Bytes pass between it and the sockets without a copy.
//!
//! A slice is made from an object that exports its memory (the buffer protocol), or from an object
//! that no one else has yet. It lives as long as this crate holds the object. Other threads of the
//! program may change the memory during a call, as with `readinto` of Python's own files. Then the
//! result is undefined for them. This crate never reads the bytes: the kernel fills and empties the
//! memory.
#![allow(unsafe_code)]

use std::{ptr, slice};

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyMemoryError},
    ffi,
    prelude::*,
    types::PyBytes,
};

/// The memory of an object, to read from or to write into.
pub(crate) struct Memory(PyUntypedBuffer);

impl Memory {
    /// Memory that may be read.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = PyUntypedBuffer::get(object)?;
        if memory.is_c_contiguous() {
            Ok(Self(memory))
        } else {
            Err(PyBufferError::new_err("the buffer is not contiguous; try: a copy of it"))
        }
    }

    /// Memory that may be changed.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::readable(object)?;
        if memory.0.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only; try: a bytearray"));
        }
        Ok(memory)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: contiguous memory of this length. Its owner keeps it in place until the buffer is
        // released (PEP 3118). For writes of other threads see the module head.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.len()) }
    }

    /// Its bytes, to be changed. Only for memory of [`Memory::writable`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as `bytes`, and its owner allows changes. Two buffers of one object are two
        // slices of the same bytes if the program asks for that, as with `readinto` of two threads.
        // Nothing here depends on the content.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.len()) }
    }
}

/// A new `bytes` object that Python code has not seen yet, so that it may still be changed.
///
/// Its bytes are uninitialized at first. The caller fills as many as it passes to
/// [`UninitBytes::finish`]; the others never become visible. Zeroing them first would cost 2 to
/// 3 ms for 10,000 pieces of 4 KiB.
pub(crate) struct UninitBytes<'py>(Bound<'py, PyBytes>);

impl<'py> UninitBytes<'py> {
    /// Makes an object of `bytes` bytes.
    pub(crate) fn new(py: Python<'py>, bytes: usize) -> PyResult<Self> {
        let length = ffi::Py_ssize_t::try_from(bytes).map_err(|_| PyMemoryError::new_err(()))?;
        // SAFETY: the GIL is held; without a source, the function makes an object of this length
        // and leaves its bytes uninitialized.
        let object = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), length) };
        // SAFETY: a new object with one reference, which is ours; or null with an exception set.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, object)? };
        // SAFETY: the function always makes this type.
        Ok(Self(unsafe { object.cast_into_unchecked() }))
    }

    /// Its bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.as_bytes().len();
        // Python has only one empty object, which is shared.
        if bytes == 0 {
            return &mut [];
        }
        // SAFETY: an object of the right type.
        let start = unsafe { ffi::PyBytes_AsString(self.0.as_ptr()) };
        // SAFETY: only this code has the object until `finish`, and its memory has this length. It
        // comes from the interpreter's allocator, which this compiler knows nothing of: whatever it
        // contains are valid bytes.
        unsafe { slice::from_raw_parts_mut(start.cast(), bytes) }
    }

    /// The first `bytes` bytes, which are filled, as the finished object. No copy if these are all.
    pub(crate) fn finish(self, bytes: usize) -> Bound<'py, PyBytes> {
        match self.0.as_bytes() {
            all if bytes >= all.len() => self.0,
            all => PyBytes::new(self.0.py(), &all[..bytes]),
        }
    }
}
