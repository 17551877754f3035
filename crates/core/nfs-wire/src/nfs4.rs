//! NFSv4.1 (RFC 8881, XDR of RFC 5662), NFSv4.2 (RFC 7862, XDR of RFC 7863), and extended
//! attributes (RFC 8276).
