//! The traits over the async client of a cluster. Nothing is here yet.
