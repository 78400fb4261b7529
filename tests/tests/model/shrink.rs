//! Shortens a failing sequence, and prints it as a script.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{config::files, session::Session};

/// Maximum time for shortening.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs these steps, and detaches everything. Returns the failure, if any. `steps` then ends with the failing step.
pub fn replay(steps: &mut Vec<String>) -> Option<String> {
    let mut session = Session::new();
    for number in 0..steps.len() {
        if let Err(why) = session.step(&steps[number]) {
            steps.truncate(number + 1);
            return Some(why);
        }
    }
    session.finish(steps).err()
}

/// The shortest failing sequence found, and its failure; none if the sequence does not fail again.
pub fn shrink(mut steps: Vec<String>) -> Option<(Vec<String>, String)> {
    let start = Instant::now();
    let mut why = None;
    let mut fails = |steps: &mut Vec<String>| {
        let reason = replay(steps);
        let failed = reason.is_some();
        why = reason.or(why.take());
        failed
    };
    if !fails(&mut steps) {
        return None;
    }
    // Drops all steps of a kind at once, which removes most steps in few runs.
    let kinds: BTreeSet<String> = steps.iter().map(|line| kind(line).to_owned()).collect();
    for gone in kinds.iter().rev() {
        let mut fewer = steps.clone();
        fewer.retain(|line| kind(line) != gone);
        if fewer.len() < steps.len() && start.elapsed() < PATIENCE && fails(&mut fewer) {
            steps = fewer;
        }
    }
    let mut size = steps.len().div_ceil(2);
    while size > 0 && start.elapsed() < PATIENCE {
        let before = steps.len();
        let mut end = steps.len();
        while end > 0 && start.elapsed() < PATIENCE {
            let from = end.saturating_sub(size);
            let mut fewer = steps.clone();
            fewer.drain(from..end);
            if fails(&mut fewer) {
                steps = fewer;
            }
            end = from.min(steps.len());
        }
        // A step that was needed before may be superfluous now.
        if size > 1 || steps.len() == before {
            size /= 2;
        }
    }
    Some((steps, why?))
}

/// The verb of a step: `send`, `limiter set`.
fn kind(line: &str) -> &str {
    let words = if line.starts_with("limiter") { 2 } else { 1 };
    let end = line.match_indices(' ').nth(words - 1);
    end.map_or(line, |(end, _)| &line[..end])
}

/// The steps as a shell script; the lines after the mark can be given to the test.
pub fn script(steps: &[String]) -> String {
    let mut text = String::from(PREAMBLE);
    let used = |name: &str| steps.iter().any(|line| line.contains(name));
    for file in files().into_iter().filter(|file| used(file.name)) {
        let (name, contents) = (file.name, file.text);
        text.push_str(&format!("cat >{name} <<'END'\n{contents}END\n"));
    }
    text.push_str("set -x\n");
    text.push_str(MARK);
    steps.iter().for_each(|line| {
        text.push_str(line);
        text.push('\n');
    });
    text
}

const MARK: &str = "# steps:\n";

pub fn steps(script: &str) -> Vec<String> {
    let steps = script.split_once(MARK).map_or(script, |(_, steps)| steps);
    let lines = steps.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

const PREAMBLE: &str = r#"#!/bin/bash
# Run as root, with LIMITER=/path/to/limiter; or the test with LIMITER_MODEL_SCRIPT=this file.
cd "$(mktemp -d)"
for space in here away peer; do ip netns add $space; done
trap 'for space in here away peer; do ip netns delete $space; done' EXIT
declare -A name place
limiter() { nsenter --net=/run/netns/here "${LIMITER:-limiter}" "$@"; }
at() { ip -n "${place[$1]}" link set dev "${name[$1]}" "${@:2}"; }
create() {
  add() { ip -n here link add dev "$2" $3 numtxqueues 1 numrxqueues 1 type veth peer name far$1 numtxqueues 1 numrxqueues 1 netns peer; }
  add "$1" "$2" "index $3" || add "$1" "$2" || return
  name[$1]=$2 place[$1]=here; ip -n peer link set dev far$1 up; at "$1" up
}
delete() { ip -n "${place[$1]}" link delete dev "${name[$1]}"; }
up() { at "$1" up; }
down() { at "$1" down; }
rename() { at "$1" name "$2" && name[$1]=$2; }
away() { [ "${place[$1]}" = away ] || at "$1" netns away && place[$1]=away && at "$1" up; }
back() { [ "${place[$1]}" = here ] || at "$1" netns here && place[$1]=here && at "$1" up; }
sleep() { command sleep "$(printf 0.%03d "$1")"; }
# send FAR SOURCE COUNT: UDP from that address
send() { nsenter --net=/run/netns/peer python3 -c '
import socket, struct, sys
far, source, count = sys.argv[1:]
udp = struct.pack("!4H", 40000, 9, 26, 0) + bytes(18)
if ":" in source:
    ip = struct.pack("!IHBB", 6 << 28, 26, 17, 64) + socket.inet_pton(socket.AF_INET6, source) + bytes(16)
else:
    ip = struct.pack("!BBHIBBH", 0x45, 0, 46, 0, 64, 17, 0) + socket.inet_aton(source) + bytes([192, 0, 2, 1])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("far" + far, 0))
for _ in range(int(count)):
    wire.send(bytes([4] * 6 + [2] * 6) + (b"\x86\xdd" if ":" in source else b"\x08\x00") + ip + udp)
' "$@"; }
"#;
