//! Tables for the claim, and a model of many machines that race for hosts.

mod claims;
mod fixtures;
mod race;
mod words;
