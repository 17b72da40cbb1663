//! The firing of a rule: its actions and notices.

pub(crate) mod actions;
pub(crate) mod notices;
