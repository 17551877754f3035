//! Distributions, views, requests and jobs: where each byte of a file lies. Pure and total (I3).
#![forbid(unsafe_code)]

mod layout;
mod view;

pub use layout::{ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy, Strip};
pub use view::{Extent, Pattern, Request, View};
