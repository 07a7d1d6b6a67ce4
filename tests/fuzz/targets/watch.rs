//! What may come on a watch, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::client::fuzz::watch(bytes));
