//! The README: every command in it is run.
