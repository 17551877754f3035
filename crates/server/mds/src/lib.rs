//! The metadata server
