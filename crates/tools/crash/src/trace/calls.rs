//! Combines lines into calls: `call(… <unfinished ...>` and `<... call resumed>…) = 0` are one.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};

use super::text;

/// One system call of one thread.
#[derive(Debug)]
pub(super) struct Call<'t> {
    pub(super) thread: u32,
    pub(super) name: &'t str,
    pub(super) arguments: Vec<&'t [u8]>,
    /// Its result; `None` if it failed, or the thread ended in it.
    pub(super) returned: Option<i64>,
}

/// A step in the order of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Enter(usize),
    Leave(usize),
}

/// A trace.
pub(super) struct Calls<'t> {
    pub(super) calls: Vec<Call<'t>>,
    pub(super) steps: Vec<Step>,
    /// The creator of each thread: (creator, whether it shares its descriptors).
    pub(super) parents: HashMap<u32, (u32, bool)>,
}

/// Parses the text of a trace.
pub(super) fn parse(text: &[u8]) -> Result<Calls<'_>> {
    let mut calls = Calls { calls: Vec::new(), steps: Vec::new(), parents: HashMap::new() };
    let mut entered: HashMap<u32, usize> = HashMap::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        calls
            .line(line, &mut entered)
            .with_context(|| format!("the line {}", text::excerpt(line)))?;
    }
    Ok(calls)
}

impl<'t> Calls<'t> {
    fn line(&mut self, line: &'t [u8], entered: &mut HashMap<u32, usize>) -> Result<()> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let thread = std::str::from_utf8(&line[..digits])?.parse().context("no thread id")?;
        let rest = line[digits..].trim_ascii();
        if rest.starts_with(b"+++") || rest.starts_with(b"---") {
            return Ok(());
        }
        if let Some(rest) = rest.strip_prefix(b"<... ") {
            let call = entered.remove(&thread).context("resumed what was not begun")?;
            return self.resumed(call, rest);
        }
        let open = rest.iter().position(|&byte| byte == b'(').context("no call")?;
        let name = std::str::from_utf8(&rest[..open])?;
        let rest = &rest[open + 1..];
        let call = self.calls.len();
        self.steps.push(Step::Enter(call));
        if let Some(first) = rest.strip_suffix(b"<unfinished ...>") {
            self.calls.push(Call {
                thread,
                name,
                arguments: text::arguments(first),
                returned: None,
            });
            entered.insert(thread, call);
            return Ok(());
        }
        let (arguments, returned) = result(rest)?;
        self.calls.push(Call { thread, name, arguments: text::arguments(arguments), returned });
        self.leave(call)
    }

    fn resumed(&mut self, call: usize, rest: &'t [u8]) -> Result<()> {
        let end = rest
            .windows(8)
            .position(|window| window == b"resumed>")
            .context("no end of `resumed`")?;
        let (arguments, returned) = result(&rest[end + 8..])?;
        self.calls[call].arguments.extend(text::arguments(arguments));
        self.calls[call].returned = returned;
        self.leave(call)
    }

    fn leave(&mut self, index: usize) -> Result<()> {
        self.steps.push(Step::Leave(index));
        let call = &self.calls[index];
        if let ("clone" | "clone3" | "fork" | "vfork", Some(made)) = (call.name, call.returned) {
            let shares =
                call.arguments.iter().any(|argument| text::has_flag(argument, "CLONE_FILES"));
            if self.parents.insert(made as u32, (call.thread, shares)).is_some() {
                bail!("thread {made} was made twice");
            }
        }
        Ok(())
    }
}

/// Splits `arguments) = result`. A call that was cut off by the end of its thread has `?`.
fn result(text: &[u8]) -> Result<(&[u8], Option<i64>)> {
    let equals = text.windows(3).rposition(|window| window == b" = ").context("no result")?;
    let arguments =
        text[..equals].trim_ascii_end().strip_suffix(b")").context("no `)` before the result")?;
    let returned = text[equals + 3..].trim_ascii();
    let failed = returned.starts_with(b"-1 ") || returned.starts_with(b"?");
    Ok((arguments, if failed { None } else { Some(text::number(returned)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &[u8] = b"10 openat(AT_FDCWD, \"\\x61\", O_RDWR|O_CLOEXEC) = 3
10 pwrite64(3, \"\\x41\", 1, 0 <unfinished ...>
11 fsync(3)                     = -1 EIO (Input/output error)
10 <... pwrite64 resumed>)      = 1
10 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, exit_signal=0} => {parent_tid=[0]}, 88) = 12
12 +++ exited with 0 +++
10 read(0x3, 0x7ffe0, 0x20 <unfinished ...>
10 <... read resumed>)          = ?
";

    #[test]
    fn a_call_that_was_interrupted_by_others_is_put_together() {
        let calls = parse(TRACE).unwrap();
        assert_eq!(calls.calls.len(), 5);
        assert_eq!((calls.calls[1].name, calls.calls[1].returned), ("pwrite64", Some(1)));
        assert_eq!(calls.calls[1].arguments.len(), 4);
        assert_eq!(calls.calls[2].returned, None);
        assert_eq!(calls.calls[4].returned, None);
        assert_eq!(
            calls.steps[2..6],
            [Step::Enter(1), Step::Enter(2), Step::Leave(2), Step::Leave(1)]
        );
        assert_eq!(calls.parents[&12], (10, true));
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for line in ["nonsense", "10 <... read resumed>) = 1", "10 read(3"] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
