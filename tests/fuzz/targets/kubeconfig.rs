//! What a kubeconfig, and what a credential plugin prints, may hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mainstay::client::fuzz::kubeconfig(bytes));
