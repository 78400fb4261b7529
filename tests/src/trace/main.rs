//! Interprets the program on the counted packets, and prints instructions and cache lines: `cargo xtask trace`.

use std::{os::fd::AsFd, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use limiter_common::abi::CLOCK_KERNEL;
use limiter_kernel::program::object::{ListMaps, Maps, load};
use limiter_tests::{
    cpus::pin_to,
    engine::constants,
    interpreter::{self, Counts, Program},
    program_fact,
    scenario::{COUNTED, VERDICTS, counted},
    test_run::test_run,
};

/// Interpret the program on a packet of each counted scenario, as root.
#[derive(Parser)]
#[command(bin_name = "cargo xtask trace")]
struct Arguments {
    /// Only scenarios with one of these texts in their names; without texts, all
    scenarios: Vec<String>,
    /// Print the machine instructions of each function
    #[arg(long)]
    functions: bool,
    /// Print each executed BPF instruction
    #[arg(long)]
    path: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    // The interpreter reads this processor's values.
    pin_to(0);
    for (number, (name, _)) in COUNTED.iter().enumerate() {
        let wanted = &arguments.scenarios;
        if !wanted.is_empty() && !wanted.iter().any(|text| name.contains(&**text)) {
            continue;
        }
        for verdict in VERDICTS {
            let (settings, mut frame) = counted(number, verdict);
            let (config, prefixes) = constants(&settings, CLOCK_KERNEL);
            let loaded = load(&config, Maps::New, ListMaps::New(&prefixes), false)?;
            test_run(loaded.fd()?.as_fd(), &mut frame, 0, 100)?;
            let id = program_fact(loaded.fd()?, "prog_id:").context("the program has no id")?;
            let program = Program::loaded(id)?;
            let counts = interpreter::count(&program, &frame)?;
            println!("{name}, {verdict:?}: {}", summary(&program, &counts));
            if arguments.functions {
                print_functions(&program, &counts);
            }
            if arguments.path {
                for number in &counts.path {
                    println!(
                        "    {number:6} {}",
                        program.texts.get(number).map_or("", |text| text)
                    );
                }
            }
        }
    }
    Ok(())
}

fn summary(program: &Program, counts: &Counts) -> String {
    format!(
        "{} instructions of the processor, {} of BPF, of {}; {} lines of data, {} of code; calls {:?}",
        counts.native,
        counts.bpf,
        program.code.len(),
        counts.data_lines,
        counts.code_lines,
        counts.calls
    )
}

fn print_functions(program: &Program, counts: &Counts) {
    let mut functions: Vec<_> = counts.by_function.iter().collect();
    functions.sort_by_key(|(_, native)| std::cmp::Reverse(**native));
    for (first, native) in functions {
        println!("    {native:6} {}", program.function(*first));
    }
}
