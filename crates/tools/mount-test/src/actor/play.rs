//! The commands of an actor.

use std::{
    fs::{File, OpenOptions},
    io::{Error, Write},
    os::unix::fs::FileExt,
};

use anyhow::{Context, Result, bail};
use braid_types::Random;

use crate::{
    append,
    locks::calls::{Mode, Space, conflicting_lock, lock},
};

/// An actor with its open files.
#[derive(Debug, Default)]
pub struct Actor {
    files: Vec<Option<File>>,
}

/// Installs a signal handler that interrupts a call and does nothing else.
pub fn answer_signals() -> Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: an all-zero `sigaction` is valid: no flags (so calls are not restarted), an empty
    // mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as usize;
    // SAFETY: the handler does nothing, which is safe at any point of the program.
    let outcome = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    if outcome < 0 { Err(Error::last_os_error().into()) } else { Ok(()) }
}

impl Actor {
    /// Executes the command of a line; returns the answer line.
    pub fn act(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split('\t').collect();
        match self.try_act(&words) {
            Ok(answer) => format!("ok {answer}"),
            Err(error) => match error.downcast_ref::<Error>().and_then(Error::raw_os_error) {
                Some(code) => errno_name(code),
                None => format!("error {error:#}").replace('\n', " "),
            },
        }
    }

    fn try_act(&mut self, words: &[&str]) -> Result<String> {
        match words {
            ["open", path] => {
                self.files.push(Some(
                    OpenOptions::new()
                        .read(true)
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(path)?,
                ));
                Ok((self.files.len() - 1).to_string())
            }
            ["close", file] => {
                self.files[file.parse::<usize>()?] = None;
                Ok(String::new())
            }
            ["lock", file, space, mode, wait, start, length] => {
                let wait = *wait == "wait";
                lock(
                    self.file(file)?,
                    space.parse()?,
                    mode_of(mode)?,
                    wait,
                    start.parse()?,
                    length.parse()?,
                )?;
                Ok(String::new())
            }
            ["who", file, start, length] => {
                let found = conflicting_lock(
                    self.file(file)?,
                    Mode::Alone,
                    start.parse()?,
                    length.parse()?,
                )?;
                Ok(found.map_or("nobody".to_owned(), |process| process.to_string()))
            }
            ["count", file, space, times] => self.count(file, space.parse()?, times.parse()?),
            ["read", file, offset] => Ok(number_at(self.file(file)?, offset.parse()?)?.to_string()),
            ["write", file, offset, value] => {
                self.file(file)?
                    .write_all_at(&value.parse::<u64>()?.to_le_bytes(), offset.parse()?)?;
                Ok(String::new())
            }
            ["append", path, writer, records, seed] => {
                append_records(path, writer.parse()?, records.parse()?, seed.parse()?)
            }
            _ => bail!("unknown command: {words:?}"),
        }
    }

    fn file(&self, index: &str) -> Result<&File> {
        let file = self.files.get(index.parse::<usize>()?).and_then(Option::as_ref);
        file.context("not open")
    }

    /// Adds one to the number in the file, under a lock, this many times. The number must never be
    /// less than the one it wrote last.
    fn count(&self, file: &str, space: Space, times: u64) -> Result<String> {
        let file = self.file(file)?;
        let mut left = 0;
        for _ in 0..times {
            lock(file, space, Mode::Alone, true, 0, 8)?;
            let found = number_at(file, 0)?;
            if found < left {
                bail!("left {left}, and later found {found}");
            }
            left = found + 1;
            file.write_all_at(&left.to_le_bytes(), 0)?;
            lock(file, space, Mode::Unlock, false, 0, 8)?;
        }
        Ok(left.to_string())
    }
}

fn mode_of(word: &str) -> Result<Mode> {
    Ok(match word {
        "shared" => Mode::Shared,
        "alone" => Mode::Alone,
        "unlock" => Mode::Unlock,
        _ => bail!("no mode `{word}`"),
    })
}

/// The number at this offset; 0 where the file is shorter.
fn number_at(file: &File, offset: u64) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(u64::from_le_bytes(bytes))
}

fn append_records(path: &str, writer: u32, records: u32, seed: u64) -> Result<String> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let mut random = Random::new(seed);
    for sequence in 0..records {
        let record = append::record(writer, sequence, &mut random);
        // One call: a record written in two calls may have another one between its parts.
        let written = file.write(&record)?;
        if written != record.len() {
            bail!("only {written} of {} bytes were written", record.len());
        }
    }
    Ok(String::new())
}

fn errno_name(code: i32) -> String {
    let name = match code {
        libc::EAGAIN => "EAGAIN",
        libc::EACCES => "EACCES",
        libc::EDEADLK => "EDEADLK",
        libc::EINTR => "EINTR",
        libc::EBADF => "EBADF",
        libc::ENOLCK => "ENOLCK",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        _ => return format!("error {}", Error::from_raw_os_error(code)),
    };
    name.to_owned()
}
