//! The simulation.
mod network;
