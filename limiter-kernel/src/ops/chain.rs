//! `attach --chain`: in front of a program that was attached through netlink.
//!
//! A link cannot replace such a program in one step: for a moment neither program runs. Everything possible is done
//! before that moment. Within it, limiter takes the other program off, creates the link, and pins it. The other
//! program is pinned first of all, so that it survives whatever ends this process.

use std::io;

use limiter_common::abi::NEXT_FOREIGN;
use limiter_config::Mode;

use crate::{
    Error, Result,
    ops::{attach, attach::record, change::Wanted},
    state::{Foreign, generation, occupant, unpin},
    sys::{Dir, Interface, Link, XdpMode},
};

/// Attaches in front of the program on `interface` and pins in `folder`. On failure, everything is as before.
pub async fn put(interface: &Interface, wanted: &Wanted, folder: &Dir) -> Result<()> {
    let (foreign, handle) = Foreign::on(interface)?;
    let mode = foreign.mode;
    same_mode(interface, &foreign, wanted.settings.mode)?;
    let mut record = record(interface, mode, wanted)?;
    if mode == XdpMode::Generic && wanted.settings.mode == Mode::Auto {
        record.fallback = Some(format!("{foreign}, behind it, is in generic mode"));
    }
    let program = attach::load(&mut record, &wanted.bans, |program| {
        let led = program.put_next(NEXT_FOREIGN, &handle);
        led.map_err(|why| not_called(interface, &foreign, &why))
    })?;
    let fd = program.fd()?;
    let ready = async {
        foreign.pin(folder)?;
        generation::pin_first(&program, &record, folder)?;
        take_off(interface, &foreign).await
    };
    if let Err(error) = ready.await {
        // The program never left its place, unless the kernel's answer was lost.
        let _ = foreign.put_back(folder).await;
        unpin::empty(folder)?;
        return Err(error);
    }
    let link = Link::create(fd, interface.index, mode)
        .map_err(|why| attach::not_taken(interface, mode, &why.into()));
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

/// Checks that the other program stays in its mode. In another mode it might be refused, be slower, or see other
/// packets.
fn same_mode(interface: &Interface, foreign: &Foreign, wanted: Mode) -> Result<()> {
    let mode = foreign.mode;
    let can_chain = [XdpMode::Native, XdpMode::Generic].contains(&mode);
    if can_chain && (wanted == Mode::Auto || wanted.to_string() == mode.name()) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{foreign} runs on '{}' in {} mode, and --chain runs limiter in the mode of that program, native or generic: leave --mode out, or attach that program in another mode",
        interface.name,
        mode.name()
    )))
}

/// Error for a program that cannot be called by another one (kernel/bpf/core.c, `bpf_prog_map_compatible`, and
/// kernel/bpf/arraymap.c, `prog_fd_array_get_ptr`), or not by limiter: both must take packets in several buffers, or
/// neither. Only an attempt can tell.
fn not_called(interface: &Interface, foreign: &Foreign, why: &io::Error) -> Error {
    Error::Refused(format!(
        "the kernel does not let limiter hand packets on to {foreign} on '{}' ({why}): it was loaded for one device, or without the attach type of XDP (`expected_attach_type`, BPF_XDP), or libxdp attached it: load it with `bpftool prog load` and attach it with `ip link`, or limit behind it with --hook tc (Linux 6.6)",
        interface.name
    ))
}

async fn take_off(interface: &Interface, foreign: &Foreign) -> Result<()> {
    foreign.take_off().await.map_err(|why| match why.raw_os_error() {
        Some(libc::EBUSY) => Error::Refused(format!(
            "a link holds {foreign} on '{}', and --chain supports only programs attached through netlink: {}",
            interface.name,
            occupant::END_LINK
        )),
        Some(libc::EEXIST) => attach::not_taken(interface, foreign.mode, &why.into()),
        _ => Error::system("detaching the other program", why),
    })
}
