"""The protocol whole, by the SDK: imported for HTTP, and over stdio once a client needs it."""
