#!/usr/bin/env bash
# aya's loader reads the kernel's types although the program gives it none with "btf(None)".
#
# aya 0.14.0. `EbpfLoader::btf` takes an `Option`: None should mean that the types of the running kernel are neither needed
# nor read. `EbpfLoader::new` has already read and parsed them, some 7 MB, and `btf(None)` only forgets them. There is no
# other constructor, so a program that loads one object on each start pays for this each time. Needs rustc, cargo and strace.
#
# Output seen:
#   before btf(None): openat(AT_FDCWD, "/sys/kernel/btf/vmlinux", O_RDONLY|O_CLOEXEC)
#   a loader without types, in its Debug output: btf: None
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
test -r /sys/kernel/btf/vmlinux
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "loader"
version = "0.0.0"
edition = "2021"
[dependencies]
aya = "=0.14.0"
TOML
cat > src/main.rs <<'RUST'
fn main() {
    let mut loader = aya::EbpfLoader::new();
    std::fs::write("/dev/null", "the loader is there").unwrap();
    loader.btf(None);
    println!("{:.26}", format!("{loader:?}"));
}
RUST
cargo build --quiet
strace --follow-forks --trace=openat --output=trace target/debug/loader > printed
opened=$(grep --only-matching 'openat(AT_FDCWD, "/sys/kernel/btf/vmlinux", [A-Z_|]*)' trace)
echo "before btf(None): $opened"
# It was read before the mark that the program sets between the two calls.
sed '/dev\/null/q' trace | grep --quiet btf/vmlinux
grep --quiet 'btf: None' printed
echo "a loader without types, in its Debug output: $(grep --only-matching 'btf: None' printed)"
