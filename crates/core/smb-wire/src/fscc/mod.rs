//! Information about files, directories and volumes. MS-FSCC.

mod attributes;

pub use attributes::FileAttributes;
