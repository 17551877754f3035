//! Moves the cursor.

use std::{
    ffi::c_int,
    io::{Seek, SeekFrom},
};

use crate::ffi::{Failure, Outcome, call, pointers::position, table};

/// As lseek(2), in bytes of the view's stream: SEEK_SET, SEEK_CUR, SEEK_END. SEEK_DATA and
/// SEEK_HOLE need a view of the whole file. Returns the new position, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn braid_lseek(file: c_int, offset: i64, whence: c_int) -> i64 {
    call(|| {
        let seen = table::file(file)?.current_view();
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(position(offset, "offset")?),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            libc::SEEK_DATA | libc::SEEK_HOLE
                if !seen.map.is_contiguous() || seen.view.displacement != 0 =>
            {
                return Err(Failure::invalid(
                    "seek: SEEK_DATA and SEEK_HOLE need a view of the whole file; \
                     try: braid_set_view",
                ));
            }
            libc::SEEK_DATA => {
                SeekFrom::Start(seen.file.next_data(position(offset, "offset")?)?.ok_or_else(past)?)
            }
            libc::SEEK_HOLE => {
                SeekFrom::Start(seen.file.next_hole(position(offset, "offset")?)?.ok_or_else(past)?)
            }
            other => {
                return Err(Failure::invalid(format!(
                    "seek: whence is {other}, not one of SEEK_*"
                )));
            }
        };
        let reached = (&*seen.file).seek(to)?;
        i64::try_from(reached).map_err(|_| {
            Failure::new(
                libc::EOVERFLOW,
                format!("seek: {reached} is beyond the largest file size"),
            )
        })
    })
}

fn past() -> Failure {
    Failure::new(libc::ENXIO, "seek: no data or hole between the offset and the end of the file")
}

/// The length of an iovec array.
pub(crate) fn iov_count(count: c_int) -> Outcome<usize> {
    usize::try_from(count).map_err(|_| Failure::invalid(format!("count is negative: {count}")))
}
