//! Published rates and the arithmetic on them: what a link carries after its encoding and its protocol's overhead.
