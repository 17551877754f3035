//! The Python extension module `braid._braid`: the client library for Python programs. Python users
//! import the package around it, in `python/braid/`.
//!
//! Invariants:
//! 1. No call waits for a server while it holds the GIL: every call runs detached.
//! 2. No lock of this crate is held while the GIL is acquired or released. So no two threads wait
//!    for each other's lock and the GIL.
//! 3. Bytes pass between the socket and the memory of the Python object without a copy.
//!
//! PyO3's types enforce the first one; the others cannot be seen from an assertion.
#![deny(unsafe_code)]

mod attributes;
mod buffer;
mod change;
mod client;
mod collective;
mod connect;
mod directory;
mod drop_without_gil;
mod error;
mod group;
mod handle;
mod names;
mod options;
mod path;
mod settings;
mod slices;
mod view;
mod xattr;

use pyo3::prelude::*;

/// The classes and functions that `braid/__init__.py` makes public.
#[pymodule]
#[pyo3(name = "_braid")]
fn braid(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(settings::read_settings, module)?)?;
    module.add_class::<client::Client>()?;
    module.add_class::<handle::Handle>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<attributes::Stat>()?;
    module.add_class::<directory::DirEntry>()?;
    module.add_class::<directory::Scan>()?;
    module.add_class::<view::View>()?;
    module.add_class::<view::Pattern>()
}
