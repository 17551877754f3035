//! Collective calls against a cluster in this process, held against byte-by-byte models.

mod bytes;
mod cluster;
mod counts;
mod failures;
mod lost;
mod slow;
mod started;
mod turns;
mod wire;
