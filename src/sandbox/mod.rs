//! A world in one process: a node that runs pods as processes or as models, modelled MySQL servers,
//! faults. It is for `demo` and the tests; nothing else knows it.

pub mod demo;
