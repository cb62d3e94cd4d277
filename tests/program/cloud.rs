//! `berth up` behind its one listener, with images and with the first user that it created.

use std::fs;
use std::path::{Path, PathBuf};

use berth_tests::berth::BerthHome;
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{AcceleratorPlugin, OpenStackShell};
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::program::compute::{Operator, images_file};
use crate::program::guests::Host;

/// An operator with the `clouds.yaml` of a state folder.
pub(crate) fn operator(state: &Path) -> Operator {
    let clouds = fs::read_to_string(state.join("clouds.yaml")).expect("it was written");
    let shell = OpenStackShell::start_with(AcceleratorPlugin::OpenStackClient, &clouds);
    Operator(shell.expect("the shell starts"))
}

/// The password in a `clouds.yaml`.
pub(crate) fn password(state: &Path) -> String {
    let clouds = fs::read_to_string(state.join("clouds.yaml")).expect("it was written");
    let line = clouds
        .lines()
        .find_map(|line| line.trim().strip_prefix("password: "));
    line.expect("a password").trim_matches('"').to_owned()
}

/// An image with data that the image service serves.
pub(crate) const SERVED: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac897";

pub(crate) fn served() -> Vec<u8> {
    (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect()
}

/// The images file for a home: the hosts' image, and one with data in a folder that guests may not name.
pub(crate) fn images(home: &BerthHome) -> String {
    let file = images_file(home);
    let data = home.path("served.raw");
    fs::write(&data, served()).expect("a file");
    let mut text = fs::read_to_string(&file).expect("text");
    text += &format!(
        "[[image]]\nname = \"served\"\nid = \"{SERVED}\"\nfile = \"{}\"\ndisk_format = \"raw\"\nmin_ram = 32\n\
         properties = {{ os_distro = \"debian\" }}\n",
        data.display()
    );
    fs::write(&file, text).expect("a file");
    file
}

/// A machine with accelerators on which `berth up` runs with its one listener, and images.
pub(crate) struct Cloud {
    pub(crate) host: Host,
    pub(crate) base: String,
    _images: BerthHome,
}

impl Cloud {
    pub(crate) fn start(node: &str, more: &[(&str, &str)]) -> Self {
        let images = BerthHome::new().expect("a home");
        let file = self::images(&images);
        let folder = images.path("images").display().to_string();
        let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
        let mut environment = vec![
            ("BERTH__API__LISTEN", listen.as_str()),
            ("BERTH__COMPUTE_SERVICE__IMAGES_FILE", file.as_str()),
        ];
        environment.extend(more);
        Self {
            host: Host::start_with_images(node, &environment, Some(&folder)),
            base: format!("http://{listen}"),
            _images: images,
        }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.host.node.home.state_dir()
    }

    /// A token of the first user.
    pub(crate) fn token(&self) -> String {
        let password = password(&self.state());
        let user = json!({"name": "admin", "domain": {"id": "default"}, "password": password});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
        }});
        let ask = HttpCall::post(format!("{}/identity/v3/auth/tokens", self.base)).json(&body);
        let answer = ask.send().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
        let token = answer.headers.get("x-subject-token").expect("a token");
        token.to_str().expect("text").to_owned()
    }

    /// What the newest compute API answers, where it says yes.
    pub(crate) fn asked(&self, token: &str, ask: HttpCall) -> Value {
        let ask = ask
            .header("x-auth-token", token)
            .header("openstack-api-version", "compute 2.82");
        let answer = ask.send().expect("an answer");
        assert!(answer.status.is_success(), "{}", answer.text());
        answer.json()
    }
}
