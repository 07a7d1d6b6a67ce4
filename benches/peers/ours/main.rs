//! Mainstay's side of `benches/peers/run`. Started by it as `peers sync KIND COUNT BATCH` (a cache
//! that is looked at from outside) or `peers micro REPETITIONS`; without arguments, as by
//! `cargo bench`, it does the small works once.

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "shared with the other Rust program"
)]
#[path = "../common.rs"]
mod common;
mod micro;
mod sync;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().expect("a number");
    match words.as_slice() {
        ["sync", kind, count, batch] => sync::run(kind, number(count), number(batch)),
        ["micro", repetitions] => micro::run(number(repetitions)),
        _ => micro::run(1),
    }
}
