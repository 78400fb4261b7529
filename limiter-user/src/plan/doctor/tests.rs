//! Tests with cards and kernels that no test machine has.

use limiter_kernel::{
    probe::{Channels, Device, Features, Machine},
    sys::{Interface, XdpMode, XdpState, requirements},
};

use super::*;

fn machine() -> Machine {
    Machine {
        release: "6.18.5".to_owned(),
        kernel: Ok(()),
        has_frags: true,
        has_tcx: true,
        missing: Vec::new(),
        may_mount: true,
        bpffs: Ok(true),
        cpus: 8,
    }
}

/// A card without problems.
fn card() -> Device {
    Device {
        interface: Interface {
            name: "eth0".to_owned(),
            index: 2,
            up: true,
            ethernet: true,
            bare_ip: false,
            mac: [0; 6],
            mtu: 1500,
            parent: Some("0000:00:05.0".to_owned()),
            ..Interface::default()
        },
        driver: Some("ena".to_owned()),
        xdp: Some(Features {
            native: true,
            frags: false,
        }),
        channels: Some(Channels {
            combined: 4,
            max_combined: 8,
            ..Channels::default()
        }),
        lro: Some(false),
        gro: Some(true),
        strips_vlan: Some(true),
        forwards: false,
        translates: false,
        has_fq: false,
        obstacle: None,
        drawback: None,
        own: Ok(None),
    }
}

fn judge(machine: Machine, device: Device) -> Diagnosis {
    diagnose("eth0", &machine, &Ok(device))
}

/// Checks one finding. `words`: texts in the finding and its advice, separated by `|`.
#[track_caller]
fn expect(diagnosis: &Diagnosis, check: &str, level: Level, words: &str) {
    let finding = diagnosis.findings.iter().find(|f| f.check == check);
    let finding = finding.expect(check);
    let text = format!("{}: {:?}", finding.found, finding.advice);
    assert_eq!(finding.level, level, "{check}: {text}");
    for word in words.split('|') {
        assert!(text.contains(word), "{check}: wanted '{word}': {text}");
    }
    assert_eq!(finding.advice.is_none(), level == Level::Ok, "{text}");
}

#[test]
fn healthy_device_has_only_ok_findings() {
    let diagnosis = judge(machine(), card());
    for finding in &diagnosis.findings {
        expect(&diagnosis, finding.check, Level::Ok, "");
    }
    assert_eq!(diagnosis.mode, Mode::Native);
}

#[test]
fn devices_with_merged_packets_or_a_program_below_have_warnings() {
    let mut tap = card();
    tap.interface.tap = true;
    let diagnosis = judge(machine(), tap);
    expect(
        &diagnosis,
        "gro",
        Level::Warning,
        "counts each as one|--hook tc",
    );
    let mut bond = card();
    bond.interface.program_below = Some("eth1".to_owned());
    let diagnosis = judge(machine(), bond);
    expect(
        &diagnosis,
        "program",
        Level::Warning,
        "'eth1'|limits of both",
    );
    assert_eq!(diagnosis.mode, Mode::Generic);
}

#[test]
fn devices_that_refuse_native_mode_use_generic_mode() {
    let mut busy = card();
    busy.channels = Some(Channels {
        combined: 8,
        max_combined: 8,
        ..Channels::default()
    });
    let fixed = Device {
        obstacle: Some("the host may send merged packets"),
        ..card()
    };
    for (device, check, words) in [
        (busy, "queues", "8 of 8|ethtool -L eth0 combined 4"),
        (fixed, "driver", "no native XDP: the host may|on the host"),
    ] {
        let diagnosis = judge(machine(), device);
        expect(&diagnosis, check, Level::Warning, words);
        assert_eq!(diagnosis.mode, Mode::Generic);
    }
}

#[test]
fn mode_with_jumbo_frames_depends_on_kernel_and_driver() {
    const MTU: &str = "ip link set eth0 mtu 3498";
    let [single, several, none] = [(true, false), (true, true), (false, false)]
        .map(|(native, frags)| Some(Features { native, frags }));
    let (old, new) = (false, true);
    for (has_frags, xdp, mtu, level, mode) in [
        (new, several, 9000, Level::Ok, Mode::Native),
        (new, single, 3498, Level::Ok, Mode::Native),
        (new, single, 3499, Level::Warning, Mode::Unknown),
        (new, none, 9000, Level::Ok, Mode::Generic),
        (new, None, 9000, Level::Warning, Mode::Unknown),
        (old, None, 9000, Level::Warning, Mode::Unknown),
        (old, None, 1500, Level::Ok, Mode::Unknown),
    ] {
        let machine = Machine {
            has_frags,
            ..machine()
        };
        let mut device = Device { xdp, ..card() };
        device.interface.mtu = mtu;
        let diagnosis = judge(machine, device);
        let words = if level == Level::Ok { "" } else { MTU };
        expect(&diagnosis, "mtu", level, words);
        assert_eq!(diagnosis.mode, mode, "{xdp:?}, {mtu}");
    }
}

