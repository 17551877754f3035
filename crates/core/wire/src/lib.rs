//! The native protocol: frames, messages and capabilities, without I/O
