//! Guests with images from the real Glance, created with `openstack image create` as an operator does.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use berth_tests::berth::RunningBerth;
use berth_tests::peer::{AcceleratorPlugin, OpenStackShell, RealGlance, output};
use serde_json::{Value, json};

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::keystone::Region;

/// The Glance that tests share, behind the Keystone that they share.
fn glance() -> &'static RealGlance {
    static GLANCE: OnceLock<RealGlance> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().expect("no test panicked while starting it");
    GLANCE.get_or_init(|| RealGlance::start(&Region::shared().keystone).expect("Glance starts"))
}

/// A machine on which `berth up` runs, and an operator of the image service that its `[glance]` names.
struct Host {
    node: Hypervisor,
    up: RunningBerth,
    operator: OpenStackShell,
}

impl Host {
    fn start(name: &str) -> Self {
        let keystone = &Region::shared().keystone;
        glance();
        let mut node = Hypervisor::new("accelerators", name, "");
        let login = Region::shared().login(&keystone.berth());
        node.configure(&format!("[glance]\n{login}"), "");
        let mut up = node.start(&["up"]);
        node.wait_until_healthy(&mut up);
        let cloud = json!({"service": {"region_name": keystone.region(), "auth": {
            "auth_url": keystone.url(), "username": "berth", "password": "test-only", "project_name": "service",
            "user_domain_id": "default", "project_domain_id": "default"}}});
        let operator = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &cloud)
            .expect("the shell starts");
        Self { node, up, operator }
    }

    /// An image of 1 MiB, and what a guest's disk begins with.
    #[track_caller]
    fn upload(&mut self, name: &str, visibility: &str) -> (String, Vec<u8>) {
        let home = self.node.home.path("");
        let (raw, qcow2) = (home.join(format!("{name}.raw")), home.join(name));
        let bytes: Vec<u8> = name.bytes().cycle().take(1 << 20).collect();
        fs::write(&raw, &bytes).expect("a file");
        let mut convert = Command::new("qemu-img");
        convert.args(["convert", "-f", "raw", "-O", "qcow2"]);
        output(convert.arg(raw).arg(&qcow2)).expect("an image");
        let file = qcow2.display().to_string();
        let made = self.openstack(&[
            "image",
            "create",
            "--disk-format",
            "qcow2",
            "--file",
            &file,
            visibility,
            name,
        ]);
        let id = made["id"].as_str().expect("an id").to_owned();
        (id, bytes)
    }

    #[track_caller]
    fn openstack(&mut self, words: &[&str]) -> Value {
        let words = [&["--os-cloud", "service"], words].concat();
        let words = match words[2..4] {
            ["image", "create"] => [&words[..], &["-f", "json"]].concat(),
            _ => words,
        };
        let output = self.operator.run(&words).expect("the shell runs");
        assert_eq!(
            output.code,
            0,
            "{words:?}: {}\n{}",
            output.err,
            glance().log()
        );
        output.json()
    }

    /// Boots a guest of the project `tenant`, or none, and says why not.
    fn boot(&mut self, name: &str, image: &str) -> Result<String, String> {
        let project = Region::shared().keystone.tenant_project();
        let outcome = self.node.run(&[
            "guest",
            "create",
            name,
            "--vcpus",
            "1",
            "--ram",
            "128",
            "--disk",
            "1",
            "--image",
            image,
            "--project",
            project,
            "--image-format",
            "qcow2",
            "--wait",
            "-f",
            "json",
        ]);
        match outcome.code {
            0 => Ok(outcome.stdout),
            _ => Err(outcome.stderr),
        }
    }

    /// The names below `instances/`, with those of the folder of base images.
    fn disks(&self) -> Vec<String> {
        let instances = self.node.home.state_dir().join("instances");
        let names = |folder| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
            names.collect()
        };
        let mut all = names(instances.clone());
        all.extend(names(instances.join("_base")));
        all
    }
}

#[test]
fn a_guest_boots_from_an_image_of_the_real_glance_as_it_was_uploaded() {
    let mut host = Host::start("glance-boot");
    let (image, bytes) = host.upload("public-image", "--public");
    let output = host.boot("job", &image).expect("it boots");
    let base = host.disks().into_iter().find(|it| it.contains(&image));
    let base = base.unwrap_or_else(|| panic!("{:?}: {output}", host.disks()));
    let base = host
        .node
        .home
        .state_dir()
        .join(format!("instances/_base/{base}"));
    let got = fs::read(base).expect("the base image");
    assert!(got == bytes, "the disk begins with the image's bytes");
    // The base is here now; a second guest needs no more than the record.
    host.boot("job-2", &image).expect("it boots");
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn an_image_is_refused_with_the_reason_while_its_project_its_bytes_or_its_state_forbid_it() {
    let mut host = Host::start("glance-refusals");
    let tenant = Region::shared().keystone.tenant_project();
    let before = host.disks();

    let (private, _) = host.upload("private-image", "--private");
    let output = host.boot("private", &private).expect_err("it is refused");
    assert!(output.contains("belongs to another project"), "{output}");

    let (shared, _) = host.upload("shared-image", "--shared");
    let output = host.boot("unshared", &shared).expect_err("it is refused");
    assert!(output.contains("not shared with"), "{output}");

    let (corrupt, _) = host.upload("spoiled-image", "--public");
    let file = glance().file(&corrupt);
    let mut bytes = fs::read(&file).expect("the image in the store");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&file, bytes).expect("the image is changed");
    let output = host.boot("spoiled", &corrupt).expect_err("it is refused");
    assert!(output.contains("sha512"), "{output}");

    let (asleep, _) = host.upload("inactive-image", "--public");
    host.openstack(&["image", "set", "--deactivate", &asleep]);
    let output = host.boot("asleep", &asleep).expect_err("it is refused");
    assert!(output.contains("deactivated"), "{output}");

    let missing = "00000000-0000-4000-8000-000000000000";
    let output = host.boot("nobody", missing).expect_err("it is refused");
    assert!(output.contains("has no such image"), "{output}");

    assert_eq!(host.disks(), before, "what was refused leaves nothing");
    host.openstack(&["image", "add", "project", &shared, tenant]);
    host.boot("shared", &shared).expect("it is shared now");
    host.openstack(&["image", "set", "--activate", &asleep]);
    host.boot("awake", &asleep).expect("it may be had now");
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
