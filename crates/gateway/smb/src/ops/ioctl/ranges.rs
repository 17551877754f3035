//! Holes of files. MS-FSA 2.1.5.10.22, 2.1.5.10.36, MS-FSCC 2.3.48, 2.3.71, 2.3.73.

use braid_share::Share;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{FileRange, TrimRequest, TrimResponse, ZeroData, encode_ranges};
use braid_smb_wire::smb2::ioctl::IoctlRequest;
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;

use super::{Output, bytes};
use crate::attributes::is_sparse;
use crate::context::{Context, malformed};
use crate::open::FileOpen;
use crate::ops::read::OFFSET_MAX;
use crate::status::failed;
use crate::streams::data::OpenData;

/// Most ranges of a response, however large it may be.
const RANGES_MAX: usize = 4096;
/// Most ranges that one request trims: each costs a call. The response says how many were.
const TRIM_RANGES_MAX: usize = 256;
/// Bytes of a range.
const RANGE_BYTES: usize = 16;

/// FSCTL_SET_ZERO_DATA: the range reads as zeros. What is behind the end of the file is left out.
pub(super) async fn set_zero<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    input: &Bytes,
) -> Output {
    let data = bytes(open, AccessMask::WRITE_DATA)?;
    let range = ZeroData::decode(&mut Reader::new(input.clone())).map_err(malformed)?;
    if range.offset > range.beyond || range.beyond > OFFSET_MAX {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    punch(context, open, data, (range.offset, range.beyond)).await?;
    Ok((Vec::new(), NtStatus::SUCCESS))
}

/// FSCTL_FILE_LEVEL_TRIM: the ranges have no meaning any more. They read as zeros.
pub(super) async fn trim<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: &IoctlRequest,
) -> Output {
    let data = bytes(open, AccessMask::WRITE_DATA)?;
    let asked = TrimRequest::decode(&mut Reader::new(request.input.clone())).map_err(malformed)?;
    // MS-FSCC 2.3.73: it names one range at least.
    if asked.ranges.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let mut output = TrimResponse { ranges: 0 };
    // A client may ask without wanting to know how many there were.
    if request.max_output > 0 && (request.max_output as usize) < output.to_bytes().len() {
        return Err(NtStatus::BUFFER_TOO_SMALL);
    }
    for range in asked.ranges.iter().take(TRIM_RANGES_MAX) {
        let end = range.offset.checked_add(range.length).filter(|end| *end <= OFFSET_MAX);
        let end = end.ok_or(NtStatus::INVALID_PARAMETER)?;
        punch(context, open, data, (range.offset, end)).await?;
        output.ranges += 1;
    }
    let output = if request.max_output > 0 { output.to_bytes() } else { Vec::new() };
    Ok((output, NtStatus::SUCCESS))
}

/// Makes the bytes from one offset to another read as zeros, as far as the file has them.
async fn punch<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    data: &OpenData<S>,
    (from, beyond): (u64, u64),
) -> Result<(), NtStatus> {
    let size = data.attributes().await.map_err(failed)?.bytes.0;
    let end = beyond.min(size);
    if from >= end {
        return Ok(());
    }
    open.begin_write(&context.server, (from, end - from))?;
    let punched = async { data.punch(from, end - from).await.map_err(failed) };
    open.keeping_times(context.client()?, context.who()?, data, punched).await
}

/// FSCTL_QUERY_ALLOCATED_RANGES: the ranges with data. A file that is not sparse has data up to its
/// end (MS-FSA 2.1.5.10.22).
pub(super) async fn query_allocated<S: Share>(
    open: &FileOpen<S>,
    request: &IoctlRequest,
) -> Output {
    let data = bytes(open, AccessMask::READ_DATA)?;
    let range = FileRange::decode(&mut Reader::new(request.input.clone())).map_err(malformed)?;
    let end = range.offset.checked_add(range.length).filter(|end| *end <= OFFSET_MAX);
    let end = end.ok_or(NtStatus::INVALID_PARAMETER)?;
    let max_bytes = (request.max_output as usize).min(RANGES_MAX * RANGE_BYTES);
    // One more shows whether there are more.
    let ranges = allocated(data, range.offset, end, max_bytes / RANGE_BYTES + 1).await?;
    let (output, all_fit) = encode_ranges(&ranges, max_bytes);
    match (all_fit, output.is_empty()) {
        (true, _) => Ok((output, NtStatus::SUCCESS)),
        (false, true) => Err(NtStatus::BUFFER_TOO_SMALL),
        (false, false) => Ok((output, NtStatus::BUFFER_OVERFLOW)),
    }
}

async fn allocated<S: Share>(
    data: &OpenData<S>,
    start: u64,
    end: u64,
    ranges_max: usize,
) -> Result<Vec<FileRange>, NtStatus> {
    let known = data.attributes().await.map_err(failed)?;
    let (mut at, end) = (start, end.min(known.bytes.0));
    let mut ranges = Vec::new();
    if !is_sparse(&known) {
        ranges.extend((at < end).then(|| FileRange { offset: at, length: end - at }));
        return Ok(ranges);
    }
    while at < end && ranges.len() < ranges_max {
        let first = data.next_data(at).await.map_err(failed)?;
        let Some(offset) = first.filter(|first| *first < end) else { break };
        let hole = data.next_hole(offset).await.map_err(failed)?;
        let until = hole.unwrap_or(end).min(end);
        // Another client may have punched a hole between the two calls.
        if until > offset {
            ranges.push(FileRange { offset, length: until - offset });
        }
        at = until.max(offset + 1);
    }
    Ok(ranges)
}
