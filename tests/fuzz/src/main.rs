//! The fuzzer: libFuzzer's own program with its options, for the target that `BERTH_FUZZ` names.
//!
//!   BERTH_FUZZ=candidates berth-fuzz -runs=100000 -dict=tests/fuzz/query.dict tests/fuzz/corpus/candidates

#![no_main]

use std::env;
use std::sync::OnceLock;

use berth_fuzz::Target;

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = env::var("BERTH_FUZZ").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| {
            let all: Vec<_> = Target::ALL.iter().map(|one| one.name()).collect();
            panic!("BERTH_FUZZ={name:?} is none of {}", all.join(", "))
        })
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| target().try_on(data));
