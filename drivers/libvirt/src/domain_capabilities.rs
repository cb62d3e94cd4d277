//! Parses the domain capabilities document: the devices and firmware for one kind of guest.

use std::collections::BTreeSet;

use roxmltree::Node;

use crate::xml::{self, Reader, XmlError};

/// The parts of `virConnectGetDomainCapabilities` that are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DomainCapabilities {
    /// Buses a disk can be on, for example `virtio`.
    pub(crate) disk_buses: BTreeSet<String>,
    /// Kinds of firmware: `bios`, `efi`.
    pub(crate) firmwares: BTreeSet<String>,
    /// Whether a firmware with secure boot is there.
    pub(crate) secure_boot: bool,
    /// Models of video cards, for example `virtio`.
    pub(crate) video_models: BTreeSet<String>,
    /// AMD SEV, if the processor, the kernel and QEMU have it.
    pub(crate) sev: Option<SevCapabilities>,
    /// The processor of guests with the CPU mode `host-model`. An emulated one has all features that QEMU emulates.
    pub(crate) host_model: Option<HostModel>,
}

/// A processor as a named model with changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostModel {
    model: String,
    /// Features that the model does not have.
    added: BTreeSet<String>,
    /// Features of the model that this processor does not have.
    pub(crate) removed: BTreeSet<String>,
}

impl HostModel {
    /// The processor as the `<cpu>` of a host, without the removed features: libvirt expands such a document.
    pub(crate) fn cpu(&self, arch: &str) -> String {
        let features = self.added.iter();
        let features: String = features
            .map(|name| format!("<feature name='{name}'/>"))
            .collect();
        let model = &self.model;
        format!("<cpu><arch>{arch}</arch><model>{model}</model>{features}</cpu>")
    }
}

/// How many guests with AMD SEV run at once. An older libvirt does not tell (0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SevCapabilities {
    /// Guests with SEV.
    pub(crate) guests: u64,
    /// Guests with SEV-ES, also if the kernel does not offer it.
    pub(crate) es_guests: u64,
}

impl DomainCapabilities {
    pub(crate) fn read(text: &str) -> Result<Self, XmlError> {
        let reader = Reader::new("the domain capabilities", "domainCapabilities", text)?;
        let root = reader.root();
        let of = |path: &[&str], name: &str| values(root, path, name);
        Ok(Self {
            disk_buses: of(&["devices", "disk"], "bus"),
            firmwares: of(&["os"], "firmware"),
            secure_boot: of(&["os", "loader"], "secure").contains("yes"),
            video_models: of(&["devices", "video"], "modelType"),
            sev: sev(&reader, root)?,
            host_model: host_model(root),
        })
    }

    /// The union: what a guest of either machine can have.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.disk_buses.extend(other.disk_buses);
        self.firmwares.extend(other.firmwares);
        self.secure_boot |= other.secure_boot;
        self.video_models.extend(other.video_models);
        self.sev = self.sev.or(other.sev);
        self.host_model = self.host_model.or(other.host_model);
        self
    }
}

fn sev(reader: &Reader<'_>, root: Node<'_, '_>) -> Result<Option<SevCapabilities>, XmlError> {
    let element = xml::find(root, &["features", "sev"]);
    let Some(element) = element.filter(|it| it.attribute("supported") == Some("yes")) else {
        return Ok(None);
    };
    let number = |name, path| match xml::text(element, &[name]) {
        None => Ok(0),
        Some(text) => reader.required(path, Some(text), "a number of guests", |text| {
            text.parse().ok()
        }),
    };
    Ok(Some(SevCapabilities {
        guests: number("maxGuests", "features/sev/maxGuests")?,
        es_guests: number("maxESGuests", "features/sev/maxESGuests")?,
    }))
}

fn host_model(root: Node<'_, '_>) -> Option<HostModel> {
    let mut modes = xml::children(xml::find(root, &["cpu"])?, "mode");
    let mode = modes.find(|mode| {
        mode.attribute("name") == Some("host-model") && mode.attribute("supported") == Some("yes")
    })?;
    let named = |policy: &str| {
        let features = xml::children(mode, "feature");
        let features = features.filter(|feature| feature.attribute("policy") == Some(policy));
        let names = features.filter_map(|feature| feature.attribute("name"));
        names.map(str::to_owned).collect()
    };
    Some(HostModel {
        model: xml::text(mode, &["model"])?.to_owned(),
        added: named("require"),
        removed: named("disable"),
    })
}

