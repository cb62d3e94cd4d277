//! What every service shares at the door: microversions, error documents, request ids, tokens.
