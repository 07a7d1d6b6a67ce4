//! The side of kube-rs of `benches/peers/run`. Started by it as `kube-rs-peer sync COUNT BATCH` (a
//! cache that is looked at from outside) or `kube-rs-peer micro REPETITIONS`.

#[path = "../../common.rs"]
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
        ["sync", count, batch] => sync::run(number(count), number(batch)),
        ["micro", repetitions] => micro::run(number(repetitions)),
        _ => panic!("sync COUNT BATCH, or micro REPETITIONS"),
    }
}
