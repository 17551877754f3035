//! Drivers for the native protocol: handshake, TLS, windows, connections