/// The values of `<enum name=..>` under an element that is supported.
fn values(root: Node<'_, '_>, path: &[&str], name: &str) -> BTreeSet<String> {
    let supported =
        xml::find(root, path).filter(|element| element.attribute("supported") != Some("no"));
    supported
        .into_iter()
        .flat_map(|element| xml::children(element, "enum"))
        .filter(|one| one.attribute("name") == Some(name))
        .flat_map(|one| xml::children(one, "value"))
        .filter_map(|value| value.text())
        .map(|text| text.trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const Q35: &str = "<domainCapabilities>
      <path>/usr/bin/qemu-system-x86_64</path><domain>kvm</domain><machine>pc-q35-7.2</machine><arch>x86_64</arch>
      <os supported='yes'><enum name='firmware'><value>bios</value><value>efi</value></enum>
        <loader supported='yes'><value>/usr/share/OVMF/OVMF_CODE.fd</value>
          <enum name='secure'><value>yes</value><value>no</value></enum></loader></os>
      <memoryBacking supported='yes'><enum name='sourceType'><value>memfd</value></enum></memoryBacking>
      <devices>
        <disk supported='yes'><enum name='bus'><value>sata</value><value>virtio</value></enum></disk>
        <video supported='yes'><enum name='modelType'><value>qxl</value></enum></video>
        <tpm supported='no'><enum name='model'><value>tpm-tis</value></enum></tpm>
      </devices>
    </domainCapabilities>";

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn supported_values_are_read_and_unsupported_ones_are_not() {
        let read = DomainCapabilities::read(Q35).unwrap();
        assert_eq!(read.disk_buses, set(&["sata", "virtio"]));
        assert_eq!(read.firmwares, set(&["bios", "efi"]));
        assert!(read.secure_boot);
        assert_eq!(read.video_models, set(&["qxl"]));
    }

    /// What libvirt 9.0 reports of an EPYC with SEV in its firmware's and kernel's settings.
    const SEV: &str =
        "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>kvm</domain>
      <machine>pc-q35-7.2</machine><arch>x86_64</arch>
      <features><gic supported='no'/><vmcoreinfo supported='yes'/><genid supported='yes'/>
        <sev supported='yes'><cbitpos>51</cbitpos><reducedPhysBits>1</reducedPhysBits>
          <maxGuests>410</maxGuests><maxESGuests>99</maxESGuests></sev>
        <sgx supported='no'/></features></domainCapabilities>";

    #[test]
    fn the_contexts_of_encrypted_memory_are_read() {
        let sev = |text: &str| DomainCapabilities::read(text).map(|read| read.sev);
        let both = SevCapabilities {
            guests: 410,
            es_guests: 99,
        };
        assert_eq!(sev(SEV), Ok(Some(both)));
        assert_eq!(sev(Q35), Ok(None));
        assert_eq!(
            sev(&SEV.replace("<sev supported='yes'>", "<sev supported='no'>")),
            Ok(None)
        );
        let older = SEV.replace(
            "<maxGuests>410</maxGuests><maxESGuests>99</maxESGuests>",
            "",
        );
        assert_eq!(sev(&older), Ok(Some(SevCapabilities::default())));
        let wrong = sev(&SEV.replace("410", "many")).unwrap_err().to_string();
        assert!(wrong.contains("features/sev/maxGuests"), "{wrong}");
        // A pc has none of what a q35 has.
        let pc = DomainCapabilities::read(Q35).unwrap();
        let q35 = DomainCapabilities::read(SEV).unwrap();
        assert_eq!(pc.and(q35).sev, Some(both));
    }

    const EMULATED: &str = "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>qemu</domain>
      <machine>pc-q35-7.2</machine><arch>x86_64</arch>
      <cpu><mode name='host-passthrough' supported='no'/>
        <mode name='host-model' supported='yes'><model fallback='forbid'>EPYC-Rome</model><vendor>AMD</vendor>
          <feature policy='require' name='erms'/><feature policy='require' name='pku'/>
          <feature policy='disable' name='sha-ni'/></mode>
        <mode name='custom' supported='yes'><model usable='no'>EPYC</model></mode></cpu></domainCapabilities>";

    #[test]
    fn the_processor_that_qemu_emulates_is_read() {
        let read = |text: &str| DomainCapabilities::read(text).unwrap().host_model;
        let model = read(EMULATED).unwrap();
        assert_eq!(
            model.cpu("x86_64"),
            "<cpu><arch>x86_64</arch><model>EPYC-Rome</model><feature name='erms'/><feature name='pku'/></cpu>"
        );
        assert_eq!(model.removed, set(&["sha-ni"]));
        let unsupported = "<mode name='host-model' supported='no'>";
        assert_eq!(
            read(&EMULATED.replace("<mode name='host-model' supported='yes'>", unsupported)),
            None
        );
        assert_eq!(read(Q35), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(at in 0..Q35.len(), cut in 0usize..60, put in "[<>/'a-z0-9 &;=-]{0,12}|\\PC{0,8}") {
            let end = (at + cut).min(Q35.len());
            let _ = DomainCapabilities::read(&format!("{}{put}{}", &Q35[..at], &Q35[end..]));
            let _ = DomainCapabilities::read(&put);
        }
    }
}
