//! Peers that mean harm.
