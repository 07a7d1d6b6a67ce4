//! What `/proc` says of a process, by its number or as `self`.

/// CPU so far, in seconds.
pub(crate) fn cpu(process: &str) -> f64 {
    let stat = read(process, "stat");
    let after = stat.rsplit(')').next().expect("a name");
    let words: Vec<&str> = after.split_whitespace().collect();
    let ticks = |nth: usize| words[nth].parse::<f64>().expect("a number of ticks");
    // utime and stime, in hundredths (USER_HZ).
    (ticks(11) + ticks(12)) / 100.0
}

/// A line of its status that is in kB, in bytes.
pub(crate) fn status(process: &str, name: &str) -> usize {
    let status = read(process, "status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.expect("a number of kB") << 10
}

fn read(process: &str, file: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}"));
    text.expect("the process is gone: killed for its memory?")
}
