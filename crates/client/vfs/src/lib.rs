//! Handles, open state, caches, leases and locks of a mount; knows no gateway.
#![forbid(unsafe_code)]