#[test]
fn lro_and_gro_findings_depend_on_the_mode() {
    let diagnose = |lro, xdp| {
        let device = Device {
            lro: Some(lro),
            xdp,
            ..card()
        };
        judge(machine(), device)
    };
    let generic = Some(Features::default());
    let diagnosis = diagnose(true, card().xdp);
    expect(&diagnosis, "lro", Level::Warning, "ethtool -K eth0 lro off");
    assert_eq!(diagnosis.mode, Mode::Unknown);
    let diagnosis = diagnose(true, generic);
    expect(&diagnosis, "lro", Level::Ok, "");
    assert_eq!(diagnosis.mode, Mode::Generic);
    expect(&diagnosis, "gro", Level::Warning, "ethtool -K eth0 gro off");
    expect(&diagnose(false, None), "gro", Level::Warning, "if `attach`");
}

#[test]
fn attached_programs_are_reported_with_advice() {
    let ours = XdpState {
        mode: XdpMode::Generic,
        program_id: 17,
    };
    let diagnosis = judge(
        machine(),
        Device {
            own: Ok(Some(ours)),
            ..card()
        },
    );
    expect(
        &diagnosis,
        "program",
        Level::Ok,
        "limiter is attached already|generic",
    );
    assert_eq!(
        (diagnosis.mode, diagnosis.problems().len()),
        (Mode::Generic, 0)
    );
    let own = Err(Error::TakenOff("eth0".to_owned()));
    let diagnosis = judge(machine(), Device { own, ..card() });
    expect(&diagnosis, "program", Level::Problem, "limiter detach eth0");
    assert_eq!(
        (diagnosis.mode, diagnosis.problems().len()),
        (Mode::Native, 1)
    );
}

#[test]
fn tunnels_are_judged_by_their_packets_and_not_by_the_driver() {
    let tunnel = |bare_ip| {
        let mut device = Device {
            driver: None,
            xdp: Some(Features::default()),
            lro: Some(true),
            ..card()
        };
        device.interface.ethernet = false;
        device.interface.bare_ip = bare_ip;
        device.interface.mtu = 65_535;
        judge(machine(), device)
    };
    let diagnosis = tunnel(true);
    for finding in &diagnosis.findings {
        expect(&diagnosis, finding.check, Level::Ok, "");
    }
    assert_eq!(diagnosis.mode, Mode::Tc);
    let diagnosis = tunnel(false);
    expect(&diagnosis, "frames", Level::Problem, "neither|`remote`");
    assert_eq!(
        (diagnosis.mode, diagnosis.problems().len()),
        (Mode::Unknown, 1)
    );
}

#[test]
fn limits_in_force_are_judged_by_what_their_interface_hides() {
    let file = |lines: &str| {
        let text = format!("{lines}[[limit]]\nname = \"a\"\nrate = 5\n");
        limiter_config::file::parse(&text, std::path::Path::new(""))
            .unwrap()
            .settings
    };
    let established = file("exempt = [\"established\"]\n");
    let container_host = Device {
        translates: true,
        ..card()
    };
    assert_eq!(forwarding(&established, &card()), None);
    assert_eq!(forwarding(&file(""), &container_host), None);
    let finding = forwarding(&established, &container_host).unwrap();
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.found.contains("containers"), "{finding:?}");

    let by_vlan = |line: &str| {
        let mut settings = file("");
        settings.limits[0] =
            file(&format!("[[limit]]\nname = \"b\"\nrate = 5\n{line}\n")).limits[0].clone();
        settings
    };
    let [key, matching] = ["key = \"source,vlan\"", "match = { not = { vlan = 20 } }"].map(by_vlan);
    let keeps_tags = Device {
        strips_vlan: Some(false),
        ..card()
    };
    for (settings, device, mode, level) in [
        (&key, card(), Mode::Native, Some(Level::Warning)),
        (&matching, card(), Mode::Generic, Some(Level::Warning)),
        (&key, card(), Mode::Tc, Some(Level::Ok)),
        (&matching, keeps_tags, Mode::Native, Some(Level::Ok)),
        (&file(""), card(), Mode::Native, None),
    ] {
        let finding = vlan(settings, &device, mode);
        assert_eq!(finding.as_ref().map(|f| f.level), level, "{finding:?}");
    }
}

#[test]
fn missing_machine_requirements_are_problems() {
    let machine = Machine {
        kernel: Err(Error::Refused(
            "this kernel is 5.10.0: boot a newer one".to_owned(),
        )),
        has_tcx: false,
        missing: requirements::NEEDED[..2].to_vec(),
        may_mount: false,
        bpffs: Ok(false),
        ..machine()
    };
    let mut device = card();
    device.interface.up = false;
    (device.interface.ethernet, device.interface.bare_ip) = (false, true);
    let diagnosis = judge(machine, device);
    for (check, level, words) in [
        ("kernel", Level::Problem, "5.10.0|boot a newer"),
        ("privileges", Level::Problem, "CAP_BPF, CAP_NET_ADMIN|sudo"),
        ("bpffs", Level::Problem, "mount -t bpf"),
        ("interface", Level::Warning, "ip link set eth0 up"),
        ("frames", Level::Problem, "Ethernet"),
    ] {
        expect(&diagnosis, check, level, words);
    }
}
