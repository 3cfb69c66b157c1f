#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oncebox_transport::fuzzing::trace_context(input));
