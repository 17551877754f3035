//! The operations, one file each. Those that change something go through `Namespace::change`: one
//! batch with its replay record (I7). The others only read.

mod attributes;
mod cluster;
mod create;
mod default;
mod deletion;
mod folded;
mod fsck;
mod import;
mod intent;
mod link;
mod lookup;
mod make;
mod mkdir;
mod mknod;
mod name;
mod open;
mod quota;
mod readdir;
mod remove;
mod rename;
mod resolve;
mod rmdir;
mod session;
mod symlink;
mod unlink;
mod unnamed;
mod xattr;

pub use attributes::{AttributeChanges, CAPABILITY_XATTR, SetTime};
pub use create::{CreateArgs, Created};
pub use import::{ImportArgs, Imported};
pub use make::Made;
pub use mknod::NodeArgs;
pub use open::{ObjectSummary, OpenArgs};
pub use quota::{QuotaState, QuotaWalkPage, UsageDifference};
pub use readdir::{DirectoryPage, ListedEntry};
pub use rename::RenameMode;
pub use resolve::NameSlot;
pub use xattr::XattrMode;
