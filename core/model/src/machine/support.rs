//! What a host does with a key of a flavor or an image: [`HostSupport`].

/// What a host of Berth does with an extra spec or an image property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSupport {
    /// The host builds the guest accordingly.
    Honoured,
    /// An image property that places the guest like the extra spec of the same name.
    Placed,
    /// The scheduler or another service reads it.
    Scheduled,
    /// No host reads it, and the guest lacks nothing that protects it. The text says why.
    Harmless(&'static str),
    /// A guest with it is refused, because it would lack something.
    Refused {
        /// Why hosts refuse it.
        reason: &'static str,
        /// Values that request nothing, in lower case.
        unless: &'static [&'static str],
    },
}

impl HostSupport {
    pub(super) const fn refused(reason: &'static str) -> Self {
        Self::Refused {
            reason,
            unless: &[],
        }
    }

    /// Refused unless the value is false.
    pub(super) const fn unless_off(reason: &'static str) -> Self {
        let unless = &["0", "f", "false", "off", "n", "no"];
        Self::Refused { reason, unless }
    }

    /// Checks the value of a key. An empty value requests nothing.
    pub(super) fn check(self, key: &str, value: &str) -> Result<(), UnsupportedKey> {
        let Self::Refused { reason, unless } = self else {
            return Ok(());
        };
        let value = value.trim().to_lowercase();
        match value.is_empty() || unless.contains(&value.as_str()) {
            true => Ok(()),
            false => Err(UnsupportedKey::Refused {
                key: key.chars().take(80).collect(),
                reason,
            }),
        }
    }
}

/// An extra spec or image property that hosts do not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedKey {
    /// An extra spec that no host reads; it is probably misspelt.
    #[error("unknown extra spec {key}{}", nearest.map(|it| format!("; did you mean {it}?")).unwrap_or_default())]
    UnknownSpec {
        /// The key, at most 80 characters.
        key: String,
        /// The known name that is most similar.
        nearest: Option<&'static str>,
    },
    /// An image property that no host reads; it is probably misspelt.
    #[error("unknown image property {key}{}", nearest.map(|it| format!("; did you mean {it}?")).unwrap_or_default())]
    UnknownProperty {
        /// The key, at most 80 characters.
        key: String,
        /// The known name that is most similar.
        nearest: Option<&'static str>,
    },
    /// The image was uploaded from an encrypted volume (`cinder_encryption_key_id`). The text is Nova's.
    #[error("Direct booting of an image uploaded from an encrypted volume is unsupported.")]
    EncryptedVolume,
    /// Hosts refuse guests with it.
    #[error("{key} is not supported: {reason}")]
    Refused {
        /// The key, at most 80 characters.
        key: String,
        /// Why.
        reason: &'static str,
    },
}
