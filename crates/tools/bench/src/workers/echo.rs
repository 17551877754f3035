//! Answers each byte of one connection with a byte.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use anyhow::Result;

/// Prints its address; ends with the connection.
pub fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 {
        stream.write_all(&byte)?;
    }
    Ok(())
}
