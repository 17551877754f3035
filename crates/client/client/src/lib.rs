//! The client library: plans jobs, talks to the metadata server and the I/O daemons
