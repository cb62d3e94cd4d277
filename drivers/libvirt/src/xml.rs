//! Helpers for reading libvirt's documents.

use roxmltree::{Document, Node};

/// A document of libvirt's that cannot be read. Names the document, so that a caller need not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XmlError {
    /// The text is not XML.
    #[error("{document} is not XML")]
    Syntax {
        document: &'static str,
        source: roxmltree::Error,
    },
    /// Another kind of document.
    #[error("{document} starts with <{found}> instead of <{expected}>")]
    OtherDocument {
        document: &'static str,
        found: String,
        expected: &'static str,
    },
    /// Something mandatory is missing or invalid.
    #[error("{document}: {element} is {found:?}, expected {expected}")]
    Unexpected {
        document: &'static str,
        /// The element or attribute, as a path.
        element: &'static str,
        /// Its text, at most 80 characters; empty if missing.
        found: String,
        expected: &'static str,
    },
}

/// A document with its name for errors.
pub(crate) struct Reader<'t> {
    name: &'static str,
    document: Document<'t>,
}

impl<'t> Reader<'t> {
    /// Parses a document with the root element `root`.
    pub(crate) fn new(
        name: &'static str,
        root: &'static str,
        text: &'t str,
    ) -> Result<Self, XmlError> {
        let document = Document::parse(text).map_err(|source| XmlError::Syntax {
            document: name,
            source,
        })?;
        let found = document.root_element().tag_name().name();
        if found != root {
            return Err(XmlError::OtherDocument {
                document: name,
                found: found.chars().take(80).collect(),
                expected: root,
            });
        }
        Ok(Self { name, document })
    }

    pub(crate) fn root(&self) -> Node<'_, 't> {
        self.document.root_element()
    }

    pub(crate) fn unexpected(
        &self,
        element: &'static str,
        found: &str,
        expected: &'static str,
    ) -> XmlError {
        XmlError::Unexpected {
            document: self.name,
            element,
            found: found.chars().take(80).collect(),
            expected,
        }
    }

    /// The text of something that must be there, read by `parse`.
    pub(crate) fn required<T>(
        &self,
        element: &'static str,
        text: Option<&str>,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, XmlError> {
        let text = text.map(str::trim).unwrap_or_default();
        parse(text).ok_or_else(|| self.unexpected(element, text, expected))
    }
}

/// The first element under `node` along a path of names.
pub(crate) fn find<'a, 't>(node: Node<'a, 't>, path: &[&str]) -> Option<Node<'a, 't>> {
    let mut at = node;
    for name in path {
        at = children(at, name).next()?;
    }
    Some(at)
}

/// The elements of one name right under `node`.
pub(crate) fn children<'a, 't: 'a>(
    node: Node<'a, 't>,
    name: &str,
) -> impl Iterator<Item = Node<'a, 't>> {
    node.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// The text of the first element along a path, without surrounding white space.
pub(crate) fn text<'a>(node: Node<'a, '_>, path: &[&str]) -> Option<&'a str> {
    find(node, path)?.text().map(str::trim)
}

/// An element's amount of memory in KiB, converted from its attribute `unit` (default KiB).
pub(crate) fn kibibytes(element: Node<'_, '_>) -> Option<u64> {
    kibibytes_of(element.text()?.trim(), element.attribute("unit"))
}

/// An amount of memory in a unit (default KiB), converted to KiB.
pub(crate) fn kibibytes_of(amount: &str, unit: Option<&str>) -> Option<u64> {
    let amount: u64 = amount.parse().ok()?;
    let bytes: u64 = match unit.unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1000 * 1000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1000 * 1000 * 1000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1000 * 1000 * 1000 * 1000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    Some(amount.checked_mul(bytes)? / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_any_unit() {
        for (text, expected) in [
            ("<m>2048</m>", Some(2048)),
            ("<m unit='KiB'>2048</m>", Some(2048)),
            ("<m unit='bytes'>2048</m>", Some(2)),
            ("<m unit='GiB'> 2 </m>", Some(2 << 20)),
            ("<m unit='MB'>1024</m>", Some(1_000_000)),
            ("<m unit='furlong'>1</m>", None),
            ("<m unit='TiB'>18446744073709551615</m>", None),
            ("<m>-1</m>", None),
            ("<m/>", None),
        ] {
            let document = Document::parse(text).unwrap();
            assert_eq!(kibibytes(document.root_element()), expected, "{text}");
        }
    }

    #[test]
    fn a_document_of_something_else_is_refused_by_name() {
        let refused = Reader::new("the capabilities", "capabilities", "<domain/>").err();
        assert_eq!(
            refused.unwrap().to_string(),
            "the capabilities starts with <domain> instead of <capabilities>"
        );
        let refused = Reader::new("the capabilities", "capabilities", "{}").err();
        assert!(matches!(refused, Some(XmlError::Syntax { .. })));
    }
}
