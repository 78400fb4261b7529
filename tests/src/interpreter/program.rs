//! A loaded program and its maps, as bpftool shows them.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::instruction::{ALU, BYTES, Instruction, LD};

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    /// Its instructions. A load of 64 bits takes two.
    pub code: Vec<Instruction>,
    /// Its functions, in the order of their first instructions.
    pub functions: Vec<Function>,
    /// The text of each instruction, by its number.
    pub texts: BTreeMap<usize, String>,
    /// Its maps.
    pub maps: Vec<Map>,
    /// Bytes of its machine code.
    pub native_bytes: usize,
    /// Bytes before the first value in the kernel's struct of an array.
    pub value_offset: u64,
    /// The kernel's functions that it calls, by the immediate of the call.
    pub helpers: BTreeMap<i32, String>,
    /// Addresses of the kernel's count of ticks.
    pub jiffies: Vec<u64>,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Number of its first instruction.
    pub first: usize,
    /// Its name.
    pub name: String,
}

/// A map of a program.
#[derive(Clone, Debug, Deserialize)]
pub struct Map {
    /// The map's id.
    pub id: u32,
    /// The kernel's name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bytes of a value.
    pub bytes_value: usize,
    /// The most entries.
    pub max_entries: u64,
}

impl Map {
    /// True if each CPU has values of its own.
    pub fn is_per_cpu(&self) -> bool {
        self.kind.starts_with("percpu")
    }

    /// Bytes from one value to the next.
    pub fn step(&self) -> u64 {
        self.bytes_value.next_multiple_of(8) as u64
    }

    /// The value at an index; of CPU 0, if each CPU has its own.
    pub fn value(&self, index: u32) -> Result<Vec<u8>> {
        #[derive(Deserialize)]
        struct Value {
            value: Vec<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Found {
            PerCpu { values: Vec<Value> },
            Shared(Value),
        }
        let id = self.id.to_string();
        let key = index.to_le_bytes().map(|byte| byte.to_string());
        let mut words = vec!["map", "lookup", "id", &id, "key"];
        words.extend(key.iter().map(String::as_str));
        let texts = match serde_json::from_slice(&bpftool(&words)?)? {
            Found::PerCpu { values } => values.into_iter().next().map(|own| own.value),
            Found::Shared(shared) => Some(shared.value),
        };
        let texts = texts.with_context(|| format!("map {id}: no value {index}"))?;
        let byte = |text: &String| u8::from_str_radix(text.trim_start_matches("0x"), 16);
        let mut bytes: Vec<_> = texts.iter().map(byte).collect::<Result<_, _>>()?;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        Ok(bytes)
    }
}

impl Program {
    /// The program with this id.
    pub fn loaded(id: u32) -> Result<Self> {
        #[derive(Deserialize)]
        struct Shown {
            bytes_jited: usize,
            map_ids: Vec<u32>,
        }
        let id = id.to_string();
        let shown: Shown = serde_json::from_slice(&bpftool(&["prog", "show", "id", &id])?)?;
        let code = code(&id)?;
        let (functions, texts) = texts(&id)?;
        let map = |id: &u32| -> Result<Map> {
            let shown = bpftool(&["map", "show", "id", &id.to_string()])?;
            Ok(serde_json::from_slice(&shown)?)
        };
        let (helpers, jiffies) = symbols(&code)?;
        Ok(Self {
            value_offset: value_offset(&code)?,
            maps: shown.map_ids.iter().map(map).collect::<Result<_>>()?,
            native_bytes: shown.bytes_jited,
            code,
            functions,
            texts,
            helpers,
            jiffies,
        })
    }

    /// The function with this first instruction.
    pub fn function(&self, first: usize) -> &str {
        let mut all = self.functions.iter();
        all.find(|function| function.first == first)
            .map_or("?", |function| &function.name)
    }
}

fn bpftool(words: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("bpftool");
    command.arg("--json").args(words).stderr(Stdio::inherit());
    let output = command.output().context("cannot run bpftool: install it")?;
    if !output.status.success() {
        bail!("bpftool {}: {}", words.join(" "), output.status);
    }
    Ok(output.stdout)
}

fn code(id: &str) -> Result<Vec<Instruction>> {
    let file = tempfile::NamedTempFile::new().context("no temporary file: set TMPDIR")?;
    let path = file.path().to_string_lossy();
    bpftool(&["prog", "dump", "xlated", "id", id, "file", &path])?;
    let bytes = fs::read(file.path())?;
    let (all, rest) = bytes.as_chunks::<BYTES>();
    if all.is_empty() || !rest.is_empty() {
        bail!("bpftool shows no instructions of program {id}");
    }
    Ok(all.iter().copied().map(Instruction::new).collect())
}

/// The functions, and the text of each instruction.
fn texts(id: &str) -> Result<(Vec<Function>, BTreeMap<usize, String>)> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        proto: Option<String>,
        disasm: String,
    }
    let lines: Vec<Line> =
        serde_json::from_slice(&bpftool(&["prog", "dump", "xlated", "id", id])?)?;
    let (mut functions, mut texts, mut number) = (Vec::new(), BTreeMap::new(), 0);
    for line in lines {
        if let Some(proto) = line.proto {
            let name = proto.split('(').next().unwrap_or_default();
            let name = name.rsplit(' ').next().unwrap_or_default().to_owned();
            functions.push(Function {
                first: number,
                name,
            });
        }
        let slots = if line.disasm.starts_with("(18)") {
            2
        } else {
            1
        };
        texts.insert(number, line.disasm);
        number += slots;
    }
    Ok((functions, texts))
}

/// Bytes before the first value of an array, from an inlined lookup: the address of the map, and an addition to it.
fn value_offset(code: &[Instruction]) -> Result<u64> {
    const ADD_IMMEDIATE: u8 = ALU + 3;
    for (number, load) in code.iter().enumerate() {
        if load.code & 7 != LD || load.source != 1 {
            continue;
        }
        let next = code.iter().skip(number + 2).take(4);
        let mut added = next.filter(|next| {
            next.code == ADD_IMMEDIATE
                && next.destination == load.destination
                && next.immediate > 200
        });
        if let Some(added) = added.next() {
            return Ok(added.immediate.unsigned_abs().into());
        }
    }
    bail!("the program has no inlined lookup in an array")
}

/// Names of the kernel's functions that are called, by the immediate of the call; and the addresses of `jiffies`.
fn symbols(code: &[Instruction]) -> Result<(BTreeMap<i32, String>, Vec<u64>)> {
    let table = fs::read_to_string("/proc/kallsyms")?;
    let lines = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?))
    });
    let (mut names, mut base, mut jiffies) = (BTreeMap::new(), 0, Vec::new());
    for (address, name) in lines {
        match name {
            "__bpf_call_base" => base = address,
            "jiffies" | "jiffies_64" => jiffies.push(address),
            _ => {}
        }
        // Of several names of one place, the first one of bpf's.
        if name.contains("bpf_") || name.contains("lookup") {
            names.entry(address).or_insert(name);
        }
    }
    if base == 0 {
        bail!("/proc/kallsyms shows no addresses: run as root, with kernel.kptr_restrict=0 or 1");
    }
    let calls = code
        .iter()
        .filter(|call| call.code == 0x85 && call.source != 1);
    let named = calls.map(|call| {
        let address = base.wrapping_add_signed(call.immediate.into());
        let name = names.get(&address).copied().unwrap_or("?");
        (call.immediate, name.to_owned())
    });
    Ok((named.collect(), jiffies))
}
