//! What is compressed comes back, damage shows, a crash leaves all or nothing.

mod crash;
mod damage;
mod fixture;
mod hostile;
mod round_trip;
