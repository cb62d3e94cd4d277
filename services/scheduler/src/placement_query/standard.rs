//! The names of os-traits and os-resource-classes that queries use.

/// Traits whose names are derived from a value: the prefix, and the allowed endings (os-traits 3.9.0).
const MADE: &[(&str, &[&str])] = &[
    (
        "COMPUTE_IMAGE_TYPE",
        &[
            "AKI", "AMI", "ARI", "ISO", "PLOOP", "QCOW2", "RAW", "VDI", "VHD", "VHDX", "VMDK",
        ],
    ),
    (
        "COMPUTE_STORAGE_BUS",
        &[
            "FDC", "IDE", "LXC", "SATA", "SCSI", "UML", "USB", "VIRTIO", "XEN",
        ],
    ),
    (
        "COMPUTE_GRAPHICS_MODEL",
        &[
            "BOCHS", "CIRRUS", "GOP", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA", "XEN",
        ],
    ),
    (
        "COMPUTE_NET_VIF_MODEL",
        &[
            "E1000",
            "E1000E",
            "IGB",
            "LAN9118",
            "NE2K_PCI",
            "NETFRONT",
            "PCNET",
            "RTL8139",
            "SPAPR_VLAN",
            "SRIOV",
            "VIRTIO",
            "VMXNET",
            "VMXNET3",
        ],
    ),
    (
        "COMPUTE_ARCH",
        &["AARCH64", "MIPSEL", "PPC64LE", "RISCV64", "S390X", "X86_64"],
    ),
    (
        "HW_ARCH",
        &[
            "AARCH64",
            "ALPHA",
            "ARMV6",
            "ARMV7",
            "ARMV7B",
            "CRIS",
            "I686",
            "IA64",
            "LM32",
            "M68K",
            "MICROBLAZE",
            "MICROBLAZEEL",
            "MIPS",
            "MIPS64",
            "MIPS64EL",
            "MIPSEL",
            "OPENRISC",
            "PARISC",
            "PARISC64",
            "PPC",
            "PPC64",
            "PPC64LE",
            "PPCEMB",
            "PPCLE",
            "S390",
            "S390X",
            "SH4",
            "SH4EB",
            "SPARC",
            "SPARC64",
            "UNICORE32",
            "X86_64",
            "XTENSA",
            "XTENSAEB",
        ],
    ),
];

/// The trait `PREFIX_VALUE`, if it exists.
pub(super) fn made(prefix: &str, value: &str) -> Option<String> {
    let (_, ends) = MADE.iter().find(|(it, _)| *it == prefix)?;
    let end = value.replace('-', "_").to_uppercase();
    let is_known = ends.contains(&end.as_str());
    is_known.then(|| format!("{prefix}_{end}"))
}

/// A custom name for any text: `CUSTOM_` and the text in capitals, with `_` for every character that is not a letter or
/// digit.
pub(super) fn custom(text: &str) -> String {
    let mut name = "CUSTOM_".to_owned();
    let mut is_gap = false;
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_uppercase());
        } else if !is_gap {
            name.push('_');
        }
        is_gap = !letter.is_ascii_alphanumeric();
    }
    name
}

/// A resource class as an operator wrote it.
pub(super) fn class(text: &str) -> String {
    let upper = text.to_uppercase();
    let is_standard = berth_model::ResourceClass::STANDARD.contains(&upper.as_str());
    match is_standard || upper.starts_with("CUSTOM_") {
        true => upper,
        false => custom(&upper),
    }
}

/// A trait as an operator wrote it. A name in a namespace of os-traits is taken as a standard trait.
pub(super) fn name_of_trait(text: &str) -> String {
    const NAMESPACES: [&str; 5] = ["COMPUTE_", "HW_", "MISC_", "OWNER_", "STORAGE_"];
    if NAMESPACES
        .iter()
        .any(|namespace| text.starts_with(namespace))
    {
        return text.to_owned();
    }
    let upper = text.to_uppercase();
    match upper.starts_with("CUSTOM_") {
        true => upper,
        false => custom(&upper),
    }
}
