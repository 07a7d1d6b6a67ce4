//! What an API server may answer: objects, lists, Statuses and `Retry-After`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::client::fuzz::response(bytes));
