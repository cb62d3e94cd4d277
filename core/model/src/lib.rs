//! Nouns and pure decisions: the provider tree as a value, its diff, the plan, the reshape proof, the audit.
