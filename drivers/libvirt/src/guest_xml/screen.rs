//! The screen of a guest in the document: its VNC server, video card, tablet and keyboard. As in Nova, a guest has all of
//! them or none, by `[vnc] enabled`.

use std::net::IpAddr;

use berth_model::InputBus;
use berth_virt::guest_spec::GuestSpec;
use serde::Serialize;

use super::{GuestXmlOptions, Virtualisation};
use crate::architecture::GuestArchitecture;

#[derive(Serialize)]
pub(super) struct Graphics {
    #[serde(rename = "@type")]
    kind: &'static str,
    /// libvirt chooses a free port at each start.
    #[serde(rename = "@autoport")]
    autoport: &'static str,
    #[serde(rename = "@listen")]
    listen: String,
}

#[derive(Serialize)]
pub(super) struct Video {
    model: VideoModelElement,
}

#[derive(Serialize)]
struct VideoModelElement {
    #[serde(rename = "@type")]
    kind: &'static str,
    /// Its memory in KiB.
    #[serde(rename = "@vram", skip_serializing_if = "Option::is_none")]
    vram: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Input {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@bus")]
    bus: &'static str,
}

/// The address of the VNC server; libvirt's test driver runs no guests.
fn vnc_listen(options: &GuestXmlOptions) -> Option<IpAddr> {
    let is_real = options.virtualisation != Virtualisation::Test;
    options.vnc_listen.filter(|_| is_real)
}

pub(super) fn graphics(options: &GuestXmlOptions) -> Option<Graphics> {
    vnc_listen(options).map(|listen| Graphics {
        kind: "vnc",
        autoport: "yes",
        listen: listen.to_string(),
    })
}

pub(super) fn video(spec: &GuestSpec, options: &GuestXmlOptions) -> Option<Video> {
    let machine = &spec.machine;
    vnc_listen(options).map(|_| Video {
        model: VideoModelElement {
            kind: machine.video_model.unwrap_or_default().as_str(),
            vram: machine.video_memory_mib.map(|mib| u64::from(mib) << 10),
        },
    })
}

/// A tablet tells the guest where the pointer is; a mouse only tells how it moved, so two pointers would drift apart.
pub(super) fn inputs(spec: &GuestSpec, options: &GuestXmlOptions) -> Vec<Input> {
    if vnc_listen(options).is_none() {
        return Vec::new();
    }
    let input = |kind, bus: InputBus| Input {
        kind,
        bus: bus.as_str(),
    };
    match spec.machine.input_bus {
        None if options.architecture == GuestArchitecture::X86_64 => {
            vec![input("tablet", InputBus::Usb)]
        }
        // Its machine has no keyboard of its own.
        None => vec![
            input("tablet", InputBus::Usb),
            input("keyboard", InputBus::Usb),
        ],
        Some(bus) => vec![input("tablet", bus), input("keyboard", bus)],
    }
}
