//! The processor of a guest: its features, each of which is a trait of the host, and the width of its physical addresses
//! (`hw:maxphysaddr_mode`, `hw:maxphysaddr_bits`), which GPUs with large memory regions need. Hosts are chosen by these traits.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use berth_tests::peer::Libvirtd;
use serde_json::Value;

use super::card_host::CardHost;
use crate::program::hypervisor::PATIENCE;

const NAME: &str = "wide";
/// A model with more features than older emulators have.
const MODEL: &str = "cpu_mode = \"custom\"\ncpu_models = [\"EPYC-Milan\"]";
const EMULATED: &[&str] = &[
    "--property",
    "hw:maxphysaddr_mode=emulate",
    "--property",
    "hw:maxphysaddr_bits=38",
];
const PASSTHROUGH: &[&str] = &["--property", "hw:maxphysaddr_mode=passthrough", "--wait"];

/// The flag in `/proc/cpuinfo` of each trait of a feature.
const FLAGS: &[(&str, &str)] = &[
    ("3DNOW", "3dnow"),
    ("ABM", "abm"),
    ("AESNI", "aes"),
    ("AMD_SVM", "svm"),
    ("AMXBF16", "amx_bf16"),
    ("AMXINT8", "amx_int8"),
    ("AMXTILE", "amx_tile"),
    ("AVX", "avx"),
    ("AVX2", "avx2"),
    ("AVX512BITALG", "avx512_bitalg"),
    ("AVX512BW", "avx512bw"),
    ("AVX512CD", "avx512cd"),
    ("AVX512DQ", "avx512dq"),
    ("AVX512ER", "avx512er"),
    ("AVX512F", "avx512f"),
    ("AVX512GFNI", "gfni"),
    ("AVX512IFMA", "avx512ifma"),
    ("AVX512PF", "avx512pf"),
    ("AVX512VAES", "vaes"),
    ("AVX512VBMI", "avx512vbmi"),
    ("AVX512VBMI2", "avx512_vbmi2"),
    ("AVX512VL", "avx512vl"),
    ("AVX512VNNI", "avx512_vnni"),
    ("AVX512VPCLMULQDQ", "vpclmulqdq"),
    ("AVX512VPOPCNTDQ", "avx512_vpopcntdq"),
    ("BMI", "bmi1"),
    ("BMI2", "bmi2"),
    ("CLMUL", "pclmulqdq"),
    ("F16C", "f16c"),
    ("FMA3", "fma"),
    ("FMA4", "fma4"),
    ("INTEL_VMX", "vmx"),
    ("MMX", "mmx"),
    ("MPX", "mpx"),
    ("SHA", "sha_ni"),
    ("SSE", "sse"),
    ("SSE2", "sse2"),
    ("SSE3", "pni"),
    ("SSE41", "sse4_1"),
    ("SSE42", "sse4_2"),
    ("SSE4A", "sse4a"),
    ("SSSE3", "ssse3"),
    ("SVM", "svm"),
    ("TBM", "tbm"),
    ("VMX", "vmx"),
    ("XOP", "xop"),
];

impl CardHost {
    /// Types a command on the console of the guest, once its system is ready, and answers the output from then on that is so.
    #[track_caller]
    fn type_command(&mut self, command: &str, wanted: impl Fn(&str) -> bool) -> String {
        let guest = self.until_running(NAME);
        let uuid = guest["uuid"].as_str().expect("a UUID").to_owned();
        self.console(&uuid, |output| output.contains("berth-guest: ready"));
        // QEMU reads what is typed only while the terminal is open.
        let terminal = self.virsh(&["ttyconsole", NAME]);
        let terminal = OpenOptions::new().write(true).open(terminal.trim());
        let mut terminal = terminal.expect("a terminal");
        let command = format!("{command}\n");
        terminal
            .write_all(command.as_bytes())
            .expect("a command is typed");
        self.console(&uuid, wanted)
    }

    /// The guest runs with the width, according to libvirt and to its own processor.
    #[track_caller]
    fn assert_has_width(&mut self) {
        self.until_running(NAME);
        let element = self.virsh(&["dumpxml", NAME, "--xpath", "/domain/cpu/maxphysaddr"]);
        assert_eq!(element.trim(), r#"<maxphysaddr mode="emulate" bits="38"/>"#);
        self.type_command("grep -m1 '^address sizes' /proc/cpuinfo", |output| {
            output.contains("address sizes\t: 38 bits physical")
        });
    }

    /// The processor of the guest has the feature of each trait of the host. It has no other that would be a trait.
    #[track_caller]
    fn assert_has_reported_features(&mut self) {
        const END: &str = "end of flags";
        let command = format!("grep -m1 '^flags' /proc/cpuinfo; uname -m; echo {END}");
        let ended = |output: &str| output.lines().any(|line| line == END);
        let output = self.type_command(&command, ended);
        let flags = output.lines().rfind(|line| line.starts_with("flags\t"));
        let (_, flags) = flags.and_then(|line| line.split_once(": ")).expect("flags");
        let flags: BTreeSet<&str> = flags.split_whitespace().collect();
        let reported = self.reported_traits();
        let of_features: BTreeSet<&str> = reported
            .iter()
            .filter_map(|name| name.strip_prefix("HW_CPU_X86_"))
            .collect();
        for name in &of_features {
            assert!(FLAGS.iter().any(|(known, _)| known == name), "{name}");
        }
        for (name, flag) in FLAGS {
            let (reported, has) = (of_features.contains(name), flags.contains(flag));
            assert_eq!(reported, has, "{name}: {flags:?}");
        }
        for name in ["AESNI", "AVX2", "FMA3", "SSE3", "SVM"] {
            assert!(of_features.contains(name), "{of_features:?}");
        }
        let architecture = output.lines().any(|line| line == "x86_64");
        assert_eq!(reported.contains("HW_ARCH_X86_64"), architecture);
    }

    /// The traits of the host in Placement.
    fn reported_traits(&self) -> BTreeSet<String> {
        let providers = self.placement("/resource_providers?name=card-host");
        let host = providers["resource_providers"][0]["uuid"].as_str();
        let path = format!("/resource_providers/{}/traits", host.expect("a host"));
        let answer = self.placement(&path);
        let traits = answer["traits"].as_array().expect("traits").iter();
        traits
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }
}

#[test]
fn a_guest_has_each_reported_feature_and_its_width_of_addresses_also_after_a_kill_and_a_loss_of_power()
 {
    let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
    let mut host = CardHost::start_with(libvirtd, MODEL);
    host.wait_until_healthy();
    let refused = host.try_create("other", PASSTHROUGH);
    let refused = refused.expect_err("emulated processors");
    assert!(
        refused.contains("COMPUTE_ADDRESS_SPACE_PASSTHROUGH"),
        "{refused}"
    );
    host.done(&["guest", "delete", "other", "--wait"]);

    host.create(NAME, EMULATED);
    thread::sleep(Duration::from_millis(300));
    host.kill_berth();
    host.assert_has_reported_features();
    host.assert_has_width();
    host.lose_power();
    host.start_berth();
    host.wait_until_healthy();
    host.assert_has_width();
    host.done(&["guest", "delete", NAME, "--wait"]);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
