//! The other host: control channel (Noise under a shared key), one-time data tokens, receivers, and the client's side of it.
