//! Calls that are awaited. [`wait`](crate::wait) says what they have in common with those
//! that block.

mod bridge;
mod coroutine;

pub use self::bridge::{Nothing, future_into_py};
pub use self::coroutine::{Coroutine, Next};
