//! Any text as the file `directory-id` of an I/O daemon: no panic. An id that is read is the same
//! after formatting it again.
#![no_main]

use arbitrary::Arbitrary;
use braid_iod::fuzzing::read_directory_id;
use libfuzzer_sys::fuzz_target;

/// Any text; or digits of the right number, so that the fuzzer gets further.
#[derive(Arbitrary, Debug)]
enum Input {
    Text(String),
    Digits { id: u128, upper: bool, before: u8, behind: String },
}

fuzz_target!(|input: Input| {
    let text = match input {
        Input::Text(text) => text,
        Input::Digits { id, upper, before, behind } => {
            let digits = if upper { format!("{id:032X}") } else { format!("{id:032x}") };
            format!("{}{behind}", &digits[usize::from(before) % 33..])
        }
    };
    read_directory_id(&text);
});
