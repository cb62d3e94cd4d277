//! The architectures of hosts whose guests this driver builds: [`GuestArchitecture`]. A guest has its host's.

use berth_model::MachineOptions;

/// The architecture of a host and its guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestArchitecture {
    /// AMD's and Intel's.
    #[default]
    X86_64,
    /// 64-bit ARM, such as NVIDIA's Grace.
    Aarch64,
}

impl GuestArchitecture {
    /// By libvirt's name; `None` if guests of it are not supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// libvirt's name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The machines that guests can have. The first is the default.
    pub(crate) fn machines(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["q35", "pc"],
            Self::Aarch64 => &["virt"],
        }
    }

    /// The key of a flavor or an image for which a guest of this architecture has nothing.
    pub(crate) fn unsupported(self, machine: &MachineOptions) -> Option<&'static str> {
        let keys = [
            ("hw_machine_type", machine.machine_type.is_some()),
            ("hw:hide_hypervisor_id", machine.hides_hypervisor),
            ("hw_time_hpet", machine.hpet),
            ("hw:maxphysaddr_mode", machine.address_width.is_some()),
            ("hw:mem_encryption", machine.memory_encryption.is_some()),
        ];
        let mut keys = keys.into_iter().filter(|_| self == Self::Aarch64);
        keys.find(|(_, is_requested)| *is_requested)
            .map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_x86_has_is_named() {
        let machine = MachineOptions {
            hpet: true,
            ..MachineOptions::default()
        };
        let arm = GuestArchitecture::Aarch64;
        assert_eq!(arm.unsupported(&machine), Some("hw_time_hpet"));
        assert_eq!(arm.unsupported(&MachineOptions::default()), None);
        assert_eq!(GuestArchitecture::X86_64.unsupported(&machine), None);
    }
}
