//! Runs a loaded program on a packet in the kernel, attached to nothing (`BPF_PROG_TEST_RUN`).

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use limiter_common::{abi::Stamp, policy::verdict::Reason};

const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// Bytes of the stamp in front of a packet.
pub const STAMP: usize = size_of::<Stamp>();

/// [`Stamp::reason`] before the program has written it: no reason.
pub const UNSAID: u32 = u32::MAX;

/// Runs an XDP program that was loaded with [`CLOCK_PACKET`](limiter_common::abi::CLOCK_PACKET) once, on a frame with
/// this stamp. Returns its `enum xdp_action` and the reason for it. Afterwards `room` has the program's output: the stamp,
/// followed by the frame. The kernel takes frames of at least 14 bytes.
pub fn run_stamped(
    program: BorrowedFd<'_>,
    stamp: Stamp,
    frame: &[u8],
    room: &mut Vec<u8>,
) -> (u32, Reason) {
    room.clear();
    room.extend(stamp.nanoseconds.to_ne_bytes());
    room.extend(stamp.reason.to_ne_bytes());
    room.extend(stamp.uncertainty.to_ne_bytes());
    room.extend(stamp.length.to_ne_bytes());
    room.extend(stamp.reserved.to_ne_bytes());
    room.extend(frame);
    let run = test_run(program, room, STAMP as u32, 1).unwrap();
    let number = u32::from_ne_bytes(room[8..12].try_into().unwrap());
    (run.action, Reason::from_number(number).unwrap())
}

/// The result of a test run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's return value, of the last repetition.
    pub action: u32,
    /// Mean nanoseconds of one repetition.
    pub nanoseconds: u32,
}

/// Runs an XDP program on `packet`. The first `metadata` bytes of it are put in front of the packet as metadata. The
/// program's output, metadata included, replaces `packet`.
pub fn test_run(
    program: BorrowedFd<'_>,
    packet: &mut [u8],
    metadata: u32,
    repeat: u32,
) -> io::Result<TestRun> {
    let length = u32::try_from(packet.len()).map_err(io::Error::other)?;
    // `struct xdp_md`: data, data_end, data_meta, and the packet's origin.
    let mut context = [metadata, length, 0, 0, 0, 0];
    let with_metadata = if metadata == 0 { 0 } else { context.len() };
    test_run_in(program, packet, &mut context[..with_metadata], repeat)
}

/// Runs a program of any kind on `packet` with this context, which may be empty. The program's output replaces both.
pub fn test_run_in(
    program: BorrowedFd<'_>,
    packet: &mut [u8],
    context: &mut [u32],
    repeat: u32,
) -> io::Result<TestRun> {
    let length = u32::try_from(packet.len()).map_err(io::Error::other)?;
    let mut attributes = TestRunAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        data_size_in: length,
        data_size_out: length,
        data_in: packet.as_ptr() as u64,
        data_out: packet.as_mut_ptr() as u64,
        repeat,
        ..TestRunAttributes::default()
    };
    if !context.is_empty() {
        attributes.context_size_in = u32::try_from(size_of_val(context)).unwrap_or(0);
        attributes.context_size_out = attributes.context_size_in;
        attributes.context_in = context.as_ptr() as u64;
        attributes.context_out = context.as_mut_ptr() as u64;
    }
    // SAFETY: the attributes are live and of the passed size, and so is the memory that they name.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw mut attributes,
            size_of::<TestRunAttributes>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TestRun {
        action: attributes.action,
        nanoseconds: attributes.nanoseconds,
    })
}

#[repr(C)]
#[derive(Default)]
struct TestRunAttributes {
    program: u32,
    action: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    nanoseconds: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
}
