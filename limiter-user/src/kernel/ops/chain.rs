//! `attach --chain`: in front of a program that was attached through netlink.
//!
//! A link cannot replace such a program in one step: for a moment neither program runs. Everything possible is done
//! before that moment. Within it, limiter takes the other program off, creates the link, and pins it. The other
//! program is pinned first of all, so that it survives whatever ends this process.

use std::io;

use crate::{
    config::Mode,
    kernel::{
        Error, Result,
        ops::{attach, attach::record, change::Wanted},
        program::Program,
        state::{Foreign, foreign, generation, occupant, occupant::Holder, unpin},
        sys::{Dir, Interface, Link, XdpMode, XdpState},
    },
};

/// Attaches in front of the program on `interface` and pins in `folder`. On failure, everything is as before.
pub fn put(interface: &Interface, wanted: &Wanted, folder: &Dir) -> Result<()> {
    let state = interface
        .xdp
        .ok_or_else(|| foreign::nothing_there(interface))?;
    same_mode(interface, state, wanted.settings.mode)?;
    if let Holder::Link(id) = occupant::holder(state) {
        return Err(held_by_link(interface, state, Some(id)));
    }
    let (foreign, handle) = Foreign::on(interface, state)?;
    let mut record = record(interface, state.mode, wanted)?;
    if state.mode == XdpMode::Generic && wanted.settings.mode == Mode::Auto {
        record.fallback = Some(format!("{foreign}, behind it, is in generic mode"));
    }
    let program = attach::load(&mut record, |program| {
        let led = program.lead_to(&handle);
        led.map_err(|why| not_called(interface, state, &why))
    })?;
    let ready = foreign
        .pin(folder)
        .and_then(|()| generation::pin_first(&program, &record, folder))
        .and_then(|()| take_off(interface, state, &foreign));
    if let Err(error) = ready {
        // The program never left its place, unless the kernel's answer was lost.
        let _ = foreign.put_back(folder);
        unpin::empty(folder)?;
        return Err(error);
    }
    let held = create(interface, state.mode, &program, record.frags).and_then(|link| {
        link.pin(folder).inspect_err(|_| {
            // Another process may still hold the link.
            let _ = link.detach();
        })
    });
    if let Err(error) = held {
        foreign::restore(folder, Some(foreign))?;
        unpin::empty(folder)?;
        return Err(error);
    }
    Ok(())
}

fn create(interface: &Interface, mode: XdpMode, program: &Program, frags: bool) -> Result<Link> {
    Link::create(program.fd()?, interface.index, mode).map_err(|why| {
        if why.raw_os_error() == Some(libc::ERANGE) && !frags {
            return attach::refused(
                interface,
                &why,
                "its MTU needs packets in several buffers, and the program behind limiter does not support them: lower the MTU, or load that program with frags (libbpf: SEC(\"xdp.frags\"))",
            );
        }
        attach::not_taken(interface, mode, &why)
    })
}

/// The beginning of messages about the other program.
fn subject(interface: &Interface, state: XdpState) -> String {
    let program = occupant::describe(state);
    format!("the XDP program on '{}' ({program})", interface.name)
}

/// Checks that the other program stays in its mode. In another mode it might be refused, be slower, or see other
/// packets.
fn same_mode(interface: &Interface, state: XdpState, wanted: Mode) -> Result<()> {
    let can_chain = [XdpMode::Native, XdpMode::Generic].contains(&state.mode);
    if can_chain && (wanted == Mode::Auto || wanted.to_string() == state.mode.name()) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{} runs in {} mode, and --chain runs limiter in the mode of that program, native or generic: leave --mode out, or attach that program in another mode",
        subject(interface, state),
        state.mode.name()
    )))
}

/// Error for a program that cannot be called by another one (kernel/bpf/core.c, `bpf_prog_map_compatible`, and
/// kernel/bpf/arraymap.c, `prog_fd_array_get_ptr`), or not by limiter: both must take packets in several buffers, or
/// neither. Only an attempt can tell.
fn not_called(interface: &Interface, state: XdpState, why: &io::Error) -> Error {
    Error::Refused(format!(
        "the kernel does not let limiter hand packets on to {} ({why}): it was loaded for one device, or without the attach type of XDP (`expected_attach_type`, BPF_XDP), or libxdp attached it: load it with `bpftool prog load` and attach it with `ip link`, or limit behind it with --hook tc (Linux 6.6)",
        subject(interface, state)
    ))
}

fn take_off(interface: &Interface, state: XdpState, foreign: &Foreign) -> Result<()> {
    foreign
        .take_off()
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => held_by_link(interface, state, None),
            Some(libc::EPERM) => Error::refused_by_kernel(),
            Some(libc::EEXIST) => attach::refused(
                interface,
                &error,
                "its XDP program has just been changed: try again",
            ),
            _ => Error::system("detaching the other program", error),
        })
}

/// Error for a program that was not attached through netlink.
fn held_by_link(interface: &Interface, state: XdpState, link: Option<u32>) -> Error {
    let how = link.map_or_else(
        || "end the process that holds it".to_owned(),
        occupant::end_link,
    );
    Error::Refused(format!(
        "{} is held by a link, and --chain supports only programs attached through netlink: {how}",
        subject(interface, state)
    ))
}
