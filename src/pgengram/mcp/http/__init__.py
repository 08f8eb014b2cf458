"""MCP over HTTP: a middleware in front of the SDK's streamable transport, and the server that listens."""
