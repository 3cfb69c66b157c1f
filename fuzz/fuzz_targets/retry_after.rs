#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oncebox_transport::fuzzing::retry_after(input));
