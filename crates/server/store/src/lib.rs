//! Objects in a local directory
