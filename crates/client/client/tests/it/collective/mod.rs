//! Collective calls on a cluster in this process, compared with byte-by-byte models.

mod bytes;
mod cluster;
mod counts;
mod failures;
mod lost;
mod slow;
mod started;
mod turns;
mod wire;
