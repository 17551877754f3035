//! Arguments of operations, by subject. An operation without arguments has no type here.

mod copy;
mod delegation;
mod io;
mod layout;
mod lock;
mod names;
mod open;
mod session;
mod xattr;

pub use copy::*;
pub use delegation::*;
pub use io::*;
pub use layout::*;
pub use lock::*;
pub use names::*;
pub use open::*;
pub use session::*;
pub use xattr::*;
