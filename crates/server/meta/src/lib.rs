//! Namespace over an ordered key-value store
