//! Measures the processor time of a program and of all processes that it waits for, by the shell's `times`.

/// Shell commands that run the arguments.
pub const PLAIN: &str = "exec \"$0\" \"$@\"";
/// Shell commands that run the arguments, then print their times.
pub const MEASURED: &str = "{ \"$0\" \"$@\"; code=$?; times; exit $code; }";

/// Splits what [`MEASURED`] has printed into the program's output and its processor time in seconds. The last line has
/// the times of programs, in user space and in the kernel; the line before it those of the shell.
pub fn split(printed: &str) -> (&str, f32) {
    let mut seconds = 0.0;
    let mut output = printed;
    for _ in 0..2 {
        let line = output.trim_end().rsplit('\n').next().unwrap_or_default();
        let Some(sum) = sum(line) else {
            break;
        };
        seconds += sum;
        output = output.trim_end().strip_suffix(line).unwrap_or(output);
    }
    (output, seconds)
}

/// The sum of a line like `0m1.5s 1m0.25s`.
fn sum(line: &str) -> Option<f32> {
    let (user, system) = line.split_once(' ')?;
    let seconds = |time: &str| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f32>().ok()? * 60.0 + seconds.parse::<f32>().ok()?)
    };
    Some(seconds(user)? + seconds(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_and_do_not_belong_to_the_output() {
        let printed = "test a ... ok\n\n0m0.00s 0m0.25s\n1m2.5s 0m1.250s\n";
        assert_eq!(split(printed), ("test a ... ok\n\n", 64.0));
        assert_eq!(split("test a ... ok\n"), ("test a ... ok\n", 0.0));
        assert_eq!(split(""), ("", 0.0));
    }
}
