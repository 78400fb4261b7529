//! `attach --chain`: in front of a program that was attached through netlink.
//!
//! A link cannot replace such a program in one step: for a moment neither program runs. Everything possible is done
//! before that moment. Within it, limiter takes the other program off, creates the link, and pins it. The other
//! program is pinned first of all, so that it survives whatever ends this process.

use std::io;

use limiter_common::abi::NEXT_FOREIGN;

use crate::{
    config::Mode,
    kernel::{
        Error, Result,
        ops::{attach, attach::record, change::Wanted},
        state::{Foreign, foreign, generation, occupant, unpin},
        sys::{Dir, Interface, Link, XdpMode, XdpState},
    },
};

/// Attaches in front of the program on `interface` and pins in `folder`. On failure, everything is as before.
pub async fn put(interface: &Interface, wanted: &Wanted, folder: &Dir) -> Result<()> {
    let state = interface
        .xdp
        .ok_or_else(|| foreign::nothing_there(interface))?;
    same_mode(interface, state, wanted.settings.mode)?;
    let (foreign, handle) = Foreign::on(interface, state)?;
    let mut record = record(interface, state.mode, wanted)?;
    if state.mode == XdpMode::Generic && wanted.settings.mode == Mode::Auto {
        record.fallback = Some(format!("{foreign}, behind it, is in generic mode"));
    }
    let program = attach::load(&mut record, |program| {
        let led = program.put_next(NEXT_FOREIGN, &handle);
        led.map_err(|why| not_called(interface, state, &why))
    })?;
    let fd = program.fd()?;
    let ready = async {
        foreign.pin(folder)?;
        generation::pin_first(&program, &record, folder)?;
        take_off(interface, state, &foreign).await
    };
    if let Err(error) = ready.await {
        // The program never left its place, unless the kernel's answer was lost.
        let _ = foreign.put_back(folder).await;
        unpin::empty(folder)?;
        return Err(error);
    }
    let link = Link::create(fd, interface.index, state.mode)
        .map_err(|why| attach::not_taken(interface, state.mode, &why));
    let held = link.and_then(|link| {
        link.pin(folder).inspect_err(|_| {
            // Another process may still hold the link.
            let _ = link.detach();
        })
    });
    if let Err(error) = held {
        foreign.put_back(folder).await?;
        unpin::empty(folder)?;
        return Err(error);
    }
    Ok(())
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
        "the kernel does not let limiter hand packets on to {} ({why}): it was loaded for one device, or without the attach type of XDP (`expected_attach_type`, BPF_XDP), or libxdp attached it: load it with `bpftool prog load` and attach it with `ip link`",
        subject(interface, state)
    ))
}

async fn take_off(interface: &Interface, state: XdpState, foreign: &Foreign) -> Result<()> {
    foreign.take_off().await.map_err(|why| match why.raw_os_error() {
        Some(libc::EBUSY) => Error::Refused(format!(
            "{} is held by a link, and --chain supports only programs attached through netlink: {}",
            subject(interface, state),
            occupant::END_LINK
        )),
        Some(libc::EEXIST) => attach::not_taken(interface, state.mode, &why),
        _ => Error::system("detaching the other program", why),
    })
}
