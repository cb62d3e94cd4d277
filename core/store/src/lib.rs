//! State on disk: the SQL pool with its locks and transactions, and the agent's state files.
