//! What the fuzz targets look for, with bytes drawn at random and with those that fuzzing found worth keeping
//! (`fuzz/corpus`).

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::path::Path;

use oncebox_transport::fuzzing;
use proptest::collection::vec;
use proptest::prelude::*;

fn corpus(target: &str, look: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty(), "{}", folder.display());
    for file in files {
        look(&std::fs::read(file).unwrap());
    }
}

#[test]
fn what_was_worth_keeping() {
    corpus("shim", fuzzing::shim);
    corpus("retry_after", fuzzing::retry_after);
    corpus("trace_context", fuzzing::trace_context);
    corpus("url", fuzzing::url);
}

/// Frames that are well formed more often than random bytes are.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![vec(any::<u8>(), 0..40), Just(vec![0, 3, 0, 0, 0, 7]), Just(vec![0; 8])];
    let kind = prop_oneof![Just(0_u8), Just(1), Just(4), Just(7), any::<u8>()];
    let frame = (kind, 0_u8..3, any::<[u8; 4]>(), payload).prop_map(|(kind, flags, stream, payload)| {
        let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
        frame.extend(stream);
        frame.extend(payload);
        frame
    });
    let cut = prop_oneof![Just(0_usize), 0_usize..20];
    (any::<[u8; 2]>(), vec(frame, 0..20), cut).prop_map(|(how, frames, cut)| {
        let sent = frames.concat();
        [&how[..], &sent[..sent.len().saturating_sub(cut)]].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shim_passes_what_a_plain_reading_gives(sent in frames()) {
        fuzzing::shim(&sent);
    }

    #[test]
    fn any_bytes(input in vec(any::<u8>(), 0..200)) {
        fuzzing::shim(&input);
        fuzzing::retry_after(&input);
        fuzzing::trace_context(&input);
        fuzzing::url(&input);
    }

    #[test]
    fn nearly_a_retry_after(input in "[ 0-9]{0,12}|[A-Z][a-z]{2,8},? [0-9 -]{1,9}[A-Za-z]{3}[ -][0-9: ]{1,14}(GMT|UTC)?(\n.{0,30})?") {
        fuzzing::retry_after(input.as_bytes());
    }

    #[test]
    fn nearly_a_traceparent(input in "[0f]{2}-[0-9a-f]{32}-[0-9a-fA-F]{16}-[0-9]{2}(-x)?") {
        fuzzing::trace_context(input.as_bytes());
    }

    #[test]
    fn nearly_a_url(input in "(https?|socks5h?)://([a-z:]{1,9}@)?[a-z0-9.:\\[\\]]{1,20}(:[0-9]{1,6})?/[a-z?=&]{0,20}") {
        fuzzing::url(input.as_bytes());
    }
}
