#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| linerate_fuzz::copy_half(bytes));
