//! Every operation in both directions, bytes written out by hand, and messages that are not NFS.

mod callback_samples;
mod golden;
mod golden_callbacks;
mod hostile;
mod request_samples;
mod result_samples;
mod round_trip;
mod values;
