//! Integration tests.
#![cfg(target_os = "linux")]
